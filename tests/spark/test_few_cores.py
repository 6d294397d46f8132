"""Sessions that have too little room for all slots: those that come do the work of all, and it is said."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock import StreamsBuilder, consume, produce
from penstock.errors import ConfigError
from support.spark_classes import QUICK_JVM
from support.standalone import StandaloneCluster

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics and state are in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


@contextmanager
def session(master: str, **conf: str) -> Iterator[Any]:
    builder = SparkSession.builder.master(master).config("spark.driver.extraJavaOptions", QUICK_JVM)
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.ui.enabled", "false")
    for name, value in conf.items():
        builder = builder.config("spark." + name.replace("_", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.sparkContext.pythonExec = sys.executable
    try:
        yield spark
    finally:
        spark.stop()


def counting(topic: str) -> Any:
    builder = StreamsBuilder()
    builder.stream(topic, key=str, value=int).group_by_key().count("counts").to_stream().to(f"{topic}-totals")
    return builder.build()


def fill(topic: str, keys: str = "abcdefgh") -> None:
    produce([(key, 1) for key in keys], topic, key=str, value=int, partitions=8)


def totals(topic: str) -> list[tuple[str, int]]:
    return sorted((record.key, record.value) for record in consume(f"{topic}-totals", str, int))


def slots_of(streams: Any) -> tuple[int, int]:
    """How many slots have come, and how many are wanted."""
    return sum(slot.shared_by is None for slot in streams.slots()), len(streams.slots())


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_more_slots_than_cores_run_in_the_cores_that_there_are_and_it_is_said(caplog: pytest.LogCaptureFixture):
    fill("t")
    with session("local[2]") as spark, counting("t").start("few", spark=spark, slots=8) as streams:
        streams.process_all_available()
        assert slots_of(streams) == (2, 8)
    assert totals("t") == [(key, 1) for key in "abcdefgh"]
    assert (
        "application 'few': 2 of 8 slots have come, and do the work of all; the others join as they come: Spark runs 2 "
        "tasks at once on this machine (spark.task.cpus is 1), a slot keeps one task for as long as the program runs, "
        "and other work may have the rest; end that, give Spark more cores, or start with fewer slots"
    ) in caplog.text


def test_tasks_of_several_cores_are_counted_as_such(caplog: pytest.LogCaptureFixture):
    fill("t")
    with session("local[5]", task_cpus="2") as spark:
        with counting("t").start("default", spark=spark) as streams:
            streams.process_all_available()
            assert slots_of(streams) == (1, 1), "one of two stays free for other work"
        with counting("t").start("asked", spark=spark, slots=4) as streams:
            streams.process_all_available()
            assert slots_of(streams) == (2, 4)
    assert "Spark runs 2 tasks at once on this machine (spark.task.cpus is 2)" in caplog.text


def test_a_large_default_parallelism_makes_no_slots_that_never_come():
    fill("t")
    with session("local[3]", default_parallelism="200") as spark, counting("t").start("wide", spark=spark) as streams:
        streams.process_all_available()
        assert slots_of(streams) == (2, 2)


def test_two_programs_share_a_session_and_the_second_gets_the_rest_when_the_first_ends():
    fill("t")
    fill("u")
    with session("local[3]") as spark:
        first = counting("t").start("first", spark=spark, slots=2)
        first.process_all_available()
        with counting("u").start("second", spark=spark, slots=2) as second:
            second.process_all_available()
            assert (slots_of(first), slots_of(second)) == ((2, 2), (1, 2))
            first.stop()
            rounds = 1

            def are_all_there() -> bool:
                nonlocal rounds
                rounds += 1
                fill("u", "a")
                second.process_all_available()
                return slots_of(second) == (2, 2)

            until(are_all_there)
    assert totals("u")[: rounds + 1] == [("a", n) for n in range(1, rounds + 1)] + [("b", 1)]


def test_slots_that_wait_go_to_a_machine_that_comes_while_the_others_work_on(tmp_path: Path):
    fill("t")
    with (
        StandaloneCluster(tmp_path / "cluster", workers=1) as cluster,
        session(cluster.url, driver_host=cluster.host) as spark,
        counting("t").start("wide", spark=spark, slots=2, checkpoint=tmp_path / "checkpoint") as streams,
    ):
        streams.process_all_available()
        assert slots_of(streams) == (1, 2)
        cluster.add_worker(1)

        def are_both_there() -> bool:
            fill("t", "a")
            streams.process_all_available()
            return slots_of(streams) == (2, 2)

        until(are_both_there)
        assert {slot.host for slot in streams.slots()} == {"127.0.0.2", "127.0.0.3"}
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("penstock-wide")
        assert len(jobs) == 1, "no job was started again"


def count_in_vain(rdd: Any) -> None:
    with pytest.raises(Py4JError):
        rdd.count()


def test_a_program_for_which_others_leave_no_core_ends_with_the_numbers():
    fill("t")
    with session("local[2]") as spark:
        sleeping = spark.sparkContext.range(2, numSlices=2).map(lambda _: __import__("time").sleep(120))
        others = threading.Thread(target=lambda: count_in_vain(sleeping))
        others.start()
        until(lambda: len(spark.sparkContext.statusTracker().getActiveJobsIds()) == 1)
        began = time.monotonic()
        with pytest.raises(ConfigError) as caught, counting("t").start("none", spark=spark, slots=1) as streams:
            streams.process_all_available()
        took = time.monotonic() - began
        spark.sparkContext.cancelAllJobs()
        others.join()
    assert str(caught.value) == (
        "start: no slot has come for 1 s, and none can: Spark runs 2 tasks at once on this machine (spark.task.cpus is "
        "1), and another job has all of them. End other work, give the session more cores, or start programs that "
        "share a session with slots= so that all fit"
    )
    assert took < 60


def test_a_session_with_one_core_is_told_that_nothing_else_will_run(caplog: pytest.LogCaptureFixture):
    fill("t")
    with session("local[1]") as spark, counting("t").start("one", spark=spark) as streams:
        streams.process_all_available()
    assert (
        "application 'one': Spark runs 1 task at once, and the program's slot keeps it: until the program stops, no "
        "other job of this session runs. Give the session another core, such as local[2]"
    ) in caplog.text
