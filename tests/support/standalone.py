"""A standalone cluster of Spark on this machine: a master and its workers, each in a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from support.spark_classes import QUICK_JVM

_PATIENCE = 120.0


class StandaloneCluster:
    """A master with so many workers of one core each; they end with the context.

    Attributes:
        url: ``spark://...``.
    """

    def __init__(self, folder: Path, workers: int = 2):
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers = workers
        self.url = ""

    def __enter__(self) -> StandaloneCluster:
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0", "--webui-port", "0")
            self.url = self._said(log, r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                name, limits = f"worker-{number}", ("--cores", "1", "--memory", "1g")
                log = self._start(name, "org.apache.spark.deploy.worker.Worker", "--webui-port", "0", *limits, self.url)
                self._said(log, r"(Successfully registered) with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, class_: str, *arguments: str) -> Path:
        own = self._folder / name
        own.mkdir(parents=True)
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(own / "work"),
            "SPARK_LOCAL_DIRS": str(own / "local"),
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
            "PYSPARK_PYTHON": sys.executable,
        }
        command = [str(home / "bin" / "spark-class"), class_, "--host", "127.0.0.1", *arguments]
        log = own / "log"
        with open(log, "wb") as out:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT, cwd=own)
            )
        return log

    def _said(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if match := re.search(pattern, log.read_text(errors="replace")):
                return match[1]
            if self._processes[-1].poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{log.parent.name} did not start:\n{log.read_text(errors='replace')[-2000:]}")
