"""A program in micro-batches: each commit is a short job of Spark, and nothing of the program lives between two."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import (
    PunctuationType,
    State,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    Windowed,
    consume,
    produce,
)
from penstock.engine.running.start import start as started
from penstock.errors import ConfigError, ProcessingError
from support import sink_program
from support.lakes import LAKES

pytestmark = pytest.mark.slow

KEYS, RECORDS = 5, 3_000
SMALL: dict[str, Any] = {"commit_max_bytes": 3_000, "chunk_records": 50, "statestore_cache_max_bytes": 0}


def counting() -> Topology:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", value=int)
    counts = numbers.group_by(lambda key, number: number % KEYS, key=int).count("counts")
    counts.to_stream().to("counts")
    return builder.build()


def put(folder: Path, numbers: range) -> None:
    produce([(None, n) for n in numbers], "numbers", value=int, partitions=3, log=folder / "log")


def start(topology: Topology, folder: Path, spark: Any, **given: Any) -> Any:
    places = {"log": folder / "log", "state_dir": folder / "state"}
    return topology.start("shop", spark=spark, **{"engine": "micro-batch", **places, **given})


def counts_in(folder: Path) -> dict[int, list[int]]:
    """The counts of each key, in the order in which they came."""
    found: dict[int, list[int]] = {}
    for record in consume("counts", key=int, value=int, log=folder / "log"):
        found.setdefault(record.key, []).append(record.value)
    return found


def wait_for(is_there: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def jobs_of(spark: Any) -> list[Any]:
    """The jobs of the program, oldest first, as Spark's own pages have them."""
    store = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    every = [store.apply(number) for number in range(store.size())]
    return sorted((job for job in every if str(job.jobGroup()) == "Some(penstock-shop)"), key=lambda job: job.jobId())


# --- what a user gets ------------------------------------------------------------------------------------------------


def test_a_program_has_results_progress_queries_and_a_status_and_goes_on_after_a_stop(spark: Any, tmp_path: Path):
    put(tmp_path, range(50))
    told: list[Any] = []
    with start(counting(), tmp_path, spark, statestore_cache_max_bytes=0, on_progress=told.append) as streams:
        streams.process_all_available()
        assert (streams.engine, streams.state.name, streams.is_active) == ("micro-batch", "RUNNING", True)
        assert streams.store("counts").get(3) == 10
        with penstock.open_store(str(tmp_path / "state"), "counts") as counts:  # as another process does
            assert counts.get(4) == 10
        put(tmp_path, range(50, 55))
        streams.process_all_available()
        assert streams.store("counts").get(3) == 11
        assert sum(streams.offsets()["numbers"]) == 55
    assert (streams.state.name, streams.exception()) == ("NOT_RUNNING", None)
    assert [(one.records, one.total_records, one.lag) for one in told] == [(50, 50, 0), (5, 55, 0)]
    put(tmp_path, range(55, 60))
    with start(counting(), tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
        assert {key: streams.store("counts").get(key) for key in range(KEYS)} == dict.fromkeys(range(KEYS), 12)
    assert counts_in(tmp_path) == {key: list(range(1, 13)) for key in range(KEYS)}


def test_its_jobs_are_named_in_sparks_own_pages_and_there_is_none_without_records(spark: Any, tmp_path: Path):
    put(tmp_path, range(10))
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "streams")
    places = {"log": tmp_path / "log", "state_dir": str(tmp_path / "state"), "engine": "micro-batch"}
    page = "http://127.0.0.1:4044"
    before = len(jobs_of(spark))
    try:
        with started(counting(), "shop", spark=spark, page=page, trigger="50 ms", **places) as streams:
            streams.process_all_available()
            jobs = jobs_of(spark)[before:]
            time.sleep(1)  # twenty triggers with nothing to do
            assert len(jobs_of(spark)) == before + 2
            stage = context._jsc.sc().statusStore().lastStageAttempt(jobs[-1].stageIds().apply(0))
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)
    assert [job.description().get() for job in jobs] == [
        f"penstock shop: commit 1, stage {number} of 2; its page: {page}" for number in (1, 2)
    ]
    assert stage.schedulingPool() == "streams"


def test_garbage_is_collected_without_what_belongs_to_modules_and_the_program(spark: Any, tmp_path: Path):
    """Spark collects garbage after each task, which would take longer than a small commit."""
    builder = StreamsBuilder()
    builder.stream("numbers", value=int).map_values(lambda n: __import__("gc").get_freeze_count(), value=int).to(
        "left-out"
    )
    put(tmp_path, range(1))
    with start(builder.build(), tmp_path, spark, slots=1) as streams:
        streams.process_all_available()
        put(tmp_path, range(1, 2))
        streams.process_all_available()
    first, second = (record.value for record in consume("left-out", value=int, log=tmp_path / "log"))
    assert second > 10_000, first


def test_a_trigger_is_the_time_between_two_commits_and_what_came_meanwhile_is_in_the_next(spark: Any, tmp_path: Path):
    put(tmp_path, range(5))
    told: list[Any] = []
    with start(counting(), tmp_path, spark, trigger="5 seconds", on_progress=told.append):
        wait_for(lambda: len(told) == 1)
        began = time.monotonic()
        for n in (5, 10):
            put(tmp_path, range(n, n + 5))
        wait_for(lambda: len(told) == 2)
        assert time.monotonic() - began > 1.5
    assert [one.records for one in told] == [5, 10]


def test_wall_clock_punctuations_and_suppressions_come_without_records(spark: Any, tmp_path: Path):
    class Ticks:
        def init(self, context: Any) -> None:
            self._context = context
            context.schedule("300 ms", PunctuationType.WALL_CLOCK_TIME, self._tick)

        def process(self, record: Any) -> None:
            pass

        def _tick(self, now: int) -> None:
            self._context.forward(penstock.Record("tick", 1, now))

        def close(self) -> None:
            pass

    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str)
    words.process(Ticks, key=str, value=int).to("ticks")
    windows = TimeWindows.of_size_with_no_grace(300)
    final = Suppressed.until_window_closes().with_idle_advance("200 ms")
    words.group_by_key().windowed_by(windows).count().suppress(final).to_stream().to("final")
    log = tmp_path / "log"
    produce([("a", "x", 100), ("a", "y", 200), ("b", "x", 200)], "words", key=str, value=str, log=log)
    with start(builder.build(), tmp_path, spark, trigger="100 ms") as streams:
        streams.process_all_available()
        wait_for(lambda: len(list(consume("final", log=log))) == 2 and len(list(consume("ticks", log=log))) >= 3)
    assert [(record.key, record.value) for record in consume("final", log=log)] == [
        (Windowed("a", 0, 300), 2),
        (Windowed("b", 0, 300), 1),
    ]


def test_sub_topologies_that_send_to_each_other_in_a_cycle_run_in_one_spark_task(spark: Any, tmp_path: Path):
    builder = StreamsBuilder()
    users = builder.stream("users", key=str, value=str).to_table("last")
    hosts = users.left_join(users, lambda own, other: f"{own} {other}", value=str, foreign_key=str, store="hosts")
    hosts.to_stream().to("out")
    topology = builder.build()
    log = tmp_path / "log"
    produce([("a", "b", 1), ("b", "c", 2), ("c", "a", 3)], "users", key=str, value=str, log=log, partitions=2)
    before = len(jobs_of(spark))
    with start(topology, tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
        produce([("a", "c", 4)], "users", key=str, value=str, log=log)
        streams.process_all_available()
        assert {key: value for key, value, _ in streams.store("hosts").all()} == {"a": "c a", "b": "c a", "c": "a c"}
        assert streams.last_progress.commit == 2
    told = [job.description().get() for job in jobs_of(spark)[before:]]
    assert told == [f"penstock shop: commit {n}, stage {stage} of 2" for n in (1, 2) for stage in (1, 2)]


def test_rows_of_dataframes_come_in_and_results_go_into_tables(spark: Any, tmp_path: Path):
    rows = tmp_path / "rows"
    rows.mkdir()

    def put_rows(name: str, *numbers: int) -> None:
        (rows / f".{name}").write_text("\n".join(json.dumps({"k": f"key-{n % 2}", "n": n}) for n in numbers))
        (rows / f".{name}").rename(rows / f"{name}.json")

    put_rows("1", 1, 2, 3)
    builder = StreamsBuilder()
    frame = spark.readStream.schema("k string, n int").json(str(rows))
    table = builder.stream(frame, name="rows", key="k", value="n", partitions=2).group_by_key().count("counts")
    table.to_stream().to_spark_table(path=tmp_path / "table", format="parquet", name="totals")
    with start(builder.build(), tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
        put_rows("2", 4, 5)
        streams.process_all_available()
        assert streams.store("counts").get("key-1") == 3
    found = spark.read.parquet(str(tmp_path / "table")).select("key", "value").collect()
    assert sorted(map(tuple, found)) == [("key-0", 1), ("key-0", 2), ("key-1", 1), ("key-1", 2), ("key-1", 3)]


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_an_error_of_a_users_function_names_the_record_and_nothing_of_the_commit_counts(spark: Any, tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("numbers", value=int).map_values(lambda n: 10 // (n - 4), value=int).to("out")
    put(tmp_path, range(10))
    with pytest.raises(ProcessingError, match=r"topic 'numbers'.*offset.*ZeroDivisionError"):
        start(builder.build(), tmp_path, spark, trigger="available-now").await_termination()
    assert not list(consume("out", value=int, log=tmp_path / "log"))


def test_a_user_who_cancels_all_jobs_costs_an_attempt_and_no_result(spark: Any, tmp_path: Path):
    def slow(n: int) -> int:
        time.sleep(0.01)
        return n

    builder = StreamsBuilder()
    slowly = builder.stream("numbers", value=int).map_values(slow, value=int)
    slowly.group_by(lambda key, n: n % KEYS, key=int).count("counts").to_stream().to("counts")
    put(tmp_path, range(300))
    with start(builder.build(), tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        wait_for(lambda: spark.sparkContext.statusTracker().getActiveJobsIds())
        time.sleep(0.3)
        spark.sparkContext.cancelAllJobs()
        streams.process_all_available()
    assert counts_in(tmp_path) == {key: list(range(1, 61)) for key in range(KEYS)}


def test_a_stop_with_a_timeout_gives_up_a_long_commit_which_the_next_start_makes(spark: Any, tmp_path: Path):
    flag = tmp_path / "goes-on"

    def stands(n: int) -> int:
        while not flag.exists():
            time.sleep(0.05)
        return n

    builder = StreamsBuilder()
    builder.stream("numbers", value=int).map_values(stands, value=int).to("out")
    put(tmp_path, range(9))
    streams = start(builder.build(), tmp_path, spark)
    wait_for(lambda: spark.sparkContext.statusTracker().getActiveJobsIds())
    assert not streams.stop(timeout="500 ms")
    assert streams.stop()  # when the commit is given up
    flag.touch()
    with start(builder.build(), tmp_path, spark) as streams:
        streams.process_all_available()
    assert sorted(record.value for record in consume("out", value=int, log=tmp_path / "log")) == list(range(9))


def test_a_killed_python_process_is_a_repeated_attempt(spark: Any, tmp_path: Path):
    def dies_once(n: int) -> int:
        try:
            (tmp_path / "died").touch(exist_ok=False)
        except FileExistsError:
            return n
        os.kill(os.getpid(), signal.SIGKILL)
        return n

    builder = StreamsBuilder()
    numbers = builder.stream("numbers", value=int).map_values(dies_once, value=int)
    numbers.group_by(lambda key, n: n % KEYS, key=int).count("counts").to_stream().to("counts")
    put(tmp_path, range(50))
    with start(builder.build(), tmp_path, spark, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
    assert (tmp_path / "died").exists()
    assert counts_in(tmp_path) == {key: list(range(1, 11)) for key in range(KEYS)}


def test_a_database_that_another_process_holds_is_left_alone_and_the_state_is_restored_elsewhere(
    spark: Any, tmp_path: Path
):
    from penstock.state.folder_lock import lockable, takes

    put(tmp_path, range(50))
    with start(counting(), tmp_path, spark) as streams:
        streams.process_all_available()
        with lockable(tmp_path / "state" / "tasks" / "1_0.lock") as held:
            assert takes(held)
            put(tmp_path, range(50, 100))
            streams.process_all_available()
        assert {key: streams.store("counts").get(key) for key in range(KEYS)} == dict.fromkeys(range(KEYS), 20)


def test_copies_of_state_elsewhere_are_refused_before_anything_starts(spark: Any, tmp_path: Path):
    put(tmp_path, range(5))
    with pytest.raises(ConfigError, match=r"standby_replicas is 1, and the setting engine is 'micro-batch'"):
        start(counting(), tmp_path, spark, standby_replicas=1)


def test_queries_that_want_what_is_not_committed_see_what_is_and_the_program_says_so(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    put(tmp_path, range(50))
    level = {"default_interactive_query_isolation_level": "read_uncommitted"}
    with start(counting(), tmp_path, spark, trigger="1 hour", **level) as streams:
        streams.process_all_available()
        assert streams.store("counts").get(3) == 10
    assert "runs in micro-batches: queries see committed state" in caplog.text


# --- beside the other engines ----------------------------------------------------------------------------------------


def run_some_commits(engine: str, folder: Path, spark: Any, commits: int) -> tuple[int, int]:
    """Run until that many commits are made; how many records these have read, and how many were left.

    From then on the listener holds the program after each commit until a second after it was told to stop, so that
    some are left.
    """
    is_enough, is_leaving = threading.Event(), threading.Event()
    read: list[Any] = []

    def hear(progress: Any) -> None:
        read.append(progress)
        if len(read) >= commits:
            is_enough.set()
            is_leaving.wait(120)

    def watch(new: State, _: State) -> None:
        if new == State.PENDING_SHUTDOWN:
            threading.Timer(1, is_leaving.set).start()

    given: dict[str, Any] = {"engine": engine, "slots": 2, "on_progress": hear, "state_listener": watch, **SMALL}
    with start(counting(), folder, None if engine == "local" else spark, **given) as streams:
        assert streams.engine == engine
        assert is_enough.wait(120)
    return read[-1].total_records, read[-1].lag


def test_a_checkpoint_moves_between_micro_batches_slots_and_processes_in_the_middle_of_a_run(
    spark: Any, tmp_path: Path
):
    produce([(None, n) for n in range(RECORDS)], "numbers", value=int, partitions=1, log=tmp_path / "log")
    read = 0
    for engine in ("micro-batch", "spark", "micro-batch", "local", "micro-batch"):
        records, left = run_some_commits(engine, tmp_path, spark, 2)
        read += records
        assert read + left == RECORDS
        assert left > 0
    with start(counting(), tmp_path, spark, slots=2, **SMALL) as streams:
        streams.process_all_available()
        assert {key: count for key, count, _ in streams.store("counts").all()} == dict.fromkeys(range(KEYS), 600)
    assert counts_in(tmp_path) == {key: list(range(1, 601)) for key in range(KEYS)}


def test_no_core_of_spark_is_kept_between_two_commits(spark: Any, tmp_path: Path):
    put(tmp_path, range(50))
    with start(counting(), tmp_path, spark, slots=4) as streams:  # all cores of the session
        streams.process_all_available()
        assert spark.range(8, numPartitions=8).count() == 8


def test_sinks_of_a_program_have_each_record_once(spark: Any, tmp_path: Path):
    for start_at in (0, 70):
        sink_program.feed(tmp_path, start_at, start_at + 70)
        sink_program.run(tmp_path, "micro-batch", spark=spark)
    assert sink_program.rows(tmp_path) == list(range(140))
    assert sink_program.totals(tmp_path) == {f"u{one}": 20 for one in range(7)}


@pytest.mark.parametrize("kind", LAKES)
def test_lakes_of_a_program_have_each_record_once(kind: str, spark: Any, tmp_path: Path):
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg.table"}[kind])
    lake = LAKES[kind](tmp_path / "lake")
    for start_at in (0, 70):
        sink_program.feed(tmp_path, start_at, start_at + 70)
        sink_program.run(tmp_path, "micro-batch", spark=spark, sink=lake.sink)
    assert sink_program.rows_in(lake) == list(range(140))
    assert sink_program.totals_in(lake) == {f"u{one}": 20 for one in range(7)}
