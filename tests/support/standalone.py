"""A standalone cluster of Spark on this machine: a master and its workers, each as if it were another machine.

Each worker has an address of its own, 127.0.0.2 and so on, or is on one of several ``Machines``; its executors keep
state in a folder of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyspark

from penstock.engine.slots.slot import EXECUTOR_STATE_DIR
from support.machines import Machines
from support.spark_classes import QUICK_JVM, prepared_jvm

_PATIENCE = 120.0

DECOMMISSIONING = "spark.decommission.enabled=true"
"""What a program has to set, too, to be told."""


class StandaloneCluster:
    """A master with so many workers, of one core each; they end with the context.

    Attributes:
        url: ``spark://...``.
        workers: how many there were at the start.
    """

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, machines: Machines | None = None):
        self._folder = folder
        self._machines = machines
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.workers = workers
        self._cores = cores
        self.url = ""

    def __enter__(self) -> StandaloneCluster:
        try:
            self._start_master("0")
            for log in [self._start_worker(number) for number in range(self.workers)]:
                self._has_registered(log)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def host(self) -> str:
        """The address of the master, and of a driver that workers can reach."""
        return self._machines.here if self._machines else "127.0.0.1"

    def replace_master(self) -> None:
        """Kill the master, and start another one, which takes up what that one had written down."""
        self._kill("master")
        self._start_master(self.url.rpartition(":")[2])

    def replace_worker(self, number: int) -> None:
        """Kill a worker, whose executors end with it, and start another one on its machine."""
        self._kill(f"worker-{number}")
        self.add_worker(number)

    def kill_machine(self, number: int) -> None:
        """Kill a worker and all that it has started, as where a machine loses power."""
        worker = self._processes[f"worker-{number}"]
        for process in _descendants(worker.pid):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._kill(f"worker-{number}")

    def decommission(self, number: int) -> None:
        """Tell a worker that its machine will be taken away: Spark tells its executors, and they end once they have
        nothing to do."""
        self._processes[f"worker-{number}"].send_signal(signal.SIGPWR)

    def _kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def _start_master(self, port: str) -> None:
        master = "org.apache.spark.deploy.master.Master"
        log = self._start("master", self.host, master, "--port", port, "--webui-port", "0")
        self.url = self._said("master", log, r"Starting Spark master at (spark://\S+)")

    def add_worker(self, number: int) -> None:
        """Start a worker, as a machine that nobody has seen yet where its number is new."""
        self._has_registered(self._start_worker(number))

    def _has_registered(self, log: Path) -> None:
        self._said(log.parent.name, log, r"(Successfully registered) with master")

    def _start_worker(self, number: int) -> Path:
        limits = "--cores", str(self._cores), "--memory", "1g"
        worker = "org.apache.spark.deploy.worker.Worker"
        arguments = worker, "--webui-port", "0", *limits, self.url
        if self._machines:
            there, host = self._machines.command(number), self._machines.address(number)
        else:
            there, host = [], f"127.0.0.{number + 2}"
        return self._start(f"worker-{number}", host, *arguments, on=there)

    def state_of(self, number: int) -> Path:
        """Where the executors of a worker keep state."""
        return self._folder / f"worker-{number}" / "state"

    def _start(self, name: str, host: str, class_: str, *arguments: str, on: Sequence[str] = ()) -> Path:
        own = self._folder / name
        own.mkdir(parents=True, exist_ok=True)
        home = Path(pyspark.__file__).parent
        kept = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self._folder / 'kept'}"
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_WORKER_DIR": str(own / "work"),
            "SPARK_LOCAL_DIRS": str(own / "local"),
            "SPARK_LAUNCHER_OPTS": QUICK_JVM,
            "SPARK_DAEMON_JAVA_OPTS": f"{prepared_jvm()} {kept} -D{DECOMMISSIONING}",
            "PYSPARK_PYTHON": sys.executable,
            EXECUTOR_STATE_DIR: str(own / "state"),
        }
        command = [*on, str(home / "bin" / "spark-class"), class_, "--host", host, *arguments]
        log = own / "log"
        with open(log, "wb") as out:
            self._processes[name] = subprocess.Popen(
                command, env=environment, stdout=out, stderr=subprocess.STDOUT, cwd=own
            )
        return log

    def _said(self, name: str, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if match := re.search(pattern, log.read_text(errors="replace")):
                return match[1]
            if self._processes[name].poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{name} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    found = [process]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*"):
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found
