"""Without Spark, one process imports Penstock and forks the slots."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from engine.test_local_engine import children_of, counted, counting, fill, servers_of, slots_of, until
from penstock import StreamsBuilder, consume
from penstock.engine.slots import forked

WORDS = ["a", "b", "a", "c", "a", "b"]
TESTS = str(Path(__file__).parents[1])


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_slots_of_an_application_have_one_fork_server_which_ends_with_them():
    fill(WORDS)
    with counting().start("words", engine="local", slots=2) as streams:
        streams.process_all_available()
        (server,) = servers_of(os.getpid())
        assert len(children_of(server)) == 2
    assert servers_of(os.getpid()) == []


def test_a_fork_server_that_is_killed_takes_its_slots_along_and_the_next_one_forks_new_slots():
    fill(WORDS)
    with counting().start("words", engine="local", slots=2) as streams:
        streams.process_all_available()
        for _ in range(2):
            (server,) = servers_of(os.getpid())
            before = slots_of(os.getpid())
            os.kill(server, signal.SIGKILL)
            fill(WORDS)
            streams.process_all_available()
            after = until(lambda: pids if len(pids := slots_of(os.getpid())) == 2 else None)
            assert not {*before} & {*after}
        assert streams.exception() is None
    assert counted() == [("a", 9), ("b", 6), ("c", 3)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere slots import on their own")
def test_a_fork_server_has_one_thread_so_that_no_fork_copies_a_lock_that_another_one_holds():
    fill(WORDS)
    with counting().start("words", engine="local", slots=2) as streams:
        streams.process_all_available()
        (server,) = servers_of(os.getpid())
        assert len(os.listdir(f"/proc/{server}/task")) == 1


def test_each_slot_draws_random_numbers_of_its_own():
    def drawn(key: Any, word: str) -> str:
        import random

        import numpy as np

        return f"{os.getpid()} {random.random()} {np.random.random()}"

    fill(WORDS)
    builder = StreamsBuilder()
    builder.stream("words", value=str).map(lambda key, word: (key, drawn(key, word))).to("drawn")
    with builder.build().start("draws", engine="local", slots=2) as streams:
        streams.process_all_available()
    found = [record.value.split() for record in consume("drawn")]
    assert len({pid for pid, _, _ in found}) == 2
    assert len({number for _, number, _ in found}) == len({number for _, _, number in found}) == len(WORDS)


def test_slots_that_import_on_their_own_do_the_same_as_on_macos(monkeypatch: pytest.MonkeyPatch):
    bare = "import penstock.engine.slots.fork_server as server; server.FORKS_WITH_MODULES = False; server.main()"
    monkeypatch.setattr(forked, "_MAIN", ["-c", bare])
    fill(WORDS)
    with counting().start("words", engine="local", slots=2) as streams:
        streams.process_all_available()
    assert counted() == [("a", 3), ("b", 2), ("c", 1)]


FULL = """
import os
import penstock.engine.slots.fork_server as server
def fork():
    raise BlockingIOError(11, "Resource temporarily unavailable")
os.fork = fork
server.main()
"""


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (FULL, r"the process of slot 0 ended before it began: \[Errno 11\] Resource temporarily unavailable"),
        ("import os; os._exit(3)", "the process of slot 0 ended with its fork server, which ended with code 3"),
    ],
    ids=["the system has no room for a process", "the fork server cannot start"],
)
def test_slots_that_cannot_start_are_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch, program: str, message: str
):
    monkeypatch.setattr(forked, "_MAIN", ["-c", program])
    fill(WORDS)
    with pytest.raises(Exception, match=message):
        counting().start("words", engine="local", slots=1).await_termination(60)


LOWERED = textwrap.dedent("""
    import sys
    from datetime import timedelta
    sys.path.insert(0, {tests!r})
    from penstock import *
    from penstock.engine.lowering.compiled_rules import compiled_rules
    import penstock.engine.slots.process
    minute = timedelta(minutes=1)
    builder = StreamsBuilder()
    stream = builder.stream("words", key=str, value=str)
    {step}
    topology = builder.build()
    for name in compiled_rules(topology.nodes):
        __import__(name)
    before = {{*sys.modules}}
    from penstock.testing import TopologyTestDriver
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("words").pipe_input("a", "b", 0)
    print(sorted(name for name in {{*sys.modules}} - before if name.startswith(("penstock.ops", "numba"))))
""")


@pytest.mark.parametrize(
    "step",
    [
        "stream.group_by_key().count()",
        "stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(minute)).count()",
        "stream.group_by_key().windowed_by(SlidingWindows.of_time_difference_with_no_grace(minute)).count()",
        "stream.group_by_key().count().suppress(Suppressed.until_time_limit(minute, BufferConfig.unbounded()))"
        ".to_stream().to('out')",
        "stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(minute)).distinct()",
    ],
    ids=["a count", "sessions", "sliding windows", "a suppression", "the first of each session"],
)
def test_the_operators_of_a_program_are_imported_before_the_fork(step: str):
    program = LOWERED.format(tests=TESTS, step=step)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
