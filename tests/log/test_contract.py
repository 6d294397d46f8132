"""What every kind of log does: the file log, the log in memory, one whose offsets have gaps, and Kafka."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock import consume
from penstock.errors import ConfigError, OffsetOutOfRangeError, SerdeError, TopicExistsError, TopicNotFoundError
from penstock.log.base import Log, TopicInfo
from penstock.log.file.log import FileLog
from penstock.log.memory import MemoryLog
from penstock.watch.topics import TopicLook
from support.logs import GappedLog, Row, append, rows, write


@pytest.fixture(params=["file", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """A log with a topic ``t`` of two partitions."""
    made = FileLog(tmp_path) if request.param == "file" else MemoryLog()
    made.create_topic(TopicInfo("t", partitions=2))
    return made


@pytest.fixture(params=["file", "memory", "gapped", pytest.param("kafka", marks=pytest.mark.slow)])
def topic_in(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Log, str]:
    """A log, and the name of a topic of two partitions in it; offsets may have gaps."""
    if request.param == "kafka":
        cluster = request.getfixturevalue("cluster")
        return cluster.log, cluster.topic("t", partitions=2)
    made = {"file": lambda: FileLog(tmp_path), "memory": MemoryLog, "gapped": GappedLog}[request.param]()
    made.create_topic(TopicInfo("t", partitions=2))
    return made, "t"


def records(log: Log, topic: str, partition: int = 0) -> list[Row]:
    """Key, value, timestamp and headers of the records of a partition, whose offsets ascend."""
    found = rows(log, topic, partition)
    offsets = [offset for offset, *_ in found]
    assert offsets == sorted(set(offsets))
    return [row for _, *row in found]


# --- topics --------------------------------------------------------------------------------------------------------


def test_a_topic_is_what_it_was_made_as(log: Log):
    info = TopicInfo("counts-by.hour_2", 3, "windowed[str, 3600000]", "int", retention_ms=1000, retention_bytes=10**12)
    log.create_topic(info)

    assert log.topics() == ["counts-by.hour_2", "t"]
    assert (log.exists("t"), log.exists("u")) == (True, False)
    assert log.topic("counts-by.hour_2") == info
    assert (log.start_offsets("counts-by.hour_2"), log.end_offsets("counts-by.hour_2")) == ([0, 0, 0], [0, 0, 0])


def test_a_topic_is_made_once(log: Log):
    append(log, "t", (b"a", b"1", 10))
    with pytest.raises(TopicExistsError, match="topic 't' exists already"):
        log.create_topic(TopicInfo("t", partitions=5))
    assert (log.topic("t").partitions, rows(log, "t")) == (2, [(0, b"a", b"1", 10)])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../t", "a b", "ä", "a" * 250, "t\n", "~t"])
def test_a_name_that_no_topic_can_bear_is_refused(log: Log, name: str):
    with pytest.raises(ConfigError, match="cannot be a topic's name: use 1 to 249 letters, digits, dots"):
        log.create_topic(TopicInfo(name, partitions=1))
    assert log.topics() == ["t"]


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_without_partitions_is_refused(log: Log, partitions: int):
    with pytest.raises(ConfigError, match=f"topic 'u': a topic has at least 1 partition, got {partitions}"):
        log.create_topic(TopicInfo("u", partitions))


def test_a_topic_with_a_mistyped_number_of_partitions_is_refused(log: Log, tmp_path: Path):
    said = (
        "topic '.': a topic has at most 100,000 partitions, got 10,000,000; each one is a task of the programs that "
        "read it"
    )
    with pytest.raises(ConfigError, match=said):
        log.create_topic(TopicInfo("u", 10_000_000))
    files = FileLog(tmp_path / "files")
    files.create_topic(TopicInfo("t", 1))
    with pytest.raises(ConfigError, match=said):
        files.add_partitions("t", 10_000_000)
    assert files.topic("t").partitions == 1


def test_a_topic_with_more_partitions_than_a_number_of_kafka_can_say_is_refused(log: Log):
    with pytest.raises(ConfigError, match=f"topic 'u': a topic has less than 2\\*\\*31 partitions, got {2**31}"):
        log.create_topic(TopicInfo("u", 2**31))


def test_a_topic_that_does_not_exist_is_named_by_whatever_asks_for_it(log: Log):
    segments = write(log, "t", (0, [(b"a", b"1", 10)]))
    for ask in (
        lambda: log.topic("u"),
        lambda: log.start_offsets("u"),
        lambda: log.end_offsets("u"),
        lambda: list(log.read("u", 0, 0, 1)),
        lambda: log.writer("u", "name"),
        lambda: log.append("u", segments),
        lambda: log.topic_id("u"),
        lambda: log.delete_topic("u"),
        lambda: log.trim("u", {0: 0}),
        lambda: log.last_sequence("u", "producer"),
    ):
        with pytest.raises(TopicNotFoundError, match=r"topic 'u' does not exist.*the topics are .*t"):
            ask()


# --- records -------------------------------------------------------------------------------------------------------


def test_records_are_read_as_they_were_written(topic_in: tuple[Log, str]):
    log, topic = topic_in
    written = [
        [b"a", b"1", 10],
        [None, b"without a key", 11],
        [b"deleted", None, 12],
        [None, None, 13],
        [b"", b"", 1],
        [b"\x00\xff" * 3, b"x" * 100_000, 2**50],
    ]
    append(log, topic, *map(tuple, written), partition=1)

    assert (records(log, topic, 1), records(log, topic, 0)) == (written, [])


def test_a_log_without_gaps_counts_from_0_and_takes_any_time(log: Log):
    append(log, "t", (b"a", b"1", 0), (b"b", b"2", 2**62))
    assert rows(log, "t") == [(0, b"a", b"1", 0), (1, b"b", b"2", 2**62)]
    assert (log.end_offsets("t"), log.size("t")) == ([2, 0], 2)


def test_headers_keep_their_order_and_may_repeat(topic_in: tuple[Log, str]):
    log, topic = topic_in
    headers = [("n", b"1"), ("n", b""), ("ä", b"\xff")]
    append(log, topic, (b"a", b"1", 10, headers), (b"b", b"2", 11, []))
    append(log, topic, (b"c", b"3", 12))
    assert [list(*row[3:]) for row in records(log, topic)] == [headers, [], []]


def test_records_with_and_without_headers_of_one_writer_keep_their_order(topic_in: tuple[Log, str]):
    log, topic = topic_in
    one, two, three = (b"a", b"1", 1), (b"a", b"2", 2, [("n", b"x")]), (b"a", b"3", 3)
    assert log.append(topic, write(log, topic, (0, [one]), (0, [two]), (0, [three])))
    found = records(log, topic)
    assert [row[:3] for row in found] == [list(row[:3]) for row in (one, two, three)]
    assert [list(*row[3:]) for row in found] == [[], [("n", b"x")], []]


def test_whoever_reads_says_the_same_offsets(topic_in: tuple[Log, str]):
    log, topic = topic_in
    for first in (0, 3, 6):
        append(log, topic, *((b"k", b"%d" % n, 1000 + n) for n in range(first, first + 3)))
    every = rows(log, topic)
    offsets, times, [end, _] = [row[0] for row in every], [row[3] for row in every], log.end_offsets(topic)
    assert [row[2] for row in every] == [b"%d" % n for n in range(9)]

    assert [record.offset for record in consume(topic, str, str, log=log)] == offsets
    columns = consume(topic, str, str, log=log, as_="arrow")
    assert [offset for batch in columns for offset in batch.column("offset").to_pylist()] == offsets
    for count in range(1, 11):
        newest = log.newest(topic, 0, 0, end, count)
        assert newest is not None
        assert newest.offsets.tolist() == offsets[-count:]
    assert [log.offset_at(topic, 0, time) for time in (0, *times, 2000)] == [offsets[0], *offsets, None]
    assert [log.timestamp_at(topic, 0, offset) for offset in offsets] == times
    for start in range(end + 1):
        for stop in range(start, end + 1):
            assert rows(log, topic, 0, start, stop) == [row for row in every if start <= row[0] < stop]


def test_the_lag_in_time_is_that_of_the_records_which_wait(topic_in: tuple[Log, str]):
    log, topic = topic_in
    for first in (0, 2):
        append(log, topic, *((b"k", b"v", 1000 + n) for n in range(first, first + 2)))
    offsets = [row[0] for row in rows(log, topic)]
    lags = [TopicLook(log).lag(topic, {0: read_up_to})["lag_ms"] for read_up_to in (*offsets, offsets[-1] + 1)]
    assert lags == [3, 2, 1, 0, 0]


@pytest.mark.parametrize("as_", [None, "arrow"])
def test_what_does_not_decode_is_named_by_its_offset(topic_in: tuple[Log, str], as_: str | None):
    log, topic = topic_in
    append(log, topic, (b"a", bytes(8), 1))
    append(log, topic, (b"b", bytes(8), 2), (b"c", b"no number", 3))
    offset = rows(log, topic)[-1][0]
    with pytest.raises(SerdeError, match=rf"^topic '{topic}', partition 0, offset {offset}: "):
        list(consume(topic, str, int, log=log, as_=as_))


def test_a_range_of_offsets_begins_and_ends_anywhere(log: Log):
    for first in (0, 3, 6):  # three pieces
        append(log, "t", *((b"k", b"%d" % n, n) for n in range(first, first + 3)))

    every = [(n, b"k", b"%d" % n, n) for n in range(9)]
    for start in range(10):
        for end in range(12):
            assert rows(log, "t", 0, start, end) == every[start:end]


def test_the_time_of_any_record_can_be_looked_up(log: Log):
    append(log, "t", (b"a", b"1", 10), (b"b", b"2", 40))
    append(log, "t", (b"c", b"3", 30))
    assert [log.timestamp_at("t", 0, offset) for offset in (0, 1, 2)] == [10, 40, 30]
    assert log.timestamp_at("t", 0, 3) == log.timestamp_at("t", 1, 0) == 0  # nothing is there yet
    log.trim("t", {0: 1})
    with pytest.raises(OffsetOutOfRangeError):
        log.timestamp_at("t", 0, 0)


def test_what_is_written_is_invisible_until_it_is_appended(topic_in: tuple[Log, str]):
    log, topic = topic_in
    append(log, topic, (b"a", b"1", 10))
    segments = write(log, topic, (0, [(b"a", b"2", 11)]), (1, [(b"b", b"3", 12)]))
    assert (records(log, topic, 0), records(log, topic, 1)) == ([[b"a", b"1", 10]], [])

    assert log.append(topic, segments)
    assert (records(log, topic, 0), records(log, topic, 1)) == (
        [[b"a", b"1", 10], [b"a", b"2", 11]],
        [[b"b", b"3", 12]],
    )


def test_a_writer_without_records_has_no_segments_and_appending_none_changes_nothing(log: Log):
    with log.writer("t", "nothing") as writer:
        pass
    assert writer.segments() == []
    assert log.append("t", [])
    assert log.end_offsets("t") == [0, 0]


def test_a_numbered_append_happens_once(topic_in: tuple[Log, str]):
    log, topic = topic_in
    for number, expected in [(3, True), (3, False), (2, False), (4, True)]:
        segments = write(log, topic, (0, [(b"k", b"%d" % number, number)]))
        assert log.append(topic, segments, f"{topic}:app", number) is expected
    segments = write(log, topic, (0, [(b"k", b"other", 5)]))
    assert log.append(topic, segments, f"{topic}:other", 0)

    assert records(log, topic) == [[b"k", b"3", 3], [b"k", b"4", 4], [b"k", b"other", 5]]


def test_records_know_whether_the_partitioner_placed_them(log: Log):
    column = pa.array([b"a"], pa.binary())
    for placed in (True, False):
        with log.writer("t", f"w{placed}") as writer:
            writer.write(0, column, column, np.array([1]), None, placed)
        log.append("t", writer.segments())

    assert [records.placed for records in log.read("t", 0, 0, 2)] == [True, False]


# --- topics that are removed ---------------------------------------------------------------------------------------


def test_a_topic_keeps_its_id_and_one_made_anew_has_another(log: Log):
    first = log.topic_id("t")
    append(log, "t", (b"a", b"1", 10))
    assert log.topic_id("t") == first

    log.delete_topic("t")
    log.create_topic(TopicInfo("t", partitions=2))
    log.create_topic(TopicInfo("u", partitions=2))
    assert len({first, log.topic_id("t"), log.topic_id("u"), ""}) == 4


def test_a_topic_made_anew_has_nothing_of_the_old_one(log: Log):
    append(log, "t", (b"a", b"1", 10))
    log.append("t", write(log, "t", (1, [(b"a", b"1", 10)])), "app", 7)
    log.trim("t", {0: 1})
    log.delete_topic("t")
    assert log.topics() == []
    log.create_topic(TopicInfo("t", partitions=1, value="int"))

    assert (log.topic("t"), log.start_offsets("t"), log.end_offsets("t")) == (TopicInfo("t", 1, value="int"), [0], [0])
    assert log.last_sequence("t", "app") == -1
    append(log, "t", (b"b", b"2", 11))
    assert rows(log, "t") == [(0, b"b", b"2", 11)]


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_what_was_written_for_a_topic_that_is_gone_goes_into_no_other_one(log: Log, is_made_anew: bool):
    segments = write(log, "t", (0, [(b"a", b"1", 10)]))
    log.delete_topic("t")
    if is_made_anew:
        log.create_topic(TopicInfo("t", partitions=2))
        append(log, "t", (b"b", b"2", 11))

    for numbered in [(), ("app", 3)]:
        with pytest.raises(TopicNotFoundError, match=r"'t' (was removed while records were written|does not exist)"):
            log.append("t", segments, *numbered)
    assert log.topics() == ["t"] * is_made_anew
    if is_made_anew:
        assert (rows(log, "t"), log.last_sequence("t", "app")) == ([(0, b"b", b"2", 11)], -1)


def test_a_note_is_kept_with_the_number_of_an_append(topic_in: tuple[Log, str]):
    log, topic = topic_in
    producer = f"source-of-{topic}"
    assert tuple(log.last_append(topic, producer)) == (-1, "")
    for number, note, expected in [(0, "first", True), (0, "other", False), (1, '{"at": "é"}', True), (1, "x", False)]:
        segments = write(log, topic, (0, [(b"k", b"%d" % number, 10)]))
        assert log.append(topic, segments, producer, number, note) is expected
    assert tuple(log.last_append(topic, producer)) == (1, '{"at": "é"}')
    assert log.append(topic, [], producer, 2, "without records")
    assert tuple(log.last_append(topic, producer)) == (2, "without records")


# --- the beginning of a topic --------------------------------------------------------------------------------------


def test_trimmed_records_are_gone_and_offsets_stay(log: Log):
    append(log, "t", (b"a", b"0", 0), (b"a", b"1", 1))
    append(log, "t", (b"a", b"2", 2), (b"a", b"3", 3))
    log.trim("t", {0: 3})
    log.trim("t", {0: 2})  # a start never moves back

    assert (log.start_offsets("t"), log.end_offsets("t"), log.size("t")) == ([3, 0], [4, 0], 1)
    assert rows(log, "t", 0, 3) == [(3, b"a", b"3", 3)]
    with pytest.raises(
        OffsetOutOfRangeError, match="offset 2 was removed by retention; the first one still there is 3"
    ):
        rows(log, "t", 0, 2)
    log.trim("t", {0: 4})
    append(log, "t", (b"a", b"4", 4))
    assert rows(log, "t", 0, 4) == [(4, b"a", b"4", 4)]
    with pytest.raises(OffsetOutOfRangeError, match=r"cannot remove the records before offset 6; .* ends at offset 5"):
        log.trim("t", {0: 6})
