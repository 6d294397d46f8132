"""Applications, on Spark and on the local engine: started, watched, stopped and started again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    KeyQuery,
    RangeQuery,
    StateQueryRequest,
    StateRestoreListener,
    StreamsBuilder,
    Topology,
    consume,
    produce,
)
from penstock.errors import AlreadyRunningError, ConfigError, ProcessingError
from penstock.query.application import open_stores
from penstock.watch.figures import Application

pytestmark = pytest.mark.slow


def counts() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.group_by(lambda key, value: value, key=str).count("counts").to_stream().to("out")
    return builder.build()


def start(folder: Path, engine: dict[str, Any], topology: Topology | None = None, **given: Any) -> Any:
    given = {"trigger": "available-now", "slots": 2, "statestore_cache_max_bytes": 0, **given}
    given = {"state_dir": folder / "state", **given}
    return (topology or counts()).start(application_id="app", log=folder / "log", **engine, **given)


def put(folder: Path, *values: str) -> None:
    produce([(f"k{i}", value, i) for i, value in enumerate(values)], "in", value=str, log=folder / "log", partitions=2)


def output(folder: Path) -> list[tuple[Any, Any]]:
    return sorted((record.key, record.value) for record in consume("out", log=folder / "log"))


@pytest.mark.kip("KS-16")
def test_a_start_goes_on_where_the_last_one_stopped(engine: dict[str, Any], tmp_path: Path):
    put(tmp_path, "a", "b", "a")
    assert start(tmp_path, engine).await_termination()
    put(tmp_path, "b")
    streams = start(tmp_path, engine)
    assert streams.await_termination()
    assert output(tmp_path) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    with streams.store("counts") as store:
        assert [(key, n) for key, n, _ in store.all()] == [("a", 2), ("b", 2)]
    assert (streams.last_progress.records, streams.last_progress.lag) == (1, 0)
    rateless = [
        {metric: figure for metric, figure in one.items() if not metric.name.endswith("-rate")}
        for one in (streams.metrics(), Application(open_stores(tmp_path / "state")).metrics())
    ]
    assert rateless[0] == rateless[1]
    assert (
        sum(n for metric, n in rateless[0].items() if (metric.scope, metric.name) == ("thread", "process-total")) == 8
    )


@pytest.mark.kip("892-13")
def test_an_application_comes_back_to_a_machine_after_another_one_had_it(engine: dict[str, Any], tmp_path: Path):
    """What Spark wrote down there is older than what is processed."""
    shared = {"checkpoint": str(tmp_path / "checkpoint")}
    for n, machine in enumerate(["one", "other", "one"]):
        put(tmp_path, "a", "b")
        assert start(tmp_path, engine, state_dir=tmp_path / machine, **shared).await_termination()
        assert output(tmp_path) == [(key, count) for key in "ab" for count in range(1, n + 2)]


def test_the_next_program_in_a_session_meets_the_slots_that_the_last_one_had(spark: Any, tmp_path: Path):
    """So it need not wait for Python to start, whatever its application id is. Spark ends processes that take seconds
    to end their task, as they may on a busy machine, so there are some more programs then."""
    put(tmp_path, *"abcdefgh")
    seen: list[set[int]] = []
    while len(seen) < 5 and (len(seen) < 2 or seen[-1] != seen[-2]):
        name, builder = f"app-{len(seen)}", StreamsBuilder()
        builder.stream("in", value=str).map_values(lambda value: os.getpid(), value=int).to(name)
        streams = builder.build().start(
            application_id=name, log=tmp_path / "log", state_dir=tmp_path / name, spark=spark,
            trigger="available-now", slots=2,
        )  # fmt: skip
        assert streams.await_termination()
        seen.append({record.value for record in consume(name, log=tmp_path / "log")})
    assert seen[-1] == seen[-2]
    assert len(seen[-1]) == 2


def test_a_start_with_nothing_to_do_makes_no_commit(engine: dict[str, Any], tmp_path: Path):
    put(tmp_path, "a")
    assert start(tmp_path, engine).await_termination()
    again = start(tmp_path, engine)
    assert again.await_termination()
    assert again.last_progress is None


@pytest.mark.kip("KS-10")
def test_the_handle_tells_of_its_life_rests_when_paused_and_cleans_up_when_it_has_stopped(
    engine: dict[str, Any], tmp_path: Path
):
    changes: list[str] = []
    put(tmp_path, "a")
    streams = start(tmp_path, engine, trigger=None, state_listener=lambda new, old: changes.append(f"{old} -> {new}"))
    streams.process_all_available()
    assert streams.state == "RUNNING"
    streams.pause()
    assert streams.is_paused
    streams.resume()
    put(tmp_path, "a")
    streams.process_all_available()
    with pytest.raises(ConfigError, match="is RUNNING; stop it first"):
        streams.clean_up()
    assert streams.stop("60 s")
    assert changes == [
        "CREATED -> REBALANCING",
        "REBALANCING -> RUNNING",
        "RUNNING -> PENDING_SHUTDOWN",
        "PENDING_SHUTDOWN -> NOT_RUNNING",
    ]
    streams.clean_up()
    assert not (tmp_path / "state" / "tasks").exists()
    put(tmp_path, "a")
    assert start(tmp_path, engine).await_termination()
    assert output(tmp_path) == [("a", 1), ("a", 2), ("a", 3)]


@pytest.mark.kip("KS-09", "KS-10")
def test_listeners_and_a_handler_that_are_set_on_the_handle_are_heard_from_then_on(
    engine: dict[str, Any], tmp_path: Path
):
    died = tmp_path / "died"

    def good(key: str, value: str) -> str:
        if value == "bad":
            raise ValueError(value)
        if value == "dies" and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by(good, key=str).count("counts").to_stream().to("out")
    put(tmp_path, *"abcd")  # some for each task
    streams = start(tmp_path, engine, builder.build(), trigger=None)
    streams.process_all_available()
    changes, asked, restored = [], [], Restored()
    answers = iter(["replace", "stop"])

    def handler(error: Exception) -> str:
        asked.append(type(error))
        return next(answers)

    streams.set_state_listener(lambda new, old: changes.append(f"{old} -> {new}"))
    streams.set_uncaught_exception_handler(handler)
    streams.set_global_state_restore_listener(restored)
    shutil.rmtree(tmp_path / "state" / "tasks")  # so that tasks in another process have something to restore
    put(tmp_path, "dies")
    streams.process_all_available()
    assert restored.stores == {"counts"}
    assert (changes, asked) == (["RUNNING -> REBALANCING", "REBALANCING -> RUNNING"], [])
    put(tmp_path, "bad")
    with pytest.raises(ProcessingError, match="ValueError"):
        streams.await_termination()
    assert asked == [ProcessingError, ProcessingError]
    assert changes[2:] == ["RUNNING -> PENDING_ERROR", "PENDING_ERROR -> ERROR"]
    for set_it in (streams.set_state_listener, streams.set_uncaught_exception_handler):
        with pytest.raises(ConfigError, match="is a function of"):
            set_it("no function")


class Restored(StateRestoreListener):
    """The stores whose restores it has heard of."""

    def __init__(self) -> None:
        self.stores: set[str] = set()

    def on_restore_end(self, topic_partition: Any, store_name: str, total_restored: int) -> None:
        self.stores.add(store_name)


@pytest.mark.kip("KS-14")
def test_the_handle_answers_typed_queries_partition_by_partition(engine: dict[str, Any], tmp_path: Path):
    put(tmp_path, *"abcdabc")
    with start(tmp_path, engine, trigger=None) as streams:
        streams.process_all_available()
        request = StateQueryRequest.in_store("counts")
        every = streams.query_state(request.with_query(RangeQuery.with_no_bounds()))
        found = [row for one in every.partition_results.values() for row in one.result]
        assert (sorted(found), sorted(every.partition_results)) == ([("a", 2), ("b", 2), ("c", 2), ("d", 1)], [0, 1])
        assert streams.query_state(request.with_query(KeyQuery.with_key("d"))).only_partition_result.result == 1


@pytest.mark.kip("KS-06")
def test_a_topic_that_appears_and_matches_is_taken_up_while_it_runs(engine: dict[str, Any], tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream(re.compile("in.*"), value=str).group_by_key().count("counts").to_stream().to("out")
    changes: list[str] = []
    put(tmp_path, "a")
    with start(
        tmp_path, engine, builder.build(), trigger=None, state_listener=lambda new, old: changes.append(str(new))
    ) as streams:
        streams.process_all_available()
        produce([("k0", "b", 5)], "in-later", value=str, log=tmp_path / "log", partitions=2)
        over = time.monotonic() + 60
        while len(output(tmp_path)) < 2 and streams.is_active and time.monotonic() < over:
            time.sleep(0.05)
        assert (streams.exception(), streams.topology.source_topics) == (None, ("in", "in-later"))
        streams.process_all_available()
    assert output(tmp_path) == [("k0", 1), ("k0", 2)]
    assert changes[:4] == ["REBALANCING", "RUNNING", "REBALANCING", "RUNNING"]


def test_records_are_taken_as_they_come_until_it_is_stopped(engine: dict[str, Any], tmp_path: Path):
    put(tmp_path, "a")
    with start(tmp_path, engine, trigger=None) as streams:
        streams.process_all_available()
        put(tmp_path, "a", "b")
        streams.process_all_available()
        assert output(tmp_path) == [("a", 1), ("a", 2), ("b", 1)]
        assert streams.is_active
        assert not streams.await_termination(timeout=0.2)
    assert not streams.is_active
    assert streams.exception() is None


def test_a_second_program_under_the_same_id_is_refused(engine: dict[str, Any], tmp_path: Path):
    put(tmp_path, "a")
    with (
        start(tmp_path, engine, trigger="100 ms"),
        pytest.raises(AlreadyRunningError, match="'app' is running already"),
    ):
        start(tmp_path, engine)


def test_a_record_that_fails_stops_the_application_and_nothing_of_its_commit_counts(
    engine: dict[str, Any], tmp_path: Path
):
    put(tmp_path, "1", "0")
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(lambda value: 1 // int(value), value=int).to("out")
    streams = start(tmp_path, engine, builder.build())
    with pytest.raises(ProcessingError, match="ZeroDivisionError") as error:
        streams.await_termination()
    assert "topic 'in'" in str(error.value)
    assert "test_streams.py" in str(error.value)
    assert list(consume("out", log=tmp_path / "log")) == []
    assert not streams.is_active


def settings_of(spark: Any) -> dict[str, str]:
    """All settings of a session that say how it works."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")  # first: Spark completes its settings for SQL by then
    return dict(spark.sparkContext.getConf().getAll()) | {"spark.sql.shuffle.partitions": partitions}


def test_a_session_that_is_given_stays_as_it_is(spark: Any, tmp_path: Path):
    before = settings_of(spark)
    put(tmp_path, "a")
    streams = start(tmp_path, {"spark": spark})
    assert streams.spark is spark
    assert streams.await_termination()
    after = settings_of(spark)
    changed = {name: (before.get(name), value) for name, value in after.items() if before.get(name) != value}
    assert (changed, before.keys() - after.keys()) == ({}, set())
    assert spark.range(10).count() == 10


def test_spark_shows_one_long_job_under_a_readable_name(spark: Any, tmp_path: Path):
    put(tmp_path, "a")
    store = spark.sparkContext._jsc.sc().statusStore()
    streams = counts().start(
        application_id="named", log=tmp_path / "log", state_dir=tmp_path / "state", spark=spark, trigger="available-now"
    )
    assert streams.await_termination()
    jobs = store.jobsList(None)
    descriptions = [jobs.apply(i).description() for i in range(jobs.size())]
    names = [text.get() for text in descriptions if text.isDefined()]
    assert [name for name in names if "named" in name] == ["penstock named: 2 sub-topologies in 2 slots until it stops"]


def test_progress_is_told_after_every_commit(engine: dict[str, Any], tmp_path: Path):
    put(tmp_path, *"abcdefgh")
    told: list[Any] = []
    streams = start(tmp_path, engine, on_progress=told.append, commit_max_bytes=1, chunk_records=1)
    assert streams.await_termination()
    assert sum(progress.records for progress in told) == 8
    assert [progress.commit for progress in told] == list(range(1, len(told) + 1))  # 0 took over
    assert told[-1].lag == 0
    assert all(progress.seconds > 0 for progress in told)


def test_slots_run_the_python_of_the_program_where_nobody_chose_one(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Spark's own choice, ``python3`` on the path, need not have what the program has."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python3")
    put(tmp_path, "a")
    assert start(tmp_path, {"spark": spark}).await_termination()
    assert output(tmp_path) == [("a", 1)]


def test_slots_keep_their_processes_from_commit_to_commit(engine: dict[str, Any], tmp_path: Path):
    """A process imports, opens and warms up once; a batch that starts new ones would take seconds."""
    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(lambda value: os.getpid(), value=int).to("out")
    put(tmp_path, "a", "b", "c", "d")
    with start(tmp_path, engine, builder.build(), trigger="100 ms") as streams:
        streams.process_all_available()
        put(tmp_path, "a", "b", "c", "d")
        streams.process_all_available()
        assert streams.last_progress.commit == 2
    processes = [process for _, process in output(tmp_path)]
    assert len(processes) == 8
    assert len(set(processes)) == 2


def test_a_stopped_handle_raises_and_still_tells_what_was_committed(engine: dict[str, Any], tmp_path: Path):
    put(tmp_path, "a")
    streams = start(tmp_path, engine, trigger="100 ms")
    streams.process_all_available()
    assert re.fullmatch("<Streams of application 'app': running, commit [0-9]+>", repr(streams))
    streams.stop()
    assert re.fullmatch("<Streams of application 'app': stopped, commit [0-9]+>", repr(streams))
    for asked in (
        streams.process_all_available,
        lambda: streams.store("counts"),
        lambda: streams.on_progress(print),
    ):
        with pytest.raises(ConfigError, match="application 'app' was stopped, or has ended; start it again"):
            asked()
    streams.stop()
    assert streams.await_termination()
    assert (streams.is_active, streams.exception(), sum(map(sum, streams.offsets().values()))) == (False, None, 1)
    assert streams.engine == engine["engine"]
