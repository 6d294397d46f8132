"""Several programs at once on one file log: real processes, and some of them are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.faults import LOG_POINTS
from penstock.log.base import TopicInfo
from penstock.log.file import upkeep
from penstock.log.file.log import FileLog
from support.folders import MEMORY
from support.logs import append, rows

START = """
import sys, time
from penstock.log.base import TopicInfo
from penstock.log.file import entries, merge, upkeep
from penstock.log.file.log import FileLog
from support.logs import append, rows, write

log = FileLog(sys.argv[1])
name = sys.argv[2].encode()
entries.STATE_EVERY, entries.GRACE_MS = 8, 0
merge.FAN_IN, merge.TARGET_BYTES = 3, 1000
upkeep.FAN_IN = 3
upkeep.MOST_UNITS, upkeep.NODE_UNITS, upkeep.NODE_NODES = 4, 3, 2
print("ready", flush=True)
sys.stdin.readline()
"""

PRODUCE = """
for n in range(8):
    append(log, "t", *((name, b"%d/%d" % (n, i), n) for i in range(3)), partition=n % 2)
"""

PRODUCE_ATOMICALLY = """
for n in range(1000):
    pair = [(name, b"%d" % n, n)]
    log.append("t", write(log, "t", (0, pair), (1, pair)))
    print(n, flush=True)
"""

TORN = """
with log.writer("t", "app-1") as writer:
    import numpy as np, os, pyarrow as pa, signal
    columns = [pa.array([b"a"] * 1000, pa.binary())] * 2
    for _ in range(100):
        writer.write(0, *columns, np.arange(1000))
    os.kill(os.getpid(), signal.SIGKILL)
"""

PRODUCE_UNTIL_REMOVED = """
from penstock.errors import TopicNotFoundError
failures = 0
while failures < 20:
    pair = [(name, b"x", 1)]
    try:
        log.append("t", write(log, "t", (0, pair), (1, pair)))
    except TopicNotFoundError as error:
        if "does not exist" not in str(error):
            failures += 1
            print(str(error).split(";")[0])
print("done")
"""

READ = """
seen = []
while len(seen) < 72:
    seen = [rows(log, "t", partition) for partition in (0, 1)]
    seen = seen[0] + seen[1]
    print(len(seen), flush=True)
    time.sleep(0.01)
"""

TIDY = """
while log.size("t") < 72:
    log.tidy("t")
    print(log.size("t"), flush=True)
"""

TIDY_AND_CRASH = """
upkeep.Upkeep.appended = lambda *_: None
for n in range(60):
    if n == 30:
        log.set_retention("t", retention_bytes=400)
    pair = [(name, b"%d" % n, n)]
    log.append("t", write(log, "t", (0, pair), (1, pair)), "app", n)
    print(n, flush=True)
    log.tidy("t")
"""

APPEND_AND_END = """
for n in range(9):
    append(log, "t", (name, b"%d" % n, n))
"""

CREATE = """
from penstock.errors import TopicExistsError
try:
    log.create_topic(TopicInfo("u", int(name)))
    print("made")
except TopicExistsError:
    print("exists")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for logs that are appended to often."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


def start(folder: Path, crash_at: str = "", **programs: str) -> list[subprocess.Popen[str]]:
    """Processes that begin their programs, given by name, at the same moment."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", START + program, str(folder), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path} | ({"PENSTOCK_CRASH_AT": crash_at} if crash_at else {}),
        )
        for name, program in programs.items()
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def finish(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """What each has printed when it has ended well."""
    printed = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return printed


@pytest.mark.slow
def test_several_producers_readers_and_mergers_at_once_lose_and_repeat_nothing(folder: Path):
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=2))
    programs = {"a": PRODUCE, "b": PRODUCE, "c": PRODUCE, "one": TIDY, "two": TIDY, "reader": READ}
    *_, counts = finish(start(folder, **programs))

    for partition in (0, 1):
        found = rows(log, "t", partition)
        assert [offset for offset, *_ in found] == list(range(36))
        for producer in (b"a", b"b", b"c"):
            values = [value for _, key, value, _ in found if key == producer]
            assert values == [b"%d/%d" % (n, i) for n in range(partition, 8, 2) for i in range(3)]
        starts = [found[i : i + 3] for i in range(0, 36, 3)]  # an append is never torn apart by another
        assert all(len({(key, time) for _, key, _, time in part}) == 1 for part in starts)
    numbers = [int(count) for count in counts]
    assert (numbers == sorted(numbers), numbers[-1], {n % 3 for n in numbers}) == (True, 72, {0})


def test_of_programs_that_make_the_same_topic_at_once_one_wins(folder: Path):
    told = [line for (line,) in finish(start(folder, **{"1": CREATE, "2": CREATE, "3": CREATE}))]
    assert sorted(told) == ["exists", "exists", "made"]
    assert FileLog(folder).topic("u").partitions == told.index("made") + 1


@pytest.mark.slow
def test_producers_of_a_topic_that_is_removed_and_made_anew_fail_clearly_and_leave_nothing_half(folder: Path):
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=2))
    producers = start(folder, a=PRODUCE_UNTIL_REMOVED, b=PRODUCE_UNTIL_REMOVED)
    remade = 0
    while any(process.poll() is None for process in producers):
        log.delete_topic("t")
        log.create_topic(TopicInfo("t", partitions=2))
        remade += 1
        for partition in (0, 1):
            found = [row[0] for row in rows(FileLog(folder), "t", partition)]
            assert found == list(range(len(found)))
        time.sleep(0.03)
    for told in finish(producers):
        assert set(told[:-1]) <= {"topic 't' was removed while records were written into it"}
        assert (told[-1], len(told)) == ("done", 1 + 20)
    assert remade >= 20
    assert list(folder.iterdir()) == [folder / "t"]


def test_appends_that_returned_are_there_whole_after_kill_9_and_the_rest_is_invisible(folder: Path):
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=2))
    producers = start(folder, a=PRODUCE_ATOMICALLY, b=PRODUCE_ATOMICALLY)
    for process, count in zip(producers, (11, 5), strict=True):
        for _ in range(count):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    told = [process.stdout.read().split() for process in producers]
    returned = [[*range(count), *map(int, more)] for count, more in zip((11, 5), told, strict=True)]

    found = rows(log, "t", 0)
    assert [row[1:] for row in found] == [row[1:] for row in rows(log, "t", 1)]
    for name, done in zip((b"a", b"b"), returned, strict=True):
        there = [int(value) for _, key, value, _ in found if key == name]
        assert there in (done, [*done, len(done)])  # the last one may have been committed before it was told
    append(log, "t", (b"c", b"goes on", 1))
    assert rows(FileLog(folder), "t", 0) == [*found, (len(found), b"c", b"goes on", 1)]


def test_a_program_that_ends_right_after_its_appends_has_them_merged(folder: Path):
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=1))
    finish(start(folder, a=APPEND_AND_END))
    assert rows(log, "t") == [(n, b"a", b"%d" % n, n) for n in range(9)]
    assert any((folder / "t" / "data").glob("merge-*"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("point", LOG_POINTS)
def test_a_program_killed_while_it_keeps_a_topic_small_loses_nothing_and_leaves_nothing(
    folder: Path, point: str, count: int, monkeypatch: pytest.MonkeyPatch
):
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=2))
    (process,) = start(folder, crash_at=f"{point}:{count}", app=TIDY_AND_CRASH)
    (*_, last) = process.communicate()[0].split()
    assert process.returncode == -signal.SIGKILL

    (first, _), (end, _) = log.start_offsets("t"), log.end_offsets("t")
    assert end - int(last) in (1, 2)  # the last append may have been there before it was told
    expected = [(n, b"app", b"%d" % n, n) for n in range(first, end)]
    assert rows(log, "t", 0, first) == rows(log, "t", 1, log.start_offsets("t")[1])[-len(expected) :] == expected
    assert log.append("t", [], "app", end - 1) is False

    for name in ("_LEFT_MS", "_LEFT_TEMPORARY_MS"):
        monkeypatch.setattr(upkeep, name, 0)
    log.tidy("t")  # sweeps what the killed program left
    assert rows(FileLog(folder), "t", 0, first) == expected
    found = log._topic("t")
    nodes = list(found.nodes.all_nodes(found.fresh().topmost()))
    assert {path.name for path in (folder / "t" / "index").glob("*")} == {ref.file.name for ref, _ in nodes}


def test_a_torn_file_of_a_killed_writer_is_never_read(folder: Path):
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=1))
    append(log, "t", (b"a", b"1", 1))
    (process,) = start(folder, app=TORN)
    assert process.wait() == -signal.SIGKILL

    (left,) = (folder / "t" / "data").glob("app-1*")
    assert left.stat().st_size > 0
    assert rows(FileLog(folder), "t") == [(0, b"a", b"1", 1)]
    append(log, "t", (b"a", b"2", 2))
    assert rows(FileLog(folder), "t") == [(0, b"a", b"1", 1), (1, b"a", b"2", 2)]
    log.sweep("t", lambda name: name.startswith("app-"))
    assert not left.exists()
