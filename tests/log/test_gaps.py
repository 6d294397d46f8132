"""Offsets with gaps, as Kafka's topics have them: whoever reads says each record's own offset, and finds all that wait.

The topic: two appends of three records, each with a marker behind it, and compaction has removed offsets 1 and 4:

    offset   0   1   2   3       4   5   6   7
             a   -   c   marker  -   e   f   marker
"""

from __future__ import annotations

import pytest

from penstock import consume
from penstock.columns.rows import joined
from penstock.errors import SerdeError
from penstock.log.base import TopicInfo
from penstock.log.records import Records
from penstock.watch.topics import TopicLook
from support.logs import GappedLog, append, rows, rows_of

RECORDS = [(0, b"a", b"A", 1000), (2, b"c", b"C", 1002), (5, b"e", b"E", 1004), (6, b"f", b"F", 1005)]


@pytest.fixture
def log() -> GappedLog:
    made = GappedLog(removed=[1, 4])
    made.create_topic(TopicInfo("t", 1, "str", "str"))
    append(made, "t", (b"a", b"A", 1000), (b"b", b"B", 1001), (b"c", b"C", 1002))
    append(made, "t", (b"d", b"D", 1003), (b"e", b"E", 1004), (b"f", b"F", 1005))
    return made


def test_the_topic_is_what_the_picture_shows(log: GappedLog):
    assert (log.start_offsets("t"), log.end_offsets("t"), rows(log, "t")) == ([0], [8], RECORDS)


def test_consumed_records_and_columns_have_the_same_offsets(log: GappedLog):
    one_by_one = [(record.offset, record.key) for record in consume("t", log=log)]
    batches = list(consume("t", log=log, as_="arrow"))
    columns = [(row["offset"], row["key"]) for batch in batches for row in batch.to_pylist()]
    assert one_by_one == columns == [(0, "a"), (2, "c"), (5, "e"), (6, "f")]


def test_an_error_names_the_offset_of_the_record_that_does_not_decode(log: GappedLog):
    log.create_topic(TopicInfo("numbers", 1, "str", "int"))
    append(log, "numbers", (b"a", bytes(8), 0), (b"gone", b"", 0), (b"b", b"no number", 0))
    for as_ in (None, "arrow"):
        with pytest.raises(SerdeError, match=r"^topic 'numbers', partition 0, offset 2: "):
            list(consume("numbers", log=log, as_=as_))


def test_pieces_are_joined_with_the_offsets_they_have(log: GappedLog):
    pieces = list(log.read("t", 0, 0, 8))
    assert [len(piece) for piece in pieces] == [2, 2]
    every = joined(Records, pieces)
    assert (rows_of(every), every.end) == (RECORDS, 7)
    assert rows_of(every.slice(1, 3)) == RECORDS[1:3]


def test_pieces_without_gaps_of_their_own_may_have_one_between_them():
    log = GappedLog()
    log.create_topic(TopicInfo("t", 1))
    append(log, "t", (b"a", b"A", 1))
    append(log, "t", (b"b", b"B", 2))
    assert rows_of(joined(Records, list(log.read("t", 0, 0, 9)))) == [(0, b"a", b"A", 1), (2, b"b", b"B", 2)]


@pytest.mark.parametrize("count", range(6))
def test_the_newest_records_are_found_behind_gaps(log: GappedLog, count: int):
    newest = log.newest("t", 0, 0, 8, count)
    assert ([] if newest is None else rows_of(newest)) == (RECORDS[-count:] if count else [])


def test_a_stretch_without_records_has_no_newest_one(log: GappedLog):
    assert log.newest("t", 0, 3, 5, 1) is None
    assert log.newest("t", 0, 8, 8, 1) is None


def test_the_time_at_an_offset_is_that_of_the_next_record(log: GappedLog):
    assert [log.timestamp_at("t", 0, offset) for offset in range(8)] == [1000, 1002, 1002, 1004, 1004, 1004, 1005, 0]


def test_a_time_is_found_at_the_offset_of_its_record(log: GappedLog):
    assert [log.offset_at("t", 0, time) for time in (0, 1001, 1003, 1005, 1006)] == [0, 2, 5, 6, None]


@pytest.mark.parametrize(
    ("read_up_to", "lag_ms"),
    [(0, 5), (1, 3), (3, 1), (6, 0), (7, 0), (8, 0)],
)
def test_the_lag_in_time_is_that_between_the_oldest_and_the_newest_record_that_wait(
    log: GappedLog, read_up_to: int, lag_ms: int
):
    assert TopicLook(log).lag("t", {0: read_up_to})["lag_ms"] == lag_ms


def test_the_page_shows_the_newest_records_with_their_offsets(log: GappedLog):
    shown = TopicLook(log).newest("t", 3)["rows"]
    assert [(row["offset"], row["key"], row["timestamp"]) for row in shown] == [
        (6, "f", 1005),
        (5, "e", 1004),
        (2, "c", 1002),
    ]
