"""Measures how soon slots work when there are few cores, none, and when executors come and go. It is run by hand.

python tests/spark/times.py few | none | executors

Prints seconds. The first two use a local session, the last one a standalone cluster of this machine, with a producer
that writes five times a second. It ends with a comparison of all results with the input.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import SparkSession

from penstock import StreamsBuilder, consume, produce
from penstock.engine.slots.arrivals import Arrivals
from penstock.engine.spark.job import live_executors
from penstock.errors import ConfigError
from support.spark_classes import QUICK_JVM
from support.standalone import StandaloneCluster

KEYS = "abcdefgh"


@contextmanager
def session(master: str, **conf: str) -> Iterator[Any]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.driver.extraJavaOptions", QUICK_JVM)
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    for name, value in conf.items():
        builder = builder.config("spark." + name.replace("_", "."), value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def topology() -> Any:
    builder = StreamsBuilder()
    numbers = builder.stream("t", key=str, value=int)
    numbers.to("copies")
    numbers.group_by_key().count("counts").to_stream().to("totals")
    return builder.build()


def put(folder: Path, numbers: range) -> None:
    produce([(KEYS[n % len(KEYS)], n) for n in numbers], "t", key=str, value=int, partitions=8, log=folder / "log")


def first_slots() -> list[float]:
    """When slots have come, from now on."""
    come: list[float] = []
    welcome = Arrivals.welcome

    def noted(self: Arrivals, job: int, seconds: float = 0.0) -> bool:
        found = welcome(self, job, seconds)
        if self.first is not None and not come:
            come.append(self.first)
        return found

    Arrivals.welcome = noted  # type: ignore[method-assign]
    return come


def few(folder: Path) -> None:
    put(folder, range(80))
    commits: list[float] = []
    come = first_slots()
    with session("local[2]") as spark:
        given: dict[str, Any] = {"log": folder / "log", "state_dir": folder / "state", "slots": 8}
        given["on_progress"] = lambda progress: commits.append(time.monotonic())
        with topology().start("few", spark=spark, **given) as streams:
            streams.process_all_available()
    print(f"2 of 8 slots: first commit {commits[0] - come[0]:.1f} s behind the first slot")


def none(folder: Path) -> None:
    put(folder, range(80))
    with session("local[2]") as spark:
        context = spark.sparkContext
        sleeping = context.range(2, numSlices=2).map(lambda _: __import__("time").sleep(600))
        threading.Thread(target=sleeping.collect, daemon=True).start()
        while not context.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        began = time.monotonic()
        try:
            topology().start("none", spark=spark, log=folder / "log", state_dir=folder / "state").await_termination()
        except ConfigError as error:
            print(f"no core: error {time.monotonic() - began:.1f} s behind the start: {error}")
        context.cancelAllJobs()


class Load:
    """A producer, and when each commit came."""

    def __init__(self, folder: Path):
        self._folder, self.records, self._is_over = folder, 80, threading.Event()
        self.commits: list[float] = []
        self._thread = threading.Thread(target=self._produce)

    def _produce(self) -> None:
        while not self._is_over.wait(0.2):
            put(self._folder, range(self.records, self.records + 8))
            self.records += 8

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def longest_since(self, began: float) -> float:
        """The longest time between two commits since then."""
        times = [began, *(at for at in self.commits if at > began), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(times))


def executors(folder: Path) -> None:
    put(folder, range(80))
    load = Load(folder)
    with StandaloneCluster(folder / "cluster", workers=1, cores=1) as cluster, session(cluster.url) as spark:
        given: dict[str, Any] = {"log": folder / "log", "state_dir": folder / "state", "slots": 4}
        given["on_progress"] = lambda progress: load.commits.append(time.monotonic())
        given |= {"checkpoint": str(folder / "checkpoint"), "statestore_cache_max_bytes": 0}
        with topology().start("shop", spark=spark, **given) as streams:
            streams.process_all_available()
            load.begin()
            began = time.monotonic()
            for number in (1, 2, 3):
                cluster.add_worker(number)
            print("four executors:", *(f"{seconds:.1f} s" for seconds in delays(spark, streams, began)))
            print(f"longest time without a commit meanwhile: {load.longest_since(began):.1f} s")
            time.sleep(5)
            began = time.monotonic()
            for number in (1, 2, 3):
                cluster.kill_machine(number)
            until(lambda: hosts_of(streams) == {"127.0.0.2"} and load.commits[-1] > began + 10)
            print(f"back to one: longest time without a commit {load.longest_since(began):.1f} s")
            load.end()
            streams.process_all_available()
    found = sorted(record.value for record in consume("copies", str, int, log=folder / "log"))
    totals = [(record.key, record.value) for record in consume("totals", str, int, log=folder / "log")]
    each = load.records // len(KEYS)
    assert found == list(range(load.records)), "a record is lost or there twice"
    assert sorted(totals) == [(key, n) for key in KEYS for n in range(1, each + 1)]
    print(f"{load.records} records, each once, in {len(load.commits)} commits")


def hosts_of(streams: Any) -> set[str]:
    return {slot.host for slot in streams.slots() if slot.shared_by is None}


def delays(spark: Any, streams: Any, began: float) -> list[float]:
    """How long behind the coming of each executor its slot was at work."""
    come: dict[str, float] = {}
    works: dict[str, float] = {}
    while len(works) < 4:
        for executor in live_executors(spark.sparkContext):
            come.setdefault(executor.host, time.monotonic())
        for host in hosts_of(streams):
            works.setdefault(host, time.monotonic())
        time.sleep(0.05)
        assert time.monotonic() < began + 300, (come, works)
    return [max(works[host] - come[host], 0.0) for host in sorted(works)[1:]]


def until(holds: Any) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        {"few": few, "none": none, "executors": executors}[sys.argv[1]](Path(place))
