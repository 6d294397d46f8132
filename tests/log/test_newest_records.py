"""The newest entry of a topic is lost: nothing behind it misses it, and it is noticed all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import CorruptDataError
from penstock.log.base import TopicInfo
from penstock.log.file import entries
from penstock.log.file.log import FileLog
from support.logs import append, rows

EVERY = [(n, b"k", b"%d" % n, n) for n in range(6)]


@pytest.fixture(params=[256, 3])
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLog:
    """A topic ``t`` with six appends; entries are summed up or not."""
    monkeypatch.setattr(entries, "STATE_EVERY", request.param)
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", partitions=1))
    for n in range(6):
        append(log, "t", (b"k", b"%d" % n, n))
    return log


def entry(log: FileLog, number: int) -> Path:
    return log.root / "t" / "commits" / f"{number:016d}.json"


ASK: list[Callable[[FileLog], object]] = [
    lambda log: log.end_offsets("t"),
    lambda log: rows(log, "t"),
    lambda log: log.last_sequence("t", "app"),
    lambda log: append(log, "t", (b"k", b"another", 9)),
    lambda log: log.trim("t", {0: 1}),
    lambda log: log.stats("t"),
]


@pytest.mark.parametrize("ask", ASK)
@pytest.mark.parametrize("lost", [1, 2])
def test_whoever_comes_afterwards_is_told_and_after_the_repair_everything_is_there(
    log: FileLog, ask: Callable[[FileLog], object], lost: int
):
    backups = {entry(log, number): entry(log, number).read_bytes() for number in range(6 - lost, 6)}
    for path in backups:
        path.unlink()
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=r"0{15}[2-5]\.json is missing"):
            ask(FileLog(log.root))
    for path, backup in backups.items():
        path.write_bytes(backup)
    assert rows(FileLog(log.root), "t") == EVERY


def test_the_file_and_the_way_out_are_named(log: FileLog):
    entry(log, 5).unlink()
    with pytest.raises(CorruptDataError) as error:
        FileLog(log.root).end_offsets("t")
    if (log.root / "t" / "commits" / f"{6:016d}.state").exists():  # then an entry is missing that is summed up
        assert str(error.value).startswith(f"{entry(log, 5)} is missing though later entries are there")
    else:
        assert str(error.value) == (
            f"{entry(log, 5)} is missing, with the newest records of topic 't'; restore it from a backup. To continue "
            f"without these records, remove {log.root}/t/newest and start the programs again; applications that have "
            "processed these records will refuse to continue"
        )


@pytest.mark.parametrize("ask", ASK)
def test_a_program_that_has_seen_the_records_is_told_even_without_the_note(
    log: FileLog, ask: Callable[[FileLog], object]
):
    seen = FileLog(log.root)
    assert seen.end_offsets("t") == [6]
    entry(log, 5).unlink()
    (log.root / "t" / "newest").unlink()
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=r"0{15}5\.json is missing"):
            ask(seen)


def test_all_entries_lost_are_missed(log: FileLog):
    for path in (log.root / "t" / "commits").iterdir():
        path.unlink()
    with pytest.raises(CorruptDataError, match=r"0{15}5\.json is missing, with the newest records of topic 't'"):
        FileLog(log.root).end_offsets("t")


def test_without_the_note_a_topic_goes_on_without_what_is_lost(tmp_path: Path):
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", partitions=1))
    for n in range(6):
        append(log, "t", (b"k", b"%d" % n, n))
    entry(log, 5).unlink()
    (log.root / "t" / "newest").unlink()
    others = FileLog(log.root)
    append(others, "t", (b"k", b"another", 9))
    assert rows(others, "t") == [*EVERY[:5], (5, b"k", b"another", 9)]


def test_a_note_that_is_damaged_lost_or_behind_stands_in_nobodys_way(log: FileLog):
    note = log.root / "t" / "newest"
    whole = note.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1
        note.write_bytes(data)
        assert FileLog(log.root).end_offsets("t") == [6]
    for data in (b"", whole[:-1], whole + b"0", b"garbage"):
        note.write_bytes(data)
        assert FileLog(log.root).end_offsets("t") == [6]
    note.unlink()
    append(log, "t", (b"k", b"6", 6))
    assert rows(FileLog(log.root), "t")[-1] == (6, b"k", b"6", 6)


def test_a_note_of_fewer_entries_leaves_nothing_of_a_longer_one(log: FileLog):
    topic = log._topic("t")
    for count in (12, 10**9, 5, 6):
        topic.newest.note(count)
        assert topic.newest.read() == count
