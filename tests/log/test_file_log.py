"""The file log: topics removed, trimmed and retained, entries summed up, programs that know different moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import (
    ConfigError,
    CorruptDataError,
    LogError,
    OffsetOutOfRangeError,
    StoreError,
    TopicNotFoundError,
)
from penstock.log.base import TopicInfo
from penstock.log.file import entries, state
from penstock.log.file.log import FileLog, TopicStats
from penstock.log.file.state import Entry
from penstock.storage.base import checksum, seal
from support.logs import append, rows, write

HOUR = 3_600_000


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    """A log with a topic ``t`` of two partitions."""
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", partitions=2))
    return log


def data_files(log: FileLog, topic: str = "t") -> int:
    """How many segment files of a topic are on disk."""
    return len(list((log.root / topic / "data").glob("*")))


def append_numbers(log: FileLog, first: int, last: int) -> None:
    """One append for each number."""
    for number in range(first, last):
        append(log, "t", (b"k", b"%d" % number, number))


def numbers(log: FileLog, start: int = 0) -> list[int]:
    """The numbers that ``append_numbers`` wrote."""
    return [int(value) for _, _, value, _ in rows(log, "t", 0, start)]


# --- programs that know different moments --------------------------------------------------------------------------


def test_what_one_program_appends_another_reads_at_once(log: FileLog):
    other = FileLog(log.root)
    assert rows(other, "t") == []
    append(log, "t", (b"a", b"1", 1))
    append(other, "t", (b"b", b"2", 2))
    assert rows(log, "t") == rows(other, "t") == [(0, b"a", b"1", 1), (1, b"b", b"2", 2)]


def test_a_topic_is_there_for_every_program_from_the_moment_it_was_made(log: FileLog):
    other = FileLog(log.root)
    assert not other.exists("u")
    log.create_topic(TopicInfo("u", partitions=1))
    assert (other.exists("u"), other.topics()) == (True, ["t", "u"])


@pytest.fixture
def checkpoint_every_4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are summed up after every 4 instead of 256."""
    monkeypatch.setattr("penstock.log.file.entries.STATE_EVERY", 4)


@pytest.mark.usefixtures("checkpoint_every_4")
def test_old_entries_are_summed_up_and_a_new_program_reads_everything(log: FileLog):
    append_numbers(log, 0, 14)
    assert sorted(path.name for path in (log.root / "t" / "commits").iterdir()) == [
        "0000000000000008.json",
        "0000000000000008.state",
        "0000000000000009.json",
        "0000000000000010.json",
        "0000000000000011.json",
        "0000000000000012.json",
        "0000000000000012.state",
        "0000000000000013.json",
    ]
    assert numbers(FileLog(log.root)) == list(range(14))


def entries_left(log: FileLog) -> list[int]:
    return sorted(int(path.stem) for path in (log.root / "t" / "commits").glob("*.json"))


@pytest.fixture
def files_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is given time to read to the end in files that are no longer needed."""
    monkeypatch.setattr("penstock.log.file.entries.GRACE_MS", 0)


@pytest.mark.usefixtures("checkpoint_every_4", "files_go_at_once")
def test_old_entries_go_two_with_each_append_so_that_no_append_waits_for_all_of_them(log: FileLog):
    left = []
    for number in range(7, 12):
        append_numbers(log, 0 if number == 7 else number, number + 1)
        left.append(entries_left(log)[0])
    assert left == [2, 4, 4, 4, 6]  # the states after 8 and 12 appends make those before 4 and 8 needless


@pytest.mark.usefixtures("checkpoint_every_4", "files_go_at_once")
def test_programs_that_append_once_and_end_leave_no_more_entries_than_others(log: FileLog):
    for number in range(40):
        append_numbers(FileLog(log.root), number, number + 1)
    assert entries_left(log)[0] == 34
    assert numbers(FileLog(log.root)) == list(range(40))


@pytest.mark.usefixtures("checkpoint_every_4")
@pytest.mark.parametrize("known", [0, 1, 3, 4])
def test_a_program_whose_next_entry_has_been_summed_up_reads_what_there_is(log: FileLog, known: int):
    append_numbers(log, 0, known)
    slow = FileLog(log.root)
    assert slow.end_offsets("t") == [known, 0]
    append_numbers(log, known, 14)

    assert slow.end_offsets("t") == [14, 0]
    assert numbers(slow) == list(range(14))


@pytest.mark.usefixtures("checkpoint_every_4")
@pytest.mark.parametrize("known", [0, 1, 3, 4])
def test_a_program_that_slept_long_loses_no_append(log: FileLog, known: int):
    append_numbers(log, 0, known)
    slow = FileLog(log.root)
    assert slow.end_offsets("t") == [known, 0]
    append_numbers(log, known, 14)

    append_numbers(slow, 14, 15)
    assert numbers(log) == numbers(slow) == numbers(FileLog(log.root)) == list(range(15))


@pytest.mark.usefixtures("checkpoint_every_4")
@pytest.mark.parametrize("known", [0, 1, 3, 4])
def test_a_program_that_falls_asleep_between_looking_and_appending_loses_nothing(log: FileLog, known: int):
    append_numbers(log, 0, known)
    topic = log._topic("t")
    segments = write(log, "t", (0, [(b"k", b"14", 14)]))
    before = topic.fresh()
    append_numbers(FileLog(log.root), known, 14)

    assert topic.entries.create(before, Entry(before.place(segments))) is False
    assert log.append("t", segments)
    assert numbers(FileLog(log.root)) == list(range(15))


@pytest.mark.usefixtures("checkpoint_every_4")
@pytest.mark.parametrize("is_known_again", [False, True])
@pytest.mark.parametrize("known", [0, 1, 3, 4])
def test_a_producer_that_slept_takes_an_append_of_another_one_for_no_append_of_its_own(
    log: FileLog, known: int, is_known_again: bool, monkeypatch: pytest.MonkeyPatch
):
    """Both append under number 7; the one that slept finds that number, and another note."""
    monkeypatch.setattr(state, "RECENT", 2)  # so its entry is not one whose checksum is still known
    append_numbers(log, 0, known)
    topic = log._topic("t")
    segments = write(log, "t", (0, [(b"k", b"99", 99)]))
    before = topic.fresh()
    other = FileLog(log.root)
    assert other.append("t", write(other, "t", (0, [(b"k", b"%d" % known, known)])), "source", 7, "of another one")
    append_numbers(other, known + 1, 14)

    if is_known_again:
        assert topic.entries.create(before, Entry(before.place(segments), "source", 7, note="my own")) is False
    assert log.append("t", segments, "source", 7, "my own") is False
    assert numbers(FileLog(log.root)) == list(range(14))
    assert tuple(log.last_append("t", "source")) == (7, "of another one")


@pytest.mark.usefixtures("checkpoint_every_4")
@pytest.mark.parametrize("known", [1, 3, 4])
def test_two_programs_that_fall_asleep_one_append_apart_take_no_free_number_for_the_next(
    log: FileLog, known: int, monkeypatch: pytest.MonkeyPatch
):
    """One of them makes an entry under a number that has been removed, and the other one the entry behind it."""
    append_numbers(log, 0, known)
    first, earlier = FileLog(log.root)._topic("t"), FileLog(log.root)._topic("t").fresh()
    append_numbers(log, known, known + 1)
    second, later = FileLog(log.root)._topic("t"), FileLog(log.root)._topic("t").fresh()
    segments = [write(log, "t", (0, [(b"k", b"%d" % number, number)])) for number in (14, 15)]
    append_numbers(log, known + 1, 14)
    made, answers = entries.create_file, []

    def create_file(path: Path, data: bytes) -> bool:
        done = made(path, data)
        monkeypatch.setattr(entries, "create_file", made)
        answers.append(second.entries.create(later, Entry(later.place(segments[1]))))
        return done

    monkeypatch.setattr(entries, "create_file", create_file)
    answers.append(first.entries.create(earlier, Entry(earlier.place(segments[0]))))
    assert answers == [False, False]
    assert [log.append("t", one) for one in segments] == [True, True]
    assert numbers(FileLog(log.root)) == list(range(16))


@pytest.mark.usefixtures("checkpoint_every_4")
@pytest.mark.parametrize("known", [0, 1, 3, 4])
def test_a_program_that_falls_asleep_right_after_appending_does_not_append_again(
    log: FileLog, known: int, monkeypatch: pytest.MonkeyPatch
):
    append_numbers(log, 0, known)
    others, create = FileLog(log.root), entries.create_file

    def create_and_sleep(path: Path, data: bytes) -> bool:
        monkeypatch.setattr(entries, "create_file", create)
        created = create(path, data)
        append_numbers(others, known + 1, 14)
        return created

    monkeypatch.setattr(entries, "create_file", create_and_sleep)
    append_numbers(log, known, known + 1)
    assert numbers(log) == numbers(others) == numbers(FileLog(log.root)) == list(range(14))


@pytest.mark.usefixtures("checkpoint_every_4")
@pytest.mark.parametrize("known", [0, 1, 3, 4])
def test_an_entry_under_an_old_number_that_a_killed_program_left_is_not_taken_for_one(log: FileLog, known: int):
    append_numbers(log, 0, known)
    topic, others = log._topic("t"), FileLog(log.root)
    left = Entry(topic.fresh().place(write(log, "t", (0, [(b"k", b"99", 99)]))))
    append_numbers(others, known, 14)
    assert entries.create_file(topic.entries.folder / f"{known:016}.json", seal(left))

    assert numbers(log) == numbers(others) == numbers(FileLog(log.root)) == list(range(14))


def test_a_topic_made_anew_is_not_taken_for_the_old_one(log: FileLog):
    other = FileLog(log.root)
    append_numbers(other, 0, 3)
    log.delete_topic("t")
    with pytest.raises(TopicNotFoundError, match=r"topic 't' does not exist in .*: there are no topics yet"):
        other.end_offsets("t")
    log.create_topic(TopicInfo("t", partitions=1, value="int"))

    assert (other.end_offsets("t"), other.topic("t").value) == ([0], "int")
    append_numbers(other, 7, 8)
    assert numbers(log) == numbers(FileLog(log.root)) == [7]


def test_a_removed_topic_is_gone_from_disk_with_what_a_killed_program_left_of_another(log: FileLog):
    append(log, "t", (b"a", b"1", 1))
    (log.root / "~0123456789abcdef" / "data").mkdir(parents=True)
    (log.root / "~0123456789abcdef" / "topic.json").write_bytes((log.root / "t" / "topic.json").read_bytes())
    assert log.topics() == ["t"]

    log.delete_topic("t")
    assert (log.topics(), list(log.root.iterdir())) == ([], [])


def test_a_producer_whose_topic_is_removed_meanwhile_is_told_so_and_makes_no_half_topic(log: FileLog):
    append(log, "t", (b"a", b"1", 1))

    def rows_after_a_removal():
        FileLog(log.root).delete_topic("t")
        yield b"a", b"3", 3, [("n", b"x")]  # a second file

    for _ in range(2):
        with pytest.raises(TopicNotFoundError, match="'t' was removed while records were written into it; they are in"):
            write(log, "t", (0, [(b"a", b"2", 2)]), (0, rows_after_a_removal()))
        assert not (log.root / "t").exists()
        log.create_topic(TopicInfo("t", partitions=1))  # without a folder for records


def test_a_topic_is_not_removed_in_the_middle_of_an_append(log: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.log.file.topic_file._PATIENCE", 0.05)
    append_numbers(log, 0, 1)
    create, refusals = entries.create_file, []

    def create_while_another_removes(path: Path, data: bytes) -> bool:
        with pytest.raises(
            LogError, match="topic 't' is held by another program, which writes into it or removes it"
        ) as e:
            FileLog(log.root).delete_topic("t")
        refusals.append(e)
        return create(path, data)

    monkeypatch.setattr(entries, "create_file", create_while_another_removes)
    append_numbers(log, 1, 2)
    assert (len(refusals), numbers(log)) == (1, [0, 1])


def test_records_of_a_topic_that_is_removed_while_it_is_read_are_not_said_to_be_damaged(log: FileLog):
    append_numbers(log, 0, 3)
    reader = FileLog(log.root)
    pieces = reader.read("t", 0, 0, 3)
    next(pieces)
    log.delete_topic("t")
    with pytest.raises(TopicNotFoundError, match="topic 't' was removed while it was used"):
        list(pieces)


def test_a_topic_whose_description_is_lost_is_named_by_whatever_asks_for_it_and_can_be_removed(log: FileLog):
    append_numbers(log, 0, 3)
    producer, description = FileLog(log.root), log.root / "t" / "topic.json"
    assert producer.end_offsets("t") == [3, 0]
    backup = description.read_bytes()
    description.unlink()

    for ask in (
        lambda: append_numbers(producer, 3, 4),
        lambda: log.exists("t"),
        lambda: log.create_topic(TopicInfo("t", partitions=1)),
        lambda: log.stats("t"),
    ):
        with pytest.raises(
            CorruptDataError, match=f"^{description} is missing though the topic's records are there; restore"
        ):
            ask()
    assert log.topics() == ["t"]

    description.write_bytes(backup)
    assert numbers(FileLog(log.root)) == [0, 1, 2]
    description.unlink()
    log.delete_topic("t")
    assert (log.topics(), list(log.root.iterdir())) == ([], [])
    log.create_topic(TopicInfo("t", partitions=1))
    assert rows(log, "t") == []


def test_a_damaged_topic_can_be_removed(log: FileLog):
    append_numbers(log, 0, 3)
    (log.root / "t" / "topic.json").write_text("{")
    log.delete_topic("t")
    assert not log.exists("t")


@pytest.mark.parametrize("name", ["", ".", "..", "../other/t", "t/data", "~grave"])
def test_nothing_but_a_topic_can_be_removed(log: FileLog, name: str):
    with pytest.raises(ConfigError, match="cannot be a topic's name"):
        log.delete_topic(name)
    assert log.exists("t")


def test_a_topic_that_was_made_before_topics_had_ids_is_read_and_written(log: FileLog):
    description = log.root / "t" / "topic.json"
    sum_ = checksum(b'{"name":"t","partitions":2}')
    description.write_text(f'{{"name":"t","partitions":2,"checksum":{sum_}}}')
    append_numbers(log, 0, 3)
    assert (FileLog(log.root).topic_id("t"), numbers(log)) == ("", [0, 1, 2])
    log.delete_topic("t")
    log.create_topic(TopicInfo("t", partitions=2))
    assert log.topic_id("t") != ""


def test_a_folder_without_topics_is_an_empty_log(tmp_path: Path):
    log = FileLog(tmp_path / "nowhere")
    assert (log.topics(), log.exists("t")) == ([], False)
    with pytest.raises(TopicNotFoundError, match="make it with `penstock topics create t` or by producing into it"):
        log.topic("t")


# --- trimming ------------------------------------------------------------------------------------------------------


def test_trimmed_records_are_gone_and_whole_files_with_them(log: FileLog):
    append(log, "t", (b"a", b"0", 0), (b"a", b"1", 1))
    append(log, "t", (b"a", b"2", 2), (b"a", b"3", 3))
    append(log, "t", (b"b", b"x", 9), partition=1)

    log.trim("t", {0: 3})
    assert (log.start_offsets("t"), log.end_offsets("t"), log.size("t")) == ([3, 0], [4, 1], 2)
    assert rows(log, "t", 0, 3) == rows(FileLog(log.root), "t", 0, 3) == [(3, b"a", b"3", 3)]
    assert data_files(log) == 2
    for start in (0, 2):
        with pytest.raises(
            OffsetOutOfRangeError,
            match=f"'t', partition 0: offset {start} was removed by retention; the first one still there is 3",
        ):
            rows(log, "t", 0, start)

    log.trim("t", {0: 4})
    assert (rows(log, "t", 0, 4), data_files(log)) == ([], 1)
    append(log, "t", (b"a", b"4", 4))
    assert rows(log, "t", 0, 4) == [(4, b"a", b"4", 4)]


def test_a_file_that_partitions_share_stays_until_none_needs_it(log: FileLog):
    log.append("t", write(log, "t", (0, [(b"a", b"0", 0)]), (1, [(b"b", b"1", 1)])))
    log.trim("t", {0: 1})
    assert (data_files(log), rows(log, "t", 1)) == (1, [(0, b"b", b"1", 1)])
    log.trim("t", {1: 1})
    assert data_files(log) == 0


def test_a_start_never_moves_back(log: FileLog):
    append_numbers(log, 0, 5)
    log.trim("t", {0: 4})
    log.trim("t", {0: 2})  # as another program would that looked before
    assert (log.start_offsets("t"), FileLog(log.root).start_offsets("t")) == ([4, 0], [4, 0])
    with pytest.raises(OffsetOutOfRangeError, match="offset 2 was removed"):
        rows(log, "t", 0, 2)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ({0: 6}, "'t', partition 0: cannot remove the records before offset 6; the partition ends at offset 5"),
        ({2: 0}, "topic 't' has no partition 2 to remove records from"),
        ({-1: 0}, "topic 't' has no partition -1 to remove records from"),
    ],
)
def test_trimming_what_is_not_there_is_refused_and_changes_nothing(log: FileLog, starts: dict[int, int], message: str):
    append_numbers(log, 0, 5)
    with pytest.raises(OffsetOutOfRangeError, match=message):
        log.trim("t", starts)
    assert numbers(FileLog(log.root)) == [0, 1, 2, 3, 4]


def test_a_reader_whose_records_are_trimmed_meanwhile_is_told_so_and_hears_of_no_damage(log: FileLog):
    append_numbers(log, 0, 5)
    reader = FileLog(log.root)
    assert reader.end_offsets("t") == [5, 0]
    log.trim("t", {0: 4})
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 1 was removed by retention; the first .* is 4"):
        rows(reader, "t", 0, 1, 5)


def test_a_reader_keeps_a_file_that_it_has_open_when_its_records_are_trimmed(log: FileLog):
    append(log, "t", *((b"k", b"%d" % n, n) for n in range(5)))
    (records,) = FileLog(log.root).read("t", 0, 0, 5)
    log.trim("t", {0: 5})
    assert data_files(log) == 0
    assert records.value.to_pylist() == [b"0", b"1", b"2", b"3", b"4"]


# --- retention -----------------------------------------------------------------------------------------------------


def test_retention_by_time_removes_segments_whose_newest_record_is_too_old(tmp_path: Path):
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", 2))
    append(log, "t", (b"a", b"0", 0), (b"a", b"1", 1 * HOUR))
    append(log, "t", (b"a", b"2", 5 * HOUR))
    append(log, "t", (b"a", b"3", 2 * HOUR))  # late: it stays behind a newer segment
    append(log, "t", (b"b", b"4", 4 * HOUR), partition=1)
    log.set_retention("t", retention_ms=HOUR)

    assert log.apply_retention("t", now_ms=2 * HOUR) == {}  # one hour old is kept
    assert log.apply_retention("t", now_ms=2 * HOUR + 1) == {0: 2}
    assert log.apply_retention("t", now_ms=2 * HOUR + 1) == {}
    assert rows(log, "t", 0, 2) == [(2, b"a", b"2", 5 * HOUR), (3, b"a", b"3", 2 * HOUR)]
    assert log.apply_retention("t", now_ms=5 * HOUR + 1) == {1: 1}
    assert log.apply_retention("t", now_ms=7 * HOUR) == {0: 4}
    assert (log.start_offsets("t"), log.end_offsets("t"), data_files(log)) == ([4, 1], [4, 1], 0)


def test_retention_by_size_keeps_the_newest_segments_of_each_partition(tmp_path: Path):
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", 2))
    for n in range(5):
        append(log, "t", (b"k", b"v" * 91, n))
    append(log, "t", (b"k", b"v" * 91, 9), partition=1)
    log.set_retention("t", retention_bytes=350)  # a record has a little more than 100 bytes

    assert log.apply_retention("t") == {0: 2}
    assert (log.start_offsets("t"), log.end_offsets("t")) == ([2, 0], [5, 1])
    assert log.apply_retention("t") == {}


def test_a_topic_without_retention_keeps_everything(log: FileLog):
    append(log, "t", (b"a", b"0", 0))
    assert log.apply_retention("t", now_ms=2**62) == {}
    assert log.size("t") == 1


# --- what a topic holds --------------------------------------------------------------------------------------------


def test_stats_tell_the_records_that_are_there_and_the_bytes_and_newest_time_of_their_segments(log: FileLog):
    assert log.stats("t") == TopicStats(records=0, nbytes=0, newest=None)
    segments = write(log, "t", (0, [(b"ab", b"12345", 30), (None, None, 70)]), (1, [(b"c", b"1", 50)]))
    log.append("t", segments)
    first, second = (segment.nbytes for segment in segments)
    assert (first >= 2 + 5 + 2 * 8, second >= 1 + 1 + 8) == (True, True)
    assert log.stats("t") == FileLog(log.root).stats("t") == TopicStats(records=3, nbytes=first + second, newest=70)

    log.trim("t", {0: 1})  # its segment is still there for the second record
    assert log.stats("t") == TopicStats(records=2, nbytes=first + second, newest=70)
    log.trim("t", {0: 2})
    assert log.stats("t") == TopicStats(records=1, nbytes=second, newest=50)


# --- writers that do not come to an end ----------------------------------------------------------------------------


def test_a_writer_that_fails_leaves_no_file(log: FileLog):
    append(log, "t", (b"a", b"0", 0))

    def stumbles():
        yield b"a", b"2", 2, [("n", b"x")]
        raise RuntimeError("the program stumbles")

    one, second_file = (0, [(b"a", b"1", 1)]), (0, [(b"a", b"2", 2, [("n", b"x")])])
    with pytest.raises(RuntimeError, match="the program stumbles"):
        write(log, "t", one, second_file, (0, stumbles()))
    assert (data_files(log), rows(log, "t")) == (1, [(0, b"a", b"0", 0)])


def test_sweeping_removes_what_a_writer_left_behind_and_nothing_else(log: FileLog):
    data = log.root / "t" / "data"
    append(log, "t", (b"a", b"0", 0))
    write(log, "t", (0, [(b"a", b"1", 1)]))  # never appended
    (data / "app-7-torn.arrow").write_bytes(b"ARROW1 and no more")
    (data / "application-0.arrow").write_bytes(b"of another one")
    before = {path.name for path in data.iterdir()}

    log.sweep("t", lambda name: name.startswith("app-"))
    assert before - {path.name for path in data.iterdir()} == {"app-7-torn.arrow"}
    log.sweep("t", lambda name: name.startswith("test-"))
    assert (data_files(log), rows(log, "t")) == (2, [(0, b"a", b"0", 0)])


def test_a_folder_that_cannot_be_written_is_named(log: FileLog):
    data = log.root / "t" / "data"
    data.write_text("a file is in the way")
    with pytest.raises(StoreError, match=r"cannot write .*/t/data/.*\.arrow.*nothing was committed"):
        append(log, "t", (b"a", b"0", 0))
    data.unlink()
    append(log, "t", (b"a", b"1", 1))
    assert rows(log, "t") == [(0, b"a", b"1", 1)]
