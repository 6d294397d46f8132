"""A Spark Connect server on this machine, as a company has one: another process, in another folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from penstock import StreamsBuilder, produce
from support.spark_classes import QUICK_JVM, prepared_jvm

_SECONDS = 120.0

KEYS = "abcdefghi"
"""Some for each of four partitions."""


class ConnectServer:
    """A running server.

    Attributes:
        url: what ``SparkSession.builder.remote`` takes.
    """

    def __init__(self, url: str, process: subprocess.Popen[bytes]):
        self.url = url
        self._process = process

    def kill(self) -> None:
        """End it as a machine ends that loses power."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextmanager
def connect_server(folder: Path, master: str = "local[4]", **conf: str) -> Iterator[ConnectServer]:
    """A server that works in a folder of its own, and ends with the context.

    Args:
        conf: Spark's options, with ``_`` for each dot.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": prepared_jvm(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{name.replace("_", "."): value for name, value in conf.items()},
    }
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy.SparkSubmit"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", master]
    command += [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"SPARK_HOME": str(home), "SPARK_LAUNCHER_OPTS": QUICK_JVM, "PYSPARK_PYTHON": sys.executable}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    server = ConnectServer(f"sc://127.0.0.1:{port}", process)
    try:
        _wait_for(port, process, folder / "server.log")
        yield server
    finally:
        server.kill()


@contextmanager
def remote_session(server: ConnectServer) -> Iterator[Any]:
    """A client's session, and an environment that is none of a client's afterwards."""
    from pyspark.sql import SparkSession

    before = {name: value for name, value in os.environ.items() if name.startswith("SPARK_")}
    session = SparkSession.builder.remote(server.url).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        for name in [name for name in os.environ if name.startswith("SPARK_")]:
            del os.environ[name]
        os.environ.update(before)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            said = log.read_text(errors="replace")[-2000:]
            assert process.poll() is None, f"the server has ended: {said}"
            assert time.monotonic() < until, f"the server does not answer: {said}"
            time.sleep(0.1)


def counting() -> Any:
    """How many records each key has, and ten times each number by a function that has no module to be found by."""
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", key=str, value=int).map_values(lambda n: n * 10)
    numbers.to("tens")
    numbers.group_by_key().count("counts").to_stream().to("totals")
    return builder.build()


def put(folder: Path, numbers: range, partitions: int = 4) -> None:
    """Write numbers under the keys in turn."""
    rows = [(KEYS[n % len(KEYS)], n) for n in numbers]
    produce(rows, "numbers", key=str, value=int, partitions=partitions, log=folder / "log")
