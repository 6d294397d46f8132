"""A program without Spark and Java: its slots are processes of this machine, and all else is as on Spark."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, State, StreamsBuilder, Topology, consume, produce
from penstock.engine.running import engine as choosing
from penstock.engine.running.engine import Choice, choice_of
from penstock.settings import Settings

WORDS = ["a", "b", "a", "c", "a", "b"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_ENGINE", raising=False)


def counting(says: str = "") -> Topology:
    """How often each word came; several sub-topologies, and so an exchange between slots."""

    def word_of(key: Any, word: str) -> str:
        if says:
            print(says)
        return word

    builder = StreamsBuilder()
    counts = builder.stream("words", value=str).group_by(word_of).count("counts")
    counts.to_stream().to("counts")
    return builder.build()


def fill(words: list[str], partitions: int = 4) -> None:
    produce([(f"key-{number}", word) for number, word in enumerate(words)], "words", value=str, partitions=partitions)


def counted() -> list[tuple[Any, Any]]:
    return sorted({record[0]: record[1] for record in consume("counts")}.items())


def slots_of(pid: int) -> list[int]:
    """The processes of a driver's slots."""
    return [slot for server in servers_of(pid) for slot in children_of(server)]


def servers_of(pid: int) -> list[int]:
    """The processes that fork a driver's slots."""
    return children_of(pid, "penstock.engine.slots.fork_server")


def children_of(pid: int, word: str = "") -> list[int]:
    found = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in found.splitlines() if word in line]


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Any, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return found


def test_a_program_runs_in_processes_of_this_machine_with_all_that_a_handle_has():
    fill(WORDS)
    states: list[State] = []
    with counting().start(
        "words", engine="local", slots=2, state_listener=lambda new, _: states.append(new)
    ) as streams:
        streams.process_all_available()
        assert len(slots_of(os.getpid())) == 2
        assert counted() == [("a", 3), ("b", 2), ("c", 1)]
        assert {key: count for key, count, _ in streams.store("counts").all()} == {"a": 3, "b": 2, "c": 1}
        assert streams.offsets()["words"] == [record.offset + 1 for record in last_of_each_partition()]
        assert (streams.engine, [slot.executor for slot in streams.slots()]) == ("local", ["driver", "driver"])
        assert {"process-total", "records-consumed-total"} <= {metric.name for metric in streams.metrics()}
        fill(["c", "d"])
        streams.process_all_available()
        assert counted() == [("a", 3), ("b", 2), ("c", 2), ("d", 1)]
        with pytest.raises(ConfigError, match="application 'words' runs without Spark, so it has no session"):
            streams.spark  # noqa: B018
    assert slots_of(os.getpid()) == []
    assert states == [State.REBALANCING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]


def test_a_folder_of_none_is_that_of_the_application(tmp_path: Path):
    fill(["a"])
    with counting().start("words", engine="local", state_dir=None, checkpoint=None) as streams:
        streams.process_all_available()
    assert (tmp_path / ".penstock" / "words" / "checkpoint").is_dir()


def last_of_each_partition() -> Iterator[Any]:
    last = {record.partition: record for record in consume("words")}
    return iter(last[partition] for partition in sorted(last))


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_slots_that_are_killed_change_nothing(guarantee: str):
    fill(WORDS * 50)
    with counting().start("words", engine="local", slots=2, processing_guarantee=guarantee) as streams:
        streams.process_all_available()
        for victim in (0, 1, 0):
            before = until(lambda: pids if len(pids := slots_of(os.getpid())) == 2 else None)
            os.kill(before[victim], signal.SIGKILL)
            fill(WORDS)
            streams.process_all_available()
            after = until(lambda: pids if len(pids := slots_of(os.getpid())) == 2 else None)
            assert len({*before} & {*after}) == 1, "the other one goes on, with its databases open"
        assert counted() == [("a", 159), ("b", 106), ("c", 53)]
        assert streams.exception() is None


DRIVER = textwrap.dedent("""
    import sys, threading
    sys.path.insert(0, {tests!r})
    from engine.test_local_engine import counting
    streams = counting().start("words", engine="local", slots=2)
    streams.process_all_available()
    print("ready", flush=True)
    threading.Event().wait()
""")


def test_a_driver_that_is_killed_takes_its_slots_along_and_the_next_one_continues():
    fill(WORDS)
    program = DRIVER.format(tests=str(Path(__file__).parents[1]))
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    slots = slots_of(driver.pid)
    assert len(slots) == 2
    driver.kill()
    driver.wait()
    until(lambda: not any(lives(pid) for pid in slots))
    fill(WORDS)
    with counting().start("words", engine="local", slots=2) as streams:
        streams.process_all_available()
        assert streams.last_progress is not None
        assert streams.last_progress.total_records == 6
    assert counted() == [("a", 6), ("b", 4), ("c", 2)]


FORGETFUL = textwrap.dedent("""
    import sys
    sys.path.insert(0, {tests!r})
    from engine.test_local_engine import counting
    streams = counting().start("words", engine="local", slots=1)
    {last}
""")


@pytest.mark.parametrize(
    ("last", "warning"),
    [
        (
            "",
            "application 'words' ends, because the process that started it ends; it has processed 0 records. Call "
            "streams.await_termination() at the end of the script, or process_all_available() and stop()\n",
        ),
        ("streams.stop()", ""),
    ],
    ids=["nothing waits for it", "it is stopped"],
)
def test_a_script_that_ends_with_its_program_at_work_is_told_what_is_missing(last: str, warning: str):
    produce([], "words", value=str)
    program = FORGETFUL.format(tests=str(Path(__file__).parents[1]), last=last)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == warning


def test_what_functions_print_comes_out_here(capsys: pytest.CaptureFixture[str]):
    fill(["x"])
    with counting(says="seen").start("words", engine="local") as streams:
        streams.process_all_available()
    until(lambda: "seen\n" in capsys.readouterr().err, 10)


def test_a_function_that_fails_ends_the_program_with_its_error():
    fill(["1", "x"])
    builder = StreamsBuilder()
    builder.stream("words", value=str).map_values(int).to("numbers")
    streams = builder.build().start("numbers", engine="local")
    with pytest.raises(Exception, match="invalid literal for int"):
        streams.await_termination(60)
    assert streams.state == State.ERROR
    streams.stop()
    assert slots_of(os.getpid()) == []


def test_a_number_of_slots_that_no_machine_has_room_for_starts_none():
    fill(["x"])
    with pytest.raises(ConfigError, match="this machine gets at most 256; got 1,000,000"):
        counting().start("words", engine="local", slots=10**6)
    assert slots_of(os.getpid()) == []


# --- which engine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has_pyspark", "has_java", "given", "choice"),
    [
        (True, True, "auto", Choice("spark", "PySpark and Java are installed")),
        (True, False, "auto", Choice("local", "there is no Java")),
        (False, True, "auto", Choice("local", "PySpark is not installed")),
        (False, False, "auto", Choice("local", "PySpark is not installed")),
        (True, True, "local", Choice("local", "the setting engine says so", True)),
        (False, False, "spark", Choice("spark", "the setting engine says so", True)),
        (True, True, "micro-batch", Choice("micro-batch", "the setting engine says so", True)),
    ],
)
def test_spark_is_the_default_where_it_is_installed(monkeypatch, has_pyspark, has_java, given, choice):
    monkeypatch.setattr(choosing, "find_spec", lambda name: object() if has_pyspark else None)
    monkeypatch.setattr(choosing, "has_java", lambda: has_java)
    monkeypatch.setattr(choosing, "has_session", lambda: False)
    assert choice_of(Settings.load(environment={}, engine=given), None) == choice


def test_a_session_decides_for_spark(monkeypatch):
    monkeypatch.setattr(choosing, "has_session", lambda: True)
    assert choice_of(Settings(), None) == Choice("spark", "there is a session")
    assert choice_of(Settings(), object()).name == "spark"


def test_the_choice_is_said_in_one_line(monkeypatch, caplog):
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    monkeypatch.setattr(choosing, "has_session", lambda: False)
    fill(["x"])
    with caplog.at_level(logging.WARNING), counting().start("words") as streams:
        assert streams.engine == "local"
    assert caplog.messages == ["application 'words' is running without Spark: there is no Java"]
    assert Choice("local", "PySpark is not installed").said == "running without Spark: PySpark is not installed"
    assert Choice("spark", "").said == Choice("micro-batch", "").said == "starting Spark ..."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"engine": "flink"}, "engine must be one of auto, spark, micro-batch, local; got 'flink'"),
        (
            {"engine": "local", "standby_replicas": 1},
            r"standby_replicas is 1, and the application runs without Spark \(the setting engine says so\): copies "
            "are for other machines",
        ),
    ],
)
def test_what_the_local_engine_cannot_do_is_refused(given, message):
    fill(["x"])
    with pytest.raises(ConfigError, match=message):
        counting().start("words", **given)


def test_a_session_for_the_local_engine_is_refused():
    with pytest.raises(ConfigError, match="start: spark is a session, and the setting engine is 'local'"):
        choice_of(Settings(engine="local"), object())
