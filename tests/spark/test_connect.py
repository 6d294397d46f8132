"""Spark Connect: the server is another process in another folder, and the client sees neither executors nor a JVM."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import harness
import pytest

import penstock
from penstock import StreamsBuilder, consume, produce
from penstock.errors import ConfigError
from penstock.sources import HttpSource
from support import sink_program
from support.connect import KEYS, connect_server, counting, put, remote_session

pytestmark = pytest.mark.slow

ROWS = [("a", 1, 1_000), ("b", 2, 2_000), ("a", 3, 3_000)]
COLUMNS = "key string, n long, at long"


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with connect_server(tmp_path_factory.mktemp("server")) as server, remote_session(server) as session:
        yield session


# --- DataFrames ------------------------------------------------------------------------------------------------------


def test_a_data_frame_goes_into_a_topic_and_comes_out_with_its_types(remote: Any, tmp_path: Path):
    penstock.write(remote.createDataFrame(ROWS, COLUMNS), "t", "key", "n", "at", log=tmp_path, partitions=2)
    found = sorted((record.key, record.value, record.timestamp) for record in consume("t", str, int, log=tmp_path))
    assert found == [("a", 1, 1_000), ("a", 3, 3_000), ("b", 2, 2_000)]
    frame = remote.read.format("penstock").option("topic", "t").option("log", str(tmp_path)).option("typed", "true")
    rows = frame.load().selectExpr("key", "value", "double(timestamp)").orderBy("timestamp").collect()
    assert [tuple(row) for row in rows] == [("a", 1, 1.0), ("b", 2, 2.0), ("a", 3, 3.0)]


def test_streams_of_rows_go_from_topic_to_topic_once(remote: Any, tmp_path: Path):
    produce(ROWS, "t", key=str, value=int, log=tmp_path)
    stream = remote.readStream.format("penstock").option("topic", "t").option("log", str(tmp_path))
    rows = stream.option("typed", "true").load().selectExpr("key", "value + 1 AS value", "timestamp")
    for _ in range(2):  # the second one goes on where the first one ended
        query = penstock.write(rows, "u", "key", "value", "timestamp", log=tmp_path, checkpoint=tmp_path / "query")
        assert query is not None
        query.processAllAvailable()
        query.stop()
    found = [(record.key, record.value, record.timestamp) for record in consume("u", str, int, log=tmp_path)]
    assert found == [("a", 2, 1_000), ("b", 3, 2_000), ("a", 4, 3_000)]


def test_results_are_a_typed_streaming_data_frame(remote: Any, tmp_path: Path):
    builder = StreamsBuilder()
    frame = builder.stream("t", key=str, value=int).to_dataframe(remote, "u", log=tmp_path)
    assert frame.isStreaming
    assert [field.simpleString() for field in frame.schema][:2] == ["key:string", "value:bigint"]


def test_a_relative_folder_would_be_one_of_the_server_and_is_refused(remote: Any):
    with pytest.raises(Exception, match="under Spark Connect is one beside the server, not beside your program"):
        remote.read.format("penstock").option("topic", "t").load().collect()


# --- batches ---------------------------------------------------------------------------------------------------------


def test_a_topology_runs_as_a_batch(remote: Any, tmp_path: Path):
    frame = remote.createDataFrame(ROWS, COLUMNS)
    columns = {"key": "key", "value": "n", "timestamp": "at"}
    with counting().run_batch(remote, {"numbers": frame}, **columns) as result:
        tens = [(row.key, row.value) for row in result.dataframe("tens").orderBy("timestamp").collect()]
        counts = {row.key: row.value for row in result.store("counts").collect()}
    assert (tens, counts) == ([("a", 10), ("b", 20), ("a", 30)], {"a": 2, "b": 1})


def started(writer: Any) -> Any:
    """A query. Spark gives its Python process ten seconds to begin, which is too short on a busy machine."""
    for attempt in range(10):
        try:
            return writer.start()
        except Exception as error:
            if "failed to connect back" not in str(error) or attempt == 9:
                raise
    raise AssertionError


def test_the_batches_of_a_query_are_commits_of_an_application(
    remote: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # the folders of the settings are this process's, not the server's
    remote.createDataFrame(ROWS, COLUMNS).write.parquet(str(tmp_path / "rows"))
    rows = remote.readStream.schema(COLUMNS).parquet(str(tmp_path / "rows"))
    columns = {"key": "key", "value": "n", "timestamp": "at"}
    for _ in range(2):
        take = counting().batches("shop", name="rows", commit_interval="1 s", **columns)
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "query")).trigger(availableNow=True)
        started(writer.foreachBatch(take)).awaitTermination()
    found = [(record.key, record.value) for record in consume("totals", str, int)]
    assert sorted(found) == [("a", 2), ("b", 1)]
    with penstock.open_store("shop", "counts") as counts:
        assert (counts.get("a"), counts.get("b")) == (2, 1)


def test_batches_of_a_query_without_a_name_are_refused_at_once(remote: Any):
    with pytest.raises(ConfigError, match=r"does not say of which query it is.*topology.batches\(..., name=...\)"):
        counting().batches("shop", key="key", value="n", timestamp="at")


# --- programs --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    put(tmp_path, range(90))
    return tmp_path


def start(topology: Any, remote: Any, folder: Path, **given: Any) -> Any:
    return topology.start("shop", spark=remote, log=folder / "log", state_dir=folder / "state", **given)


def test_a_program_runs_and_is_asked_and_goes_on_after_a_stop(remote: Any, lines: Path):
    for turn in (1, 2):
        put(lines, range(90 * turn, 90 * (turn + 1)))
        with start(counting(), remote, lines) as streams:
            streams.process_all_available()
            assert {key: streams.store("counts").get(key) for key in KEYS} == dict.fromkeys(KEYS, 10 * (turn + 1))
            assert streams.spark is remote
    found = [record.value for record in consume("tens", str, int, log=lines / "log")]
    assert sorted(found) == [n * 10 for n in range(270)]


def test_a_killed_slot_and_a_user_who_interrupts_everything_cost_an_attempt_and_no_result(remote: Any, lines: Path):
    with start(counting(), remote, lines, slots=3, statestore_cache_max_bytes=0) as streams:
        streams.process_all_available()
        before = harness.slot_pids(lines / "state")
        assert len(set(before)) == 3
        os.kill(before[1], signal.SIGKILL)
        put(lines, range(90, 180))
        streams.process_all_available()
        assert remote.interruptAll()
        put(lines, range(180, 270))
        streams.process_all_available()
        assert {key: streams.store("counts").get(key) for key in KEYS} == dict.fromkeys(KEYS, 30)
    found = [record.value for record in consume("tens", str, int, log=lines / "log")]
    assert sorted(found) == [n * 10 for n in range(270)]  # each once
    totals = [(record.key, record.value) for record in consume("totals", str, int, log=lines / "log")]
    assert sorted(totals) == [(key, n) for key in KEYS for n in range(1, 31)]
    assert remote.interruptAll() == []  # the job has ended with the program
    assert harness.slot_pids(lines / "state") == []


def test_a_program_at_least_once_shows_what_is_not_committed(remote: Any, lines: Path):
    with start(counting(), remote, lines, processing_guarantee="at_least_once", slots=1) as streams:
        streams.process_all_available()
        assert streams.store("counts").get("a") == 10
        assert [place.host for place in streams.slots()] == [socket.gethostname()]


def test_a_program_without_a_session_of_its_own_takes_the_active_one(remote: Any, lines: Path):
    streams = start(counting(), None, lines, trigger="available-now", slots=1)
    assert streams.spark is remote
    streams.await_termination()
    assert streams.last_progress.total_records == 90


def test_a_program_with_queries_of_its_own_is_refused(remote: Any, lines: Path):
    rows = remote.readStream.format("rate").load()
    builder = StreamsBuilder()
    builder.stream(rows, name="rates", value="value").to("out")
    with pytest.raises(ConfigError, match=r"'rates'.*under Spark Connect a program starts no queries.*penstock.write"):
        start(builder.build(), remote, lines)


def test_copies_of_state_elsewhere_are_refused(remote: Any, lines: Path):
    with pytest.raises(ConfigError, match=r"standby_replicas needs a classic session.*Leave it out"):
        start(counting(), remote, lines, standby_replicas=1)


def test_a_session_that_ends_processes_without_rows_is_refused(remote: Any, lines: Path):
    names = [f"spark.sql.execution.pyspark.udf.{name}" for name in ("idleTimeoutSeconds", "killOnIdleTimeout")]
    try:
        for name, value in zip(names, ("5", "true"), strict=True):
            remote.conf.set(name, value)
        with pytest.raises(ConfigError, match=rf"{names[1]}=true and {names[0]}=5.*or start with engine=\"micro-batch"):
            start(counting(), remote, lines)
    finally:
        for name in names:
            remote.conf.unset(name)


def test_a_program_runs_in_micro_batches_through_kills_and_interrupts_and_keeps_no_core(remote: Any, lines: Path):
    marker = lines / "died"

    def dies_once(n: int) -> int:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return n * 10
        os.kill(os.getpid(), signal.SIGKILL)
        return n

    builder = StreamsBuilder()
    numbers = builder.stream("numbers", key=str, value=int).map_values(dies_once)
    numbers.to("tens")
    numbers.group_by_key().count("counts").to_stream().to("totals")
    given: dict[str, Any] = {"engine": "micro-batch", "statestore_cache_max_bytes": 0}
    with start(builder.build(), remote, lines, **given) as streams:
        streams.process_all_available()
        assert remote.interruptAll() == []  # nothing runs between two commits
        put(lines, range(90, 180))
        streams.process_all_available()
        assert {key: streams.store("counts").get(key) for key in KEYS} == dict.fromkeys(KEYS, 20)
    assert marker.exists()
    put(lines, range(180, 270))
    with start(builder.build(), remote, lines, statestore_cache_max_bytes=0) as streams:  # and goes on in slots
        streams.process_all_available()
        assert {key: streams.store("counts").get(key) for key in KEYS} == dict.fromkeys(KEYS, 30)
    found = [record.value for record in consume("tens", str, int, log=lines / "log")]
    assert sorted(found) == [n * 10 for n in range(270)]  # each once
    totals = [(record.key, record.value) for record in consume("totals", str, int, log=lines / "log")]
    assert sorted(totals) == [(key, n) for key in KEYS for n in range(1, 31)]


@pytest.mark.parametrize("engine", ["spark", "micro-batch"])
def test_sinks_of_a_program_have_each_record_once(remote: Any, engine: str, tmp_path: Path):
    for start in (0, 70):
        sink_program.feed(tmp_path, start, start + 70)
        sink_program.run(tmp_path, engine, spark=remote)
    assert sink_program.rows(tmp_path) == list(range(140))
    assert sink_program.totals(tmp_path) == {f"u{one}": 20 for one in range(7)}


@pytest.mark.parametrize("engine", ["spark", "micro-batch"])
def test_a_source_without_an_end_is_refused_by_a_program_that_ends(remote: Any, engine: str, tmp_path: Path):
    builder = StreamsBuilder()
    builder.source(HttpSource(0), "rows", key=str, value=dict).to("out")
    with pytest.raises(ConfigError, match=r"source 'rows' .* has no end, so no program can end with it"):
        start(builder.build(), remote, tmp_path, engine=engine, trigger="available-now")


PROGRAM = """
import sys
import threading
import time
import traceback
from pyspark.sql import SparkSession
from penstock import StreamsBuilder

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
builder = StreamsBuilder()
builder.stream("numbers", key=str, value=int).group_by_key().count("counts").to_stream().to("totals")
streams = builder.build().start("shop", spark=spark, log="log", state_dir="state", engine=sys.argv[2])
streams.process_all_available()


def tell_when_it_waits(main=threading.get_ident()):
    def names():
        return {frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[main])}

    while not {"await_termination", "wait"} <= names():
        time.sleep(0.02)
    print("runs", flush=True)


threading.Thread(target=tell_when_it_waits, daemon=True).start()
try:
    streams.await_termination()
except KeyboardInterrupt:
    print(streams.state.name, spark.interruptAll(), flush=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


@contextmanager
def program(server: Any, folder: Path, engine: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-W", "ignore", "program.py", server.url, engine]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("engine", ["spark", "micro-batch"])
def test_ctrl_c_stops_a_program_and_its_job_and_a_lost_server_is_told_of(engine: str, lines: Path, tmp_path: Path):
    with connect_server(tmp_path / "server", "local[*]") as server:  # how many cores these are, only a job can tell
        with program(server, lines, engine) as process:
            assert read_line(process) == "runs"
            process.send_signal(signal.SIGINT)
            assert read_line(process) == "NOT_RUNNING []"
        assert harness.slot_pids(lines / "state") == []
        with program(server, lines, engine) as process:
            assert read_line(process) == "runs"
            server.kill()
            told = read_line(process)
            assert told.startswith("SparkLostError application 'shop' stopped because the Spark Connect server or its")
            assert "<_InactiveRpcError" not in told
            assert told.endswith(
                "Everything committed is safe; start again with a new session, and the application "
                "continues where it was"
            )
            process.wait(20)  # Spark's client calls the server once more, and would repeat that for ten minutes
