"""A topic stays small however long it is written into: small appends are merged, the index is only added to, and what
a topic does not keep goes without a command."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.errors import ConfigError, CorruptDataError, LogError
from penstock.files import plain_files
from penstock.log.base import TopicInfo
from penstock.log.contract.topics import NO_LIMIT
from penstock.log.contract.writer import Segment
from penstock.log.file import entries, merge, segments, shared, state, upkeep
from penstock.log.file.log import FileLog, TopicStats
from penstock.log.file.merge import MergeLimits, due
from penstock.log.file.nodes import Node
from penstock.log.file.state import MAX_PRODUCERS, Entry, Merge, TopicState, Unit
from penstock.storage.base import FileRef, create_file, seal
from support.folders import MEMORY
from support.logs import Row, append, rows, write

HOUR = 3_600_000


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for logs that are appended to often."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture
def log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FileLog:
    """A log with a topic ``t`` of two partitions, in which four appends are merged, when a test says so."""
    monkeypatch.setattr(merge, "FAN_IN", 4)
    monkeypatch.setattr(upkeep.Upkeep, "appended", lambda *_: None)
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=2))
    return log


def append_numbers(log: FileLog, first: int, end: int, size: int = 1) -> None:
    """One append for each number, in both partitions."""
    for number in range(first, end):
        row = (b"k", b"%d" % number + b" " * (size - 1), number)
        assert log.append("t", write(log, "t", (0, [row]), (1, [row])))


def expected(end: int, start: int = 0, size: int = 1) -> list[Row]:
    """What ``append_numbers`` wrote into a partition."""
    return [(number, b"k", b"%d" % number + b" " * (size - 1), number) for number in range(start, end)]


def data_files(log: FileLog) -> list[str]:
    return sorted(path.name for path in (log.root / "t" / "data").iterdir())


def live_files(log: FileLog) -> int:
    """How many files the topic's newest state needs, but for the index."""
    return len(log._topic("t").fresh().files())


def bytes_held(log: FileLog) -> int:
    """The bytes of all segments that are still there."""
    found = log._topic("t")
    parts = (found.nodes.segments_from(found.state, p, found.state.starts[p]) for p in (0, 1))
    return sum(segment.nbytes for part in parts for segment in part)


# --- merging -------------------------------------------------------------------------------------------------------


def test_small_appends_become_few_files_and_every_record_keeps_its_offset(log: FileLog):
    for number in range(67):
        append_numbers(log, number, number + 1)
        log.tidy("t")

    assert [unit.level for unit in log._topic("t").fresh().units] == [3, 0, 0, 0]  # 64 appends, and three
    assert live_files(log) == 4
    for reader in (log, FileLog(log.root)):
        assert rows(reader, "t", 0) == rows(reader, "t", 1) == expected(67)
        assert rows(reader, "t", 0, 13, 40) == expected(40, 13)


def test_records_with_and_without_headers_are_merged_as_they_are(log: FileLog):
    written: list[Row] = [(b"a", b"1", 1), (b"a", b"2", 2, [("n", b"x")]), (None, None, 3), (b"", b"", 4, [])]
    for row in written:
        append(log, "t", row)
    before = rows(log, "t")
    log.tidy("t")

    assert live_files(log) == 1
    assert rows(FileLog(log.root), "t") == before == [(offset, *row) for offset, row in enumerate(written)]


def test_records_do_not_seem_to_have_come_when_their_files_were_merged(log: FileLog):
    append_numbers(log, 0, 4)
    for hours, name in enumerate(data_files(log), 1):
        make_older(log.root / "t" / "data" / name, hours)
    came = log.arrived_at("t", 0, 3)
    log.tidy("t")
    assert live_files(log) == 1
    assert log.arrived_at("t", 1, 0) == log.arrived_at("t", 0, 3)
    assert came is not None
    assert time.time() - 4 * 3600 - 60 < (log.arrived_at("t", 0, 3) or 0) <= came


def test_whether_the_partitioner_placed_records_is_kept_where_it_placed_all(log: FileLog):
    for partition, placed in [(0, True), (0, True), (1, True), (1, False)]:
        (segment,) = write(log, "t", (partition, [(b"a", b"1", 1)]))
        log.append("t", [msgspec.structs.replace(segment, placed=placed)])
    log.tidy("t")
    assert [[records.placed for records in log.read("t", p, 0, 2)] for p in (0, 1)] == [[True], [False]]


def test_a_numbered_append_that_was_merged_long_ago_is_still_not_repeated(log: FileLog, monkeypatch):
    monkeypatch.setattr(entries, "STATE_EVERY", 4)
    segments = write(log, "t", (0, [(b"k", b"0", 0)]), (1, [(b"k", b"0", 0)]))
    log.append("t", segments, "streams:app", 7)
    append_numbers(log, 1, 40)
    log.tidy("t")

    for other in (log, FileLog(log.root)):
        assert other.last_sequence("t", "streams:app") == 7
        assert other.append("t", segments, "streams:app", 7) is False
    assert rows(log, "t") == expected(40)


def test_the_producers_that_appended_last_are_remembered_and_no_more_than_so_many():
    state = TopicState.empty(1)
    for number in range(MAX_PRODUCERS + 10):
        state.apply(Entry(producer=f"p{number}", sequence=number))
        state.apply(Entry(producer="p0", sequence=number))
    assert len(state.producers) == MAX_PRODUCERS
    assert state.producers["p0"] == MAX_PRODUCERS + 9
    assert ("p1" in state.producers, f"p{MAX_PRODUCERS}" in state.producers) == (False, True)


def test_a_reader_in_the_middle_of_files_that_are_merged_and_removed_goes_on(log: FileLog):
    append_numbers(log, 0, 20)
    reader = FileLog(log.root)
    pieces = reader.read("t", 0, 0, 20)
    found = [*next(pieces).offsets, *next(pieces).offsets]

    log.tidy("t")
    for name in set(data_files(log)) - log._topic("t").fresh().files():
        (log.root / "t" / "data" / name).unlink()
    found += [offset for piece in pieces for offset in piece.offsets]
    assert found == list(range(20))


def test_files_that_were_merged_stay_a_while_on_a_shared_folder_for_those_who_read_them(
    log: FileLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(entries, "is_shared", lambda folder: True)
    monkeypatch.setattr(entries, "STATE_EVERY", 4)
    append_numbers(log, 0, 4)
    old = data_files(log)
    log.tidy("t")
    assert live_files(log) == 1
    append_numbers(log, 4, 16)
    assert set(old) <= set(data_files(log))

    monkeypatch.setattr(entries, "GRACE_MS", 0)
    append_numbers(log, 16, 24)
    assert not set(old) & set(data_files(log))
    assert rows(FileLog(log.root), "t") == expected(24)


@pytest.mark.parametrize("retention_ms", [-1, 120_000])
def test_small_appends_leave_some_dozens_of_files_at_any_time_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention_ms: int
):
    """An append each 0.6 seconds, by a program that goes on for ten minutes."""
    monkeypatch.setattr(upkeep, "RETENTION_EVERY_S", 0)
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", 1, retention_ms=retention_ms))
    now = time.time_ns() // 1_000_000 - 600 * 1_000
    most = 0
    for number in range(1_000):
        append(log, "t", (b"k", b"%d" % number, now + 600 * number))
        if number % 10 == 9:
            log.wait()
            most = max(most, sum(1 for path in tmp_path.rglob("*") if path.is_file()))
    assert most <= 85
    start, end = log.start_offsets("t")[0], log.end_offsets("t")[0]
    assert end == 1_000
    assert start == 0 if retention_ms < 0 else 700 < start < 900
    assert [row[0] for row in rows(FileLog(tmp_path), "t", 0, start)] == list(range(start, end))


@pytest.mark.parametrize("nbytes", [100, 1_000, 100_000])
def test_of_each_size_that_is_merged_there_are_at_most_15_files_however_many_appends_there_are(nbytes: int):
    """40,000 appends; what is large stays."""
    limits, units, most = MergeLimits(merge.TARGET_BYTES, 2**63), [], 0
    for number in range(40_000):
        units.append(Unit([f"{number}"], nbytes, number, number))
        if len(units) < merge.FAN_IN or any(unit.level for unit in units[-merge.FAN_IN :]):
            continue
        while (chosen := due(units, limits)) is not None:
            some = units[chosen]
            size, newest = sum(unit.nbytes for unit in some), some[-1].newest
            units[chosen] = [Unit(["merged"], size, some[0].oldest, newest, some[0].level + 1)]
        units = [unit for unit in units if not limits.is_large(unit)]
        most = max(most, len(units))
    sizes = len(list(takewhile(lambda size: 2 * size < limits.nbytes, (nbytes * 16**n for n in itertools.count()))))
    assert most <= 15 * sizes <= 75


def test_whether_a_folder_is_shared_is_told_by_its_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mounts = tmp_path / "mounts"
    local, remote, spaced = tmp_path / "disk", tmp_path / "disk" / "remote", tmp_path / "a b"
    for folder in (local, remote, spaced):
        folder.mkdir(parents=True, exist_ok=True)
    escaped = str(spaced).replace(" ", "\\040")
    lines = ["a / fuse.x rw 0 0", f"b {local} ext4 rw 0 0", f"c:/c {remote} nfs4 rw 0 0", f"d {escaped} xfs rw 0 0"]
    mounts.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(shared, "_MOUNTS", mounts)
    monkeypatch.setattr(shared, "_EXPORTS", tmp_path / "exports")
    places = [local, local / "t", remote / "t", spaced, tmp_path, tmp_path / "diskette"]
    assert [shared.is_shared.__wrapped__(str(place)) for place in places] == [False, False, True, False, True, True]
    (tmp_path / "exports").write_text("# Version 1.1\n/disk 10.0.0.0/8(rw)\n")
    assert shared.is_shared.__wrapped__(str(local))


def test_large_appends_stay_as_they_are_and_what_stands_between_them_is_merged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merge, "FAN_IN", 4)
    limits = MergeLimits(nbytes=100, span_ms=10**9)

    def units(*sizes: int, level: int = 0) -> list[Unit]:
        return [Unit([str(number)], size, 0, 0, level) for number, size in enumerate(sizes)]

    assert due(units(1, 1, 1), limits) is None
    assert due(units(1, 1, 1, 1, 1), limits) == slice(0, 5)
    assert due(units(60, 50, 100, 51), limits) is None
    assert due(units(60, 1, 1, 1, 1), limits) == slice(1, 5)
    assert due(units(60, 1, 2, 60, 1), limits) == slice(1, 3)
    assert due(units(40, 40, 40), limits) == slice(0, 2)
    assert due([*units(1, 1, 1, level=1), *units(1, 1, 1)], limits) is None
    assert due([*units(1, 1, 1, level=1), *units(1, 1, 1, 1)], limits) == slice(3, 7)
    assert due([*units(1, 1, 1, 1, level=1), *units(1, 1, 1)], limits) == slice(0, 4)


def test_what_is_merged_spans_a_small_part_of_what_a_topic_keeps(monkeypatch: pytest.MonkeyPatch):
    limits = MergeLimits.of(TopicInfo("t", 1, retention_ms=8 * HOUR, retention_bytes=8000))
    assert (limits, MergeLimits.of(TopicInfo("t", 1))) == (
        MergeLimits(1000, HOUR),
        MergeLimits(merge.TARGET_BYTES, 2**63),
    )
    hours = [Unit([str(n)], 1, n * HOUR // 2, n * HOUR // 2) for n in range(6)]
    assert due(hours, limits) == slice(0, 3)
    merged = Unit(["m"], 3, 0, HOUR, 1)
    assert due([merged, *hours[3:]], limits) is None  # these may be followed by others of their hour
    assert due([merged, *hours[3:], Unit(["7"], 1, 3 * HOUR, 3 * HOUR)], limits) == slice(1, 4)


def test_history_moves_into_the_index_and_stays_readable_from_anywhere(log: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merge, "TARGET_BYTES", 20)  # nothing is merged
    for name, number in [("MOST_UNITS", 4), ("NODE_UNITS", 3), ("NODE_NODES", 2)]:
        monkeypatch.setattr(upkeep, name, number)
    for end in range(1, 60):
        append_numbers(log, end - 1, end)
        log.tidy("t")

    state = log._topic("t").fresh()
    assert (len(state.units) <= 4, len(state.nodes) >= 4, all(len(level) <= 2 for level in state.nodes)) == (True,) * 3
    for reader in (log, FileLog(log.root)):
        assert rows(reader, "t") == rows(reader, "t", 1) == expected(59)
        for start in range(0, 59, 7):
            assert rows(reader, "t", 1, start, start + 9) == expected(min(start + 9, 59), start)


@pytest.fixture
def indexed(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> FileLog:
    """A topic with 59 records in each partition, nearly all of them in the index."""
    monkeypatch.setattr(merge, "TARGET_BYTES", 20)
    for name, number in [("MOST_UNITS", 4), ("NODE_UNITS", 3), ("NODE_NODES", 2)]:
        monkeypatch.setattr(upkeep, name, number)
    append_numbers(log, 0, 59)
    log.tidy("t")
    return log


@pytest.mark.parametrize("start", [1, 9, 30, 50, 57, 59])
def test_records_in_the_index_are_removed_with_their_files_and_nodes(indexed: FileLog, start: int):
    indexed.trim("t", {0: start})
    assert (len(data_files(indexed)), rows(indexed, "t", 1)) == (59, expected(59))
    indexed.trim("t", {1: start})

    assert len(data_files(indexed)) == 59 - start
    for reader in (indexed, FileLog(indexed.root)):
        assert rows(reader, "t", 0, start) == rows(reader, "t", 1, start) == expected(59, start)
        assert (reader.stats("t").records, reader.stats("t").nbytes) == (2 * (59 - start), bytes_held(reader))
    state = indexed._topic("t").fresh()
    nodes = {ref.file.name for ref, _ in indexed._topic("t").nodes.all_nodes(state.topmost())}
    assert nodes == {path.name for path in (indexed.root / "t" / "index").iterdir()}


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "message"), [(damaged, "is damaged"), (Path.unlink, "is missing though the topic's entries name it")]
)
def test_a_damaged_node_is_named_and_what_is_not_below_it_is_read(
    indexed: FileLog, harm: Callable[[Path], None], message: str
):
    state = indexed._topic("t").fresh()
    lowest = state.topmost()[-1]
    path = indexed.root / "t" / "index" / lowest.file.name
    harm(path)
    reader = FileLog(indexed.root)
    with pytest.raises(CorruptDataError, match=f"^{path} {message}.*; restore (it|the file) from a backup"):
        rows(reader, "t")
    assert rows(reader, "t", 0, lowest.ends[0]) == expected(59, lowest.ends[0])


# --- a long history ------------------------------------------------------------------------------------------------


def test_opening_a_topic_reads_the_same_few_files_however_long_its_history_is(log: FileLog, monkeypatch):
    found = log._topic("t")
    state, number = found.state, 0
    for level in (1, 1, 1, 0, 0, 0, 0, 0):
        number = grow(log, state, level, number)
    state.next = 10**7
    create_file(found.entries.folder / f"{10**7:016d}.state", seal(state))
    create_file(found.entries.folder / f"{10**7:016d}.json", seal(Entry()))

    read: list[str] = []
    plain = plain_files.open_plain
    monkeypatch.setattr(plain_files, "open_plain", lambda path, *more: read.append(path.name) or plain(path, *more))
    reader = FileLog(log.root)
    assert reader.end_offsets("t") == [number, number]
    assert number == (3 * 64 + 5) * 256
    assert sorted(set(read)) == [f"{10**7:016d}.json", f"{10**7:016d}.state", "newest", "topic.json"]

    read.clear()
    segments = reader._topic("t").nodes.segments_from(reader._topic("t").state, 1, 47_777)
    assert next(segments).base == 47_777
    assert [name[16:] for name in read] == [".node"] * 2


def grow(log: FileLog, state: TopicState, level: int, number: int) -> int:
    """Add a node of a level, for segments from an offset on; where they end."""
    nodes = log._topic("t").nodes

    def lowest(first: int):
        parts = [[Segment(p, FileRef("f", 1, 1), [0], 1, 1, 1, base=first + n) for n in range(256)] for p in (0, 1)]
        return nodes.write(Node(segments=parts), [first + 256] * 2)

    while len(state.nodes) <= level:
        state.nodes = [*state.nodes, []]
    if level == 0:
        ref = lowest(number)
    else:
        refs = [lowest(number + 256 * n) for n in range(64)]
        ref = nodes.write(Node(nodes=refs), refs[-1].ends)
    state.nodes[level] = [*state.nodes[level], ref]
    state.ends = list(ref.ends)
    return ref.ends[0]


def test_an_index_of_a_log_that_is_not_merged_is_only_added_to(log: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entries, "STATE_EVERY", 8)
    for name, number in [("MOST_UNITS", 4), ("NODE_UNITS", 3), ("NODE_NODES", 2)]:
        monkeypatch.setattr(upkeep, name, number)
    monkeypatch.setattr(merge, "TARGET_BYTES", 20)
    monkeypatch.setattr(state, "RECENT", 8)
    before: dict[str, int] = {}
    sizes = []
    for number in range(120):
        append_numbers(log, number, number + 1)
        log.tidy("t")
        written = {path.name: path.stat().st_mtime_ns for path in (log.root / "t" / "index").glob("*")}
        assert before.items() <= written.items()
        before = written
        sizes.append(max(len(path.read_bytes()) for path in (log.root / "t" / "commits").iterdir()))
    assert max(sizes[100:]) < 1.3 * max(sizes[:40])


# --- what killed programs and others leave -------------------------------------------------------------------------


def make_older(path: Path, hours: float) -> None:
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


LEFT = ["produce-0123456789abcdef-0.arrow", "spark-0123456789abcdef-0.arrow", "merge-0123456789abcdef-0.arrow"]


def test_what_killed_programs_left_long_ago_is_swept_and_what_may_be_under_way_is_not(log: FileLog):
    append_numbers(log, 0, 9)
    log.tidy("t")
    folder = log.root / "t"
    for path in (*(folder / "data").iterdir(), *(folder / "commits").iterdir()):
        make_older(path, 1000)
    needed = {folder / "data" / name for name in log._topic("t").fresh().files()}
    old = [*(folder / "data" / name for name in LEFT), folder / "commits" / ".tmp-0000000000000003.json-77-0123abcd"]
    young = [folder / "data" / LEFT[0].replace("-0.", "-1."), folder / "commits" / ".tmp-0000000000000009.json-77-0123"]
    others = [folder / "data" / "flights-0123456789ab-7-01234567-0_0-0.arrow"]  # a manifest may name it
    for path in (*old, *young, *others):
        path.write_bytes(b"ARROW1")
        make_older(path, 25 if path not in young else 0.5)

    log.tidy("t")
    assert [path.name for path in old if path.exists()] == []
    assert all(path.exists() for path in (*young, *others, *needed))
    assert rows(FileLog(log.root), "t") == expected(9)


def test_a_file_in_the_index_is_not_taken_for_a_leftover(indexed: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upkeep, "_LEFT_BEHIND", re.compile(r".*\.(arrow|node)"))
    monkeypatch.setattr(upkeep, "_LEFT_MS", 0)
    indexed.tidy("t")
    indexed.sweep("t", lambda name: name.startswith("test-"))
    assert rows(FileLog(indexed.root), "t") == rows(indexed, "t", 1) == expected(59)


def test_files_that_others_put_into_a_log_are_no_part_of_it(log: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entries, "STATE_EVERY", 4)
    for folder in ("", "t", "t/commits", "t/data", "t/index"):
        (log.root / folder).mkdir(exist_ok=True)
        for name in (
            ".DS_Store",
            "._0000000000000001.json",
            "Icon\r",
            "Thumbs.db",
            "copy.json",
            "x.state",
            "9.checkpoint",
        ):
            (log.root / folder / name).write_bytes(b"\0\0\0\1Bud1")
    (log.root / "t" / "data" / "._produce-0123456789abcdef-0.arrow").write_bytes(b"\0")
    append_numbers(log, 0, 21)
    log.tidy("t")

    for reader in (log, FileLog(log.root)):
        assert (reader.topics(), rows(reader, "t"), rows(reader, "t", 1)) == (["t"], expected(21), expected(21))
    log.trim("t", {0: 20})
    assert rows(FileLog(log.root), "t", 0, 20) == expected(21, 20)


# --- without a command ---------------------------------------------------------------------------------------------


@pytest.fixture
def beside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FileLog:
    """A topic of which four appends are merged as soon as they are there."""
    monkeypatch.setattr(merge, "FAN_IN", 4)
    monkeypatch.setattr(upkeep, "FAN_IN", 4)
    monkeypatch.setattr(upkeep, "RETENTION_EVERY_S", 0.0)
    log = FileLog(folder)
    log.create_topic(TopicInfo("t", partitions=2))
    return log


def test_whoever_appends_merges(beside: FileLog):
    append_numbers(beside, 0, 100)
    beside.wait()
    append_numbers(beside, 100, 104)
    beside.wait()
    assert live_files(beside) < 20
    assert rows(beside, "t") == rows(FileLog(beside.root), "t", 1) == expected(104)


def test_whoever_appends_removes_what_a_topic_does_not_keep(beside: FileLog):
    now = time.time_ns() // 1_000_000
    append(beside, "t", (b"k", b"old", now - 2 * HOUR))
    append(beside, "t", (b"k", b"new", now))
    beside.set_retention("t", retention_ms=HOUR)
    append(beside, "t", (b"k", b"newer", now))
    beside.wait()
    assert (beside.start_offsets("t"), len(data_files(beside))) == ([1, 0], 2)

    beside.set_retention("t", NO_LIMIT, retention_bytes=30)
    append(beside, "t", (b"k", b"newest", now))
    beside.wait()
    assert (beside.topic("t").retention_bytes, beside.topic("t").retention_ms) == (30, NO_LIMIT)
    assert rows(beside, "t", 0, 3) == [(3, b"k", b"newest", now)]
    assert beside.start_offsets("t") == [3, 0]


def test_an_append_is_not_hindered_by_what_cannot_be_merged_and_a_warning_says_so_once(
    beside: FileLog, caplog: pytest.LogCaptureFixture
):
    append_numbers(beside, 0, 3)
    (beside.root / "t" / "data" / data_files(beside)[1]).write_bytes(b"ARROW1")
    append_numbers(beside, 3, 20)
    beside.wait()
    append_numbers(beside, 20, 40)
    beside.wait()
    (told,) = [record.getMessage() for record in caplog.records]
    assert re.match(r"topic 't' grows, its files cannot be merged or removed: .*\.arrow is torn: ", told)
    assert beside.end_offsets("t") == [40, 40]


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_merge_that_fails_because_its_topic_is_removed_says_nothing(
    beside: FileLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_made_anew: bool
):
    def removed(topic: Any, ends: Any) -> None:
        log = FileLog(beside.root)
        log.delete_topic("t")
        if is_made_anew:
            log.create_topic(TopicInfo("t", partitions=2))
        raise FileNotFoundError("a segment")

    append_numbers(beside, 0, 9)
    beside.wait()
    monkeypatch.setattr(upkeep, "tidy", removed)
    keeper = upkeep.Upkeep(FileLog(beside.root)._topic)
    keeper._ask("t")
    keeper.wait()
    assert (FileLog(beside.root).exists("t"), caplog.records) == (is_made_anew, [])


def test_a_topic_that_is_removed_while_it_is_merged_is_gone(beside: FileLog, caplog: pytest.LogCaptureFixture):
    for _ in range(5):
        append_numbers(beside, 0, 9)
        beside.delete_topic("t")
        beside.create_topic(TopicInfo("t", partitions=2))
    beside.wait()
    assert (rows(beside, "t"), caplog.records) == ([], [])
    beside.delete_topic("t")
    assert list(beside.root.iterdir()) == []


# --- programs that sleep -------------------------------------------------------------------------------------------


def test_a_program_that_falls_asleep_right_after_appending_finds_its_records_merged_and_does_not_repeat_them(
    log: FileLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(entries, "STATE_EVERY", 4)
    monkeypatch.setattr(entries, "GRACE_MS", 0)
    others, create = FileLog(log.root), entries.create_file

    def create_and_sleep(path: Path, data: bytes) -> bool:
        monkeypatch.setattr(entries, "create_file", create)
        created = create(path, data)
        append_numbers(others, 1, 20)
        others.tidy("t")
        append_numbers(others, 20, 40)
        return created

    monkeypatch.setattr(entries, "create_file", create_and_sleep)
    append_numbers(log, 0, 1)
    assert rows(log, "t") == rows(FileLog(log.root), "t") == expected(40)


def test_a_program_that_slept_too_long_to_know_whether_it_appended_says_so(
    log: FileLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(entries, "STATE_EVERY", 4)
    monkeypatch.setattr(state, "RECENT", 8)
    others, create = FileLog(log.root), entries.create_file

    def create_and_sleep(path: Path, data: bytes) -> bool:
        monkeypatch.setattr(entries, "create_file", create)
        created = create(path, data)
        append_numbers(others, 1, 40)
        return created

    monkeypatch.setattr(entries, "create_file", create_and_sleep)
    with pytest.raises(
        LogError, match=r"slept while it appended.* cannot tell whether its own records are in the topic"
    ):
        append_numbers(log, 0, 1)
    assert rows(log, "t") == expected(40)


def test_what_a_killed_merger_left_under_an_old_number_removes_nothing(log: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entries, "STATE_EVERY", 4)
    monkeypatch.setattr(entries, "GRACE_MS", 0)
    append_numbers(log, 0, 14)
    left = Entry(gone=data_files(log), change=Merge([], 1))
    assert create_file(log.root / "t" / "commits" / f"{1:016d}.json", seal(left))
    append_numbers(log, 14, 30)
    assert not (log.root / "t" / "commits" / f"{1:016d}.json").exists()
    assert rows(FileLog(log.root), "t") == expected(30)


# --- other versions ------------------------------------------------------------------------------------------------


@pytest.fixture
def version_1(tmp_path: Path) -> FileLog:
    """A log that version 1 wrote: entries 4 to 10, of which it summed up those before 8."""
    shutil.copytree(Path(__file__).parent / "written" / "version-1", tmp_path, dirs_exist_ok=True)
    return FileLog(tmp_path)


DELAYS = [
    [
        (3, None, None, 1000),
        (4, b"JFK", b"20", 2000),
        (5, None, None, 2000),
        (6, b"LGA", b"7", 3000, [("from", b"gate 4")]),
    ],
    [
        (0, b"JFK", b"1", 1),
        (1, None, None, 1),
        (2, b"JFK", b"11", 1001),
        (3, None, None, 1001),
        (4, b"JFK", b"21", 2001),
    ],
]
"""The first records of both partitions; in the second one behind what was trimmed."""


def test_a_log_of_version_1_is_read_and_goes_on(version_1: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entries, "STATE_EVERY", 4)
    monkeypatch.setattr(merge, "FAN_IN", 4)
    log = version_1
    assert (log.start_offsets("delays"), log.end_offsets("delays")) == ([3, 0], [17, 18])
    assert log.stats("delays") == TopicStats(records=32, nbytes=645, newest=99000)
    assert log.append("delays", [], "streams:delays-0123", 8) is False
    before = [rows(log, "delays", 0, 3), rows(log, "delays", 1)]
    assert [part[: len(first)] for part, first in zip(before, DELAYS, strict=True)] == DELAYS

    log.tidy("delays")
    for number in range(9):
        append(log, "delays", (b"EWR", b"%d" % number, number))
        log.tidy("delays")
    behind = [(17 + number, b"EWR", b"%d" % number, number) for number in range(9)]
    for reader in (log, FileLog(log.root)):
        assert rows(reader, "delays", 0, 3) == before[0] + behind
        assert rows(reader, "delays", 1) == before[1]
        assert reader.last_sequence("delays", "streams:delays-0123") == 8
    assert list((log.root / "delays" / "commits").glob("*.checkpoint")) == []
    assert len(log._topic("delays").fresh().files()) < 6


def test_units_of_version_1_fit_the_order_of_all_partitions(tmp_path: Path):
    def segment(partition: int, file: str) -> Segment:
        return Segment(partition, FileRef(file, 1, 1), [0], 1, 1, int(file[1:]))

    parts = [["a1", "b2", "c3", "e9"], ["b2", "d4", "e9"], ["a1", "d4"]]
    state = TopicState(0, [0] * 3, [0] * 3, [[segment(p, f) for f in part] for p, part in enumerate(parts)], {})
    units = state.upgraded().units
    order = [name for unit in units for name in unit.files]
    assert sorted(order) == ["a1", "b2", "c3", "d4", "e9"]
    assert all(sorted(part, key=order.index) == part for part in parts)
    assert [unit.newest for unit in units] == list(accumulate((int(name[1:]) for name in order), max))


def test_what_a_newer_version_wrote_is_refused_and_not_called_damaged(log: FileLog):
    append_numbers(log, 0, 2)
    path = log.root / "t" / "commits" / f"{1:016d}.json"
    path.write_bytes(seal({"version": 3, "change": {"type": "unheard-of"}}))
    with pytest.raises(LogError, match=rf"^{path} was written by a newer version of Penstock \(format 3, .* up to 2\)"):
        FileLog(log.root).end_offsets("t")


# --- large values --------------------------------------------------------------------------------------------------


def test_records_are_written_in_pieces_that_fit_and_merged_into_no_larger_ones(log: FileLog, monkeypatch):
    monkeypatch.setattr(segments, "_MOST_BYTES", 1000)
    monkeypatch.setattr(merge, "_BATCH_BYTES", 1000)
    written = [(b"k", b"%d" % n * 300, n) for n in range(8)]
    for _ in range(4):
        append(log, "t", *written, (b"k", b"x" * 5000, 9))
    assert max(len(piece) for piece in log.read("t", 0, 0, 36)) == 2
    log.tidy("t")
    assert live_files(log) == 1
    pieces = list(log.read("t", 0, 0, 36))
    assert all(len(piece) == 1 or piece.nbytes <= 1000 for piece in pieces)
    assert [row[1:] for row in rows(log, "t")] == [*written, (b"k", b"x" * 5000, 9)] * 4


# --- more partitions ----------------------------------------------------------------------------------------------


def test_a_topic_that_gets_more_partitions_keeps_its_records_where_they_are(
    log: FileLog, monkeypatch: pytest.MonkeyPatch
):
    for name, number in [("MOST_UNITS", 4), ("NODE_UNITS", 3), ("NODE_NODES", 2)]:
        monkeypatch.setattr(upkeep, name, number)
    monkeypatch.setattr(entries, "STATE_EVERY", 8)
    append_numbers(log, 0, 90)
    log.tidy("t")
    reader = FileLog(log.root)
    assert reader.topic("t").partitions == 2
    id_ = log.topic_id("t")
    for partitions in (3, 5, 5):
        log.add_partitions("t", partitions)
        assert reader.topic("t").partitions == FileLog(log.root).topic("t").partitions == partitions
    late = [(b"k", b"late", 1_000 + number) for number in range(90)]
    for row in late:
        log.append("t", write(log, "t", (0, [row]), (4, [row])))
        log.tidy("t")  # nodes of before are folded into others with those of now
    assert log.topic_id("t") == id_
    behind = [(90 + number, *row) for number, row in enumerate(late)]
    for one in (log, reader, FileLog(log.root)):
        assert one.end_offsets("t") == [180, 90, 0, 0, 90]
        assert rows(one, "t", 0) == expected(90) + behind
        assert rows(one, "t", 1) == expected(90)
        assert rows(one, "t", 2) == []
        assert rows(one, "t", 4) == [(number, *row) for number, row in enumerate(late)]
    assert any(node.nodes for _, node in log._topic("t").nodes.all_nodes(log._topic("t").fresh().topmost()))
    log.trim("t", {0: 150, 1: 90, 4: 60})
    assert FileLog(log.root).start_offsets("t") == [150, 90, 0, 0, 60]
    assert rows(FileLog(log.root), "t", 4, 60, 90) == [(number, *row) for number, row in enumerate(late)][60:]


def test_a_topic_does_not_get_fewer_partitions(log: FileLog):
    with pytest.raises(ConfigError, match="topic 't' has 2 partitions, and cannot have 1: records would have to leave"):
        log.add_partitions("t", 1)
    assert log.topic("t").partitions == 2


def test_an_entry_that_versions_of_before_do_not_know_is_of_a_newer_form(log: FileLog):
    append_numbers(log, 0, 1)
    log.add_partitions("t", 4)
    append_numbers(log, 1, 2)
    files = sorted((log.root / "t" / "commits").glob("*.json"))
    assert [entries.unseal(file.read_bytes(), entries._Version, "").version for file in files] == [2, 3, 2]
    log._topic("t").entries.sum_up(log._topic("t").fresh())
    [summed] = (log.root / "t" / "commits").glob("*.state")
    assert entries.unseal(summed.read_bytes(), entries._Version, "").version == 3
