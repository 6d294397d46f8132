"""Damage to a log's files is detected and named; whatever was damaged, no record is skipped or changed in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import CorruptDataError
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from support.logs import append, rows

PARTITION = 1


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    """A topic of two partitions; in partition 1 three segments, offsets 0 to 1, 2 to 3 and 4 to 5."""
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", partitions=2, value="int", retention_ms=10**15))
    for first in (0, 2, 4):
        append(log, "t", *((b"key", b"value %d" % n, n) for n in (first, first + 1)), partition=PARTITION)
    return log


def segment_file(log: FileLog) -> Path:
    """The file of the segment with offsets 2 and 3."""
    (file,) = (path for path in (log.root / "t" / "data").iterdir() if b"value 3" in path.read_bytes())
    return file


def flip(path: Path, place: int) -> None:
    """Damage one byte of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 0x01
    path.write_bytes(data)


def flip_in_data(path: Path) -> None:
    flip(path, path.read_bytes().index(b"value 3") + 6)


def flip_in_header(path: Path) -> None:
    flip(path, path.read_bytes().index(b"timestamp"))


def flip_first_byte(path: Path) -> None:
    flip(path, 0)


def flip_last_byte(path: Path) -> None:
    flip(path, -1)


def cut_off_the_last_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def append_a_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x00")


def remove(path: Path) -> None:
    path.unlink()


def put_another_segment_in_its_place(path: Path) -> None:
    (other,) = (file for file in path.parent.iterdir() if b"value 5" in file.read_bytes())
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip_in_data, "is damaged: its checksum is not the one it was written with"),
        (flip_in_header, "is damaged: its checksum is not the one it was written with"),
        (flip_first_byte, "is damaged: its checksum is not the one it was written with"),
        (flip_last_byte, "is damaged: its checksum is not the one it was written with"),
        (put_another_segment_in_its_place, "is damaged: its checksum is not the one it was written with"),
        (cut_off_the_last_byte, r"is torn: \d+ bytes were written, \d+ are there"),
        (cut_in_half, r"is torn: \d+ bytes were written, \d+ are there"),
        (empty, r"is torn: \d+ bytes were written, 0 are there"),
        (append_a_byte, r"is torn: \d+ bytes were written, \d+ are there"),
        (remove, r"is missing: \d+ bytes were written"),
    ],
)
def test_a_damaged_segment_is_named_with_topic_partition_offsets_and_file(
    log: FileLog, damage: Callable[[Path], None], message: str
):
    file = segment_file(log)
    damage(file)

    reader = FileLog(log.root)
    where = f"topic 't', partition 1, offsets 2 to 3: {file} "
    with pytest.raises(CorruptDataError, match=f"^{where}{message}; restore .* from a backup$"):
        rows(reader, "t", PARTITION)
    before, behind = rows(reader, "t", PARTITION, 0, 2), rows(reader, "t", PARTITION, 4)
    assert before == [(0, b"key", b"value 0", 0), (1, b"key", b"value 1", 1)]
    assert behind == [(4, b"key", b"value 4", 4), (5, b"key", b"value 5", 5)]
    with pytest.raises(CorruptDataError):  # also the second time, and from its second record on
        rows(reader, "t", PARTITION, 3)


def test_records_before_the_damage_are_handed_out_first(log: FileLog):
    remove(segment_file(log))
    pieces = FileLog(log.root).read("t", PARTITION, 0, 6)
    assert next(pieces).value.to_pylist() == [b"value 0", b"value 1"]
    with pytest.raises(CorruptDataError, match="offsets 2 to 3"):
        next(pieces)


def test_after_repair_everything_is_there_again(log: FileLog):
    file = segment_file(log)
    backup = file.read_bytes()
    expected = rows(log, "t", PARTITION)
    reader = FileLog(log.root)
    cut_in_half(file)
    with pytest.raises(CorruptDataError):
        rows(reader, "t", PARTITION)
    file.write_bytes(backup)
    assert rows(reader, "t", PARTITION) == expected


def test_a_file_of_which_a_time_was_looked_up_is_checked_before_its_records_are_read(log: FileLog):
    flip_in_data(segment_file(log))
    reader = FileLog(log.root)
    assert reader.timestamp_at("t", PARTITION, 3) == 3
    with pytest.raises(CorruptDataError, match="its checksum is not the one it was written with"):
        rows(reader, "t", PARTITION, 2)


# --- entries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_byte_of_an_entry_counts(log: FileLog, number: int):
    entry = log.root / "t" / "commits" / f"{number:016d}.json"
    whole = entry.read_bytes()
    for place in range(len(whole)):
        flip(entry, place)
        with pytest.raises(CorruptDataError, match=f"^{entry} is damaged: .*; restore it from a backup"):
            FileLog(log.root).end_offsets("t")
        entry.write_bytes(whole)
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        entry.write_bytes(whole[:length])
        with pytest.raises(CorruptDataError, match=f"^{entry} is damaged: .*; restore it from a backup"):
            FileLog(log.root).end_offsets("t")
    entry.write_bytes(whole)
    assert FileLog(log.root).end_offsets("t") == [0, 6]


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_entry_is_named(log: FileLog, number: int):
    entry = log.root / "t" / "commits" / f"{number:016d}.json"
    entry.unlink()
    with pytest.raises(CorruptDataError, match=f"^{entry} is missing though later entries are there; restore it"):
        FileLog(log.root).end_offsets("t")


@pytest.fixture
def commits(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the entries 4 to 8 and of the checkpoints that sum up those before 4 and before 8."""
    monkeypatch.setattr("penstock.log.file.entries.STATE_EVERY", 4)
    for n in range(6, 12):
        append(log, "t", (b"key", b"value %d" % n, n), partition=PARTITION)
    assert FileLog(log.root).end_offsets("t") == [0, 12]
    return log.root / "t" / "commits"


@pytest.mark.parametrize("name", ["0000000000000008.state", "0000000000000008.json"])
def test_a_damaged_checkpoint_or_entry_behind_it_is_named(log: FileLog, commits: Path, name: str):
    flip(commits / name, 40)
    with pytest.raises(CorruptDataError, match=f"^{commits / name} is damaged: its checksum does not match; restore"):
        FileLog(log.root).end_offsets("t")


def test_without_the_newest_checkpoint_the_one_before_is_enough(log: FileLog, commits: Path):
    expected = rows(log, "t", PARTITION)
    (commits / "0000000000000008.state").unlink()
    assert rows(FileLog(log.root), "t", PARTITION) == expected


@pytest.mark.parametrize(
    ("removed", "missing"),
    [
        (["0000000000000004.state", "0000000000000008.state"], "0000000000000000.json"),
        (["0000000000000007.json", "0000000000000008.json"], "0000000000000007.json"),
    ],
)
def test_entries_that_should_be_there_are_missed(log: FileLog, commits: Path, removed: list[str], missing: str):
    for name in removed:
        (commits / name).unlink()
    with pytest.raises(CorruptDataError, match=f"^{commits / missing} is missing though later entries are there"):
        FileLog(log.root).end_offsets("t")


# --- what the topic is ---------------------------------------------------------------------------------------------


def test_every_byte_of_a_topics_description_counts(log: FileLog):
    file = log.root / "t" / "topic.json"
    whole = file.read_bytes()
    for place in range(len(whole)):
        flip(file, place)
        with pytest.raises(CorruptDataError, match=f"^{file} is damaged: .*; restore it from a backup"):
            FileLog(log.root).topic("t")
        file.write_bytes(whole)
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(CorruptDataError, match=f"^{file} is damaged: .*; restore it from a backup"):
            FileLog(log.root).topic("t")


def test_a_description_written_by_hand_needs_no_checksum(tmp_path: Path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "topic.json").write_text('{"name": "t", "partitions": 3, "key": "str"}')
    assert FileLog(tmp_path).topic("t") == TopicInfo("t", 3, key="str")
