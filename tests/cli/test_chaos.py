"""``penstock chaos``: what it says of programs that are right, that are not, and that are never the same."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import Penstock
from penstock.cli.chaos import _CtrlC, _Teller
from penstock.log.file.log import FileLog
from penstock.log.produce import produce

pytestmark = pytest.mark.slow

RIGHT = """
from penstock import StreamsBuilder

builder = StreamsBuilder()
builder.stream("in", value=str).group_by_key().count("counts").to_stream().to("out")
"""

REMEMBERS = """
from penstock import StreamsBuilder

seen = []  # lost with its process
builder = StreamsBuilder()
builder.stream("in", value=str).map_values(lambda value: seen.append(value) or len(seen), value=int).to("out")
"""

LOOKS_AT_THE_TIME = """
import time
from penstock import StreamsBuilder

builder = StreamsBuilder()
events = builder.stream("in", value=str)
events.map_values(lambda value: time.time_ns(), value=int).to("times")
events.group_by_key().count("counts").to_stream().to("out")
"""


@pytest.fixture
def recorded(folder: Path) -> list[str]:
    """An input of 3,000 records; the files of its log as they are."""
    log = FileLog(folder / ".penstock" / "log")
    produce(((f"key-{i % 50}", "x" * 20, i) for i in range(3_000)), "in", value=str, partitions=3, log=log)
    log.wait()
    return files(folder)


def files(folder: Path) -> list[str]:
    found = (path for path in (folder / ".penstock").rglob("*") if path.is_file())
    return sorted(f"{path} {path.stat().st_mtime_ns}" for path in found)


@pytest.mark.kip("892-13")
def test_a_program_that_is_right_passes_and_its_own_topics_and_state_are_not_touched(
    penstock: Penstock, folder: Path, recorded: list[str]
):
    (folder / "right.py").write_text(RIGHT)
    ran = penstock("chaos", "right.py:builder", "--local", "--kills", "3", "--seed", "3", "--records", "2000")
    assert ran.code == 0, "\n".join(ran.err)
    assert re.fullmatch(r"copied (1,99\d|2,000) of in", ran.err[0])
    end = r"\d+ kills \(.*\), .* named points: outputs and state are those of the undisturbed run. Seed 3."
    assert re.fullmatch(end, ran.err[-1])
    assert files(folder) == recorded


@pytest.mark.kip("892-13")
def test_without_spark_the_slots_of_the_local_engine_are_killed(
    penstock: Penstock, folder: Path, recorded: list[str], monkeypatch: pytest.MonkeyPatch
):
    (folder / "right.py").write_text(RIGHT)
    monkeypatch.setenv("PENSTOCK_ENGINE", "local")
    ran = penstock("chaos", "right.py:builder", "--kills", "1", "--seed", "2", "--records", "600")
    assert ran.code == 0, "\n".join(ran.err)
    assert ran.err[0] == "running without Spark: the setting engine says so (environment)"
    assert ran.err[3].startswith("round 1: program on slots: ")
    assert files(folder) == recorded


def test_a_program_that_keeps_something_outside_its_stores_is_found_out_and_the_round_can_be_done_again(
    penstock: Penstock, folder: Path, recorded: list[str]
):
    (folder / "remembers.py").write_text(REMEMBERS)
    ran = penstock("chaos", "remembers.py:builder", "--local", "--kills", "8", "--seed", "5", "--records", "3000")
    assert ran.code == 1
    said = "\n".join(ran.err)
    failed = re.search(
        r"Error: seed 5, round (\d+): program on local, in .*\n  start with .*\nout\[\d\] differs: ", said
    )
    assert failed
    evidence = Path(re.search("What is left of it: (.*)", said)[1])
    assert (evidence / "log" / "out").is_dir()
    again = shlex.split(re.search("To do this round again: penstock (.*)", said)[1])
    assert again == f"chaos remembers.py:builder --kills 8 --seed 5 --round {failed[1]} --local --records 3000".split()
    rounds = [line for line in penstock(*again).err if re.match(r"round|Error", line)]
    assert len(rounds) == 1
    assert f"round {failed[1]}: " in rounds[0]


def test_what_differs_without_a_kill_is_told_apart_and_the_rest_is_compared(
    penstock: Penstock, folder: Path, recorded: list[str]
):
    (folder / "clock.py").write_text(LOOKS_AT_THE_TIME)
    ran = penstock("chaos", "clock.py:builder", "--local", "--kills", "2", "--records", "1000")
    assert ran.code == 0, "\n".join(ran.err)
    left_out = [line.partition(" differs")[0] for line in ran.err if "though nothing was killed" in line]
    assert left_out == ["times[0]", "times[1]", "times[2]"]


def test_without_input_it_says_which_topics_have_none(penstock: Penstock, folder: Path):
    FileLog(folder / ".penstock" / "log")
    (folder / "right.py").write_text(RIGHT)
    produce([], "in", value=str, partitions=1, log=FileLog(folder / ".penstock" / "log"))
    ran = penstock("chaos", "right.py:builder", "--local")
    assert ran.code == 1
    assert "the program's source topics (in) have no records" in ran.err[-1]


def test_ctrl_c_stops_it_and_leaves_no_process(folder: Path, recorded: list[str]):
    (folder / "right.py").write_text(RIGHT)
    command = [sys.executable, "-m", "penstock", "chaos", "right.py:builder", "--local", "--kills", "1000"]
    environment = {**os.environ, "CHAOS_OF": str(folder)}
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("round 1"):
            break
    running.send_signal(signal.SIGINT)
    assert "no process is left" in running.stderr.read()
    assert running.wait(60) == 130
    for _ in range(50):
        left = [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if has(path, f"CHAOS_OF={folder}")]
        if not left:
            break
        time.sleep(0.1)
    assert left == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_that_python_loses_while_an_object_is_destroyed_ends_it_at_the_next_event():
    class Destroyed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with _CtrlC() as ctrl_c:
        teller = _Teller(1, ctrl_c)
        teller.say("round 1")
        Destroyed()  # in whose end the exception is lost
        with pytest.raises(KeyboardInterrupt):
            teller.say("round 2")


def has(environ: Path, text: str) -> bool:
    try:
        return text.encode() in environ.read_bytes()
    except OSError:
        return False
