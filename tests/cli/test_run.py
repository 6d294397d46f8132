"""``penstock run``: real processes, from a start to a clean stop, and on from there."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import Penstock
from penstock import TopicNotFoundError, consume, produce
from penstock.cli.run import _Run
from penstock.engine.spark import jvm
from penstock.engine.spark.output import SparkOutput
from penstock.testing.broker import free_ports

PENSTOCK = str(Path(sys.executable).with_name("penstock"))

WORDS = """
from dataclasses import dataclass
from penstock import StreamsBuilder

@dataclass
class Said:
    word: str
    times: int

def say(key: str, word: str) -> None:
    print("word:", word)

builder = StreamsBuilder()
words = builder.stream("words", value=str).peek(say)
counts = words.group_by(lambda key, word: word).count("counts").to_stream()
counts.map_values(lambda key, times: Said(key, times)).to("said", value=Said)
"""

SLOW = """
import time
from pathlib import Path
from penstock import StreamsBuilder

def sleep(key, word):
    if word == "slow" and Path("sleeps").exists():
        Path("asleep").touch()
        time.sleep(600)

builder = StreamsBuilder()
words = builder.stream("words", value=str).peek(sleep)
words.group_by(lambda key, word: word).count("counts").to_stream().to("said")
"""

LOSING = """
from penstock import StreamsBuilder, TimeWindows

builder = StreamsBuilder()
numbers = builder.stream("numbers", value=str).map_values(int, value=int, name="number")
windows = TimeWindows.of_size_and_grace("10 s", "5 s")
numbers.group_by_key().windowed_by(windows).count(name="tens").to_stream().to("out")
"""


@pytest.fixture(autouse=True)
def apps(folder: Path) -> None:
    (folder / "losing.py").write_text(LOSING)
    (folder / "words.py").write_text(WORDS)
    (folder / "slow.py").write_text(SLOW)


@pytest.fixture(params=["spark", "local"])
def begins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each engine in turn: the line that a run begins with."""
    monkeypatch.setenv("PENSTOCK_ENGINE", request.param)
    says = {
        "spark": "starting Spark ...",
        "local": "running without Spark: the setting engine says so",
    }
    return says[request.param]


@pytest.mark.parametrize("option", ["--ui", "--serve"])
def test_a_port_that_somebody_has_is_told_before_spark_starts(
    folder: Path, penstock: Penstock, monkeypatch: pytest.MonkeyPatch, option: str
):
    monkeypatch.setattr(jvm, "begin", lambda _: pytest.fail("a JVM was begun"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = penstock("run", "words.py:builder", option, f"{option}-port", port)
    assert (told.code, told.out) == (1, [])
    assert told.err == [
        f"Error: cannot listen at 127.0.0.1, port {port}: Address already in use; give another {option}-port, 0 takes "
        "a free one"
    ]
    assert not (folder / ".penstock").exists()


def test_one_port_for_two_servers_is_told_before_spark_starts(penstock: Penstock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jvm, "begin", lambda _: pytest.fail("a JVM was begun"))
    port = str(free_ports(1)[0])
    told = penstock("run", "words.py:builder", "--ui-port", port, "--serve-port", port)
    assert told.err == [f"Error: --ui-port and --serve-port are both {port}: give another one of them"]


class Running:
    """A command in a process of its own, with the group of processes that Ctrl-C in a terminal reaches."""

    def __init__(self, *arguments: str):
        self._process = subprocess.Popen(
            [PENSTOCK, "run", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_line(self, begin: str) -> None:
        """Wait for a line beside the output."""
        assert self._process.stderr
        lines = []
        while not (line := self._process.stderr.readline()).startswith(begin):
            assert line, "".join(lines)
            lines.append(line)

    def wait_for_records(self, topic: str, count: int) -> None:
        while len(said(topic)) < count:
            assert self._process.poll() is None, "\n".join(self.end()[2][-25:])
            time.sleep(0.1)

    def ctrl_c(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """As supervisors do: all processes at once, the JVM too."""
        os.killpg(self._process.pid, signal.SIGTERM)

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> tuple[int, list[str], list[str]]:
        """Wait for its end: the exit code, the lines on its output and beside it."""
        out, err = self._process.communicate(timeout=300)
        return self._process.returncode, out.splitlines(), err.splitlines()


def said(topic: str) -> list[tuple[object, object]]:
    try:
        return [(record.key, record.value) for record in consume(topic)]
    except TopicNotFoundError:  # it has not been made, or is being made
        return []


def printed(err: list[str]) -> list[str]:
    """What the program printed, which passes through several processes and comes between the lines of the command."""
    return [line for line in err if line.startswith("word: ")]


def told(err: list[str]) -> list[str]:
    """All lines but those that the program printed."""
    return [line for line in err if not line.startswith("word: ")]


def where(folder: Path, *topics: str) -> list[str]:
    return [
        f"The results are in topics in {folder}/.penstock/log. To read them:",
        *(f"  penstock topics cat {topic}" for topic in topics),
    ]


@pytest.mark.slow
def test_what_is_there_is_processed_and_a_later_start_processes_what_came_since(folder, begins):
    produce([(None, word) for word in ("a", "b", "a")], "words", value=str)
    code, out, err = Running("words.py:builder", "--available-now").end()
    assert printed(err) == ["word: a", "word: b", "word: a"]
    assert (code, out, told(err)) == (
        0,
        [],
        [
            begins,
            "commit 1: 3 records read",
            "Done: 3 records processed. The next start of words continues from here.",
            *where(folder, "said"),
        ],
    )
    assert said("said") == [("b", {"word": "b", "times": 1}), ("a", {"word": "a", "times": 2})]

    produce([(None, "a")], "words")
    code, out, err = Running("words.py:builder", "--trigger", "available-now", "--slots", "1", "--json").end()
    [progress] = map(json.loads, out)
    assert progress.pop("seconds") > 0
    assert progress == {
        "application_id": "words",
        "commit": 3,
        "records": 1,
        "total_records": 1,
        "lag": 0,
        "losses": [],
        "executors": {"driver@127.0.0.1": 2},
        "moved": 0,
        "total_moved": 0,
        "children": [],
    }
    assert printed(err) == ["word: a"]
    assert (code, told(err)) == (
        0,
        [
            begins,
            "Done: 1 record processed. The next start of words continues from here.",
            *where(folder, "said"),
        ],
    )
    assert said("said")[2:] == [("a", {"word": "a", "times": 3})]


@pytest.mark.slow
@pytest.mark.kip("328-10", "328-13")
def test_what_was_lost_is_told_at_each_report_and_at_the_end_with_the_reason_and_the_command_that_shows_more(
    folder, begins
):
    rows = [("a", "1", 1_000), ("a", "1", 16_000), ("a", "1", 2_000), ("b", "1", 3_000), ("a", "x", 0), (None, "1", 0)]
    produce(rows, "numbers", value=str)
    code, out, err = Running("losing.py:builder", "--available-now", "--on-error", "dead_letter:failed").end()
    assert (code, out, err[:-2]) == (
        0,
        [],
        [
            begins,
            "commit 1: 6 records read, 2 dropped as late, 1 sent to the dead letters, 1 dropped",
            "Done: 6 records processed. The next start of losing continues from here.",
            "Left out on the way:",
            "  2 records dropped as late by tens (expired-window): their windows had closed: stream time was past "
            "the end plus the grace period; a longer grace period accepts later records",
            "  1 record sent to the dead letters by number (ValueError): the step raised ValueError, or the record did "
            "not decode; fix the function or the records",
            "  1 record dropped by tens (null-key): they have no key; give them one with select_key or map, if they "
            "are to count",
            "To see more:",
            "  penstock explain losing.py:builder --losses",
            "  penstock topics cat failed",
        ],
    )
    produce([("a", "1", 2_000), ("a", "1", 17_000)], "numbers")
    code, out, err = Running("losing.py:builder", "--available-now", "--json").end()
    [progress] = map(json.loads, out)
    assert (code, progress["losses"]) == (
        0,
        [{"metric": "late-record-drop-total", "node": "tens", "reason": "expired-window", "records": 1}],
    )


@pytest.mark.slow
def test_ctrl_c_and_sigterm_stop_cleanly_and_a_later_start_goes_on_with_no_record_twice(folder, begins):
    settings = ["--set", "statestore_cache_max_bytes=0", "--trigger", "100 ms", "--application-id", "chatter"]
    produce([(None, word) for word in ("a", "b", "a")], "words", value=str)
    running = Running("words.py:builder", *settings)
    running.wait_for_records("said", 3)
    running.ctrl_c()
    code, out, err = running.end()
    assert (code, out) == (0, [])
    assert [line for line in told(err) if not line.startswith("commit 1: ")] == [
        begins,
        "stopping: the commit under way is finished first; Ctrl-C again ends at once ...",
        "Stopped: 3 records processed. The next start of chatter continues from here.",
        *where(folder, "said"),
    ]

    produce([(None, word) for word in ("b", "c")], "words")
    running = Running("words.py:builder", *settings)
    running.wait_for_records("said", 5)
    produce([(None, "a")], "words")
    running.wait_for_records("said", 6)
    running.terminate()
    code, _, err = running.end()
    assert (code, told(err)[-3]) == (0, "Stopped: 3 records processed. The next start of chatter continues from here.")
    assert said("said") == [
        (word, {"word": word, "times": times})
        for word, times in [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("c", 1), ("a", 3)]
    ]


@pytest.mark.slow
def test_ctrl_c_waits_for_a_long_commit_and_sigterm_gives_it_up_and_the_next_start_makes_it(folder, begins):
    produce([(None, "a")], "words", value=str)
    running = Running("slow.py:builder")
    running.wait_for_records("said", 1)
    (folder / "sleeps").touch()
    produce([(None, "b"), (None, "slow"), (None, "a")], "words")
    while not (folder / "asleep").exists():
        time.sleep(0.05)
    running.ctrl_c()
    running.wait_for_line("stopping")
    os.kill(running.pid, signal.SIGTERM)
    code, _, err = running.end()
    assert (code, said("said")) == (0, [("a", 1)]), err
    (folder / "sleeps").unlink()
    code, _, err = Running("slow.py:builder", "--available-now").end()
    assert (code, sorted(said("said"))) == (0, [("a", 1), ("a", 2), ("b", 1), ("slow", 1)]), err


@pytest.mark.slow
def test_sigterm_ends_also_a_program_that_never_comes_to_run(folder):
    (folder / "stuck.py").write_text("import pathlib, time\npathlib.Path('stuck').touch()\ntime.sleep(600)\n")
    running = Running("stuck.py:builder")
    while not (folder / "stuck").exists():
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGTERM)
    assert running.end() == (143, [], ["", "Ended at once; everything committed is safe."])


@pytest.mark.slow
def test_with_logs_as_json_all_that_is_said_is_one_object_a_line_and_so_is_the_error(folder, begins):
    produce([(None, "1", 1), ("b", "x", 2)], "numbers", value=str)
    code, out, err = Running("losing.py:builder", "--available-now", "--log-format", "json").end()
    assert (code, out) == (1, [])
    lines = [json.loads(line) for line in err]
    assert {"time", "level", "logger", "message"} <= set.intersection(*map(set, lines))
    assert lines[0]["message"] == begins
    [error] = [line for line in lines if line["level"] == "ERROR"]
    assert "topic 'numbers', partition 0, offset 1" in error["message"]


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once(begins):
    produce([(None, "a")], "words", value=str)
    running = Running("words.py:builder")
    running.wait_for_line(begins)
    running.ctrl_c()
    running.wait_for_line("stopping")
    running.ctrl_c()
    assert running.end() == (130, [], ["", "Ended at once; everything committed is safe."])


@pytest.mark.slow
def test_a_record_that_fails_ends_the_run_with_one_message_behind_what_was_lost_before(folder, begins):
    produce([(None, "1", 1), ("b", "x", 2)], "numbers", value=str)
    one_a_commit = ["--set", "chunk_records=1", "--set", "commit_max_bytes=1"]
    code, out, err = Running("losing.py:builder", "--available-now", *one_a_commit).end()
    assert (code, out) == (1, [])
    assert err[0] == begins
    assert err[2:6] == [
        "Left out on the way:",
        "  1 record dropped by tens (null-key): they have no key; give them one with select_key or map, if they "
        "are to count",
        "To see more:",
        "  penstock explain losing.py:builder --losses",
    ]
    assert [line for line in err if line.startswith("Error: ")] == [err[6]]
    assert "topic 'numbers', partition 0, offset 1" in err[6]
    assert "ValueError" in err[6]
    assert not [line for line in err if "Traceback" in line]
    assert said("out") == []


# --- without Spark ------------------------------------------------------------------------------------------------


def test_a_program_whose_source_does_not_exist_is_refused_before_spark_starts(penstock, folder):
    assert penstock("run", "words.py:builder") == (
        1,
        [],
        [
            f"Error: topic 'words' does not exist in {folder}/.penstock/log: there are no topics yet; make it with "
            "`penstock topics create words` or by producing into it",
        ],
    )


def test_a_trigger_that_is_no_duration_is_wrong_usage(penstock):
    code, out, err = penstock("run", "words.py:builder", "--trigger", "often")
    assert (code, out) == (2, [])
    assert err[-1].startswith("Error: Invalid value for '--trigger': ")
    assert err[-1].endswith(', or "available-now"')


def test_a_program_that_is_not_there_is_wrong_usage(penstock, folder):
    code, out, err = penstock("run", "nothing.py")
    assert (code, out) == (2, [])
    assert (
        err[-1]
        == f"Error: Invalid value for PROGRAM: there is no file nothing.py in {folder}; change into its folder, "
        f"or give its path"
    )


def test_a_wrong_application_id_is_refused(penstock):
    produce([(None, "a")], "words", value=str)
    code, out, err = penstock("run", "words.py:builder", "--application-id", "two words")
    assert (code, out, len(err)) == (1, [], 1)
    assert err[0].startswith("Error: ")
    assert "'two words'" in err[0]


def test_only_stack_traces_of_a_session_that_is_being_stopped_are_dropped(capsys):
    lines = ["WARNING: Using incubator modules: x\n", "word: a\n", "Traceback (most recent\n", '  File "x"\n', "Oops\n"]
    output = SparkOutput()
    output.pass_on(lines)
    assert capsys.readouterr() == ("", "".join(lines[1:]))
    output.expect_end()
    output.pass_on(lines)
    assert capsys.readouterr() == ("", "word: a\n")
    output.expect_session()
    output.pass_on(lines)
    assert capsys.readouterr() == ("", "".join(lines[1:]))


HUNG_UP = """Traceback (most recent call last):
  File "/home/me/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/home/me/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""


def test_a_worker_that_spark_hangs_up_on_complains_to_nobody(capsys):
    """Each run with pyspark 4.3 printed it."""
    users = HUNG_UP.replace("pyspark/python/lib/pyspark.zip/pyspark/daemon.py", "mine.py")
    other = HUNG_UP.replace("BrokenPipeError: [Errno 32] Broken pipe", "ValueError: no")
    SparkOutput().pass_on(f"one\n{HUNG_UP}two\n{users}{other}{HUNG_UP}three\n".splitlines(keepends=True))
    assert capsys.readouterr() == ("", f"one\ntwo\n{users}{other}three\n")


def test_a_stack_trace_that_breaks_off_is_printed(capsys):
    begun = HUNG_UP.splitlines(keepends=True)[:2]
    SparkOutput().pass_on(begun)
    assert capsys.readouterr() == ("", "".join(begun))


def test_a_run_over_kafka_is_told_by_its_option(penstock: Penstock, monkeypatch: pytest.MonkeyPatch):
    started = []
    monkeypatch.setattr(_Run, "to_its_end", lambda _, topology, **given: started.append(given["log"]) or sys.exit(0))
    for option in ("--log", "--log-dir"):
        ran = penstock("run", "words.py:builder", option, "kafka://broker.example:9092")
        assert ran == (0, [], [])
    assert started == ["kafka://broker.example:9092"] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--available-now", "--trigger", "5 s"],
            "--available-now and --trigger '5 s' both say when the program ends; give one of them",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(penstock: Penstock, options: list[str], said: str):
    ran = penstock("run", "words.py:builder", *options)
    assert (ran.code, ran.err[-1]) == (2, f"Error: {said}")


@pytest.mark.parametrize("given", ["../other", "a b", "."])
def test_an_application_id_that_cannot_be_one_is_told_without_a_place_in_pythons_own_code(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch, given: str
):
    monkeypatch.setattr(jvm, "begin", lambda _: pytest.fail("a JVM was begun"))
    ran = penstock("run", "words.py:builder", "--application-id", given)
    assert (ran.code, ran.err[-1]) == (
        1,
        f"Error: {given!r} cannot be an application's id: use 1 to 249 letters, digits, dots, underscores and hyphens, "
        "such as 'my-application'",
    )
