"""Which part of a topic the options and the filters of a DataFrame mean; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from pyspark.sql.types import LongType, StructField, StructType

from penstock.engine.spark import session
from penstock.engine.spark import source as stream_source
from penstock.engine.spark.dataframes import PenstockSource
from penstock.engine.spark.frame_readers import Columns
from penstock.engine.spark.pushed_filters import FilteringBatchReader, PushedFilters, is_exact
from penstock.engine.spark.read_options import ReadOptions, check_for_batch
from penstock.errors import ConfigError, OffsetOutOfRangeError
from penstock.log.base import TopicInfo
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce

NOON = 1_767_268_800_000
"""2026-01-01, 12:00 UTC, in milliseconds."""

MINUTE = 60_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log with a topic of two partitions: one record a minute from noon on, ten in partition 0, four in 1."""
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("t", 2, "bytes", "int"))
    for partition, count in enumerate((10, 4)):
        for minute in range(count):
            produce_into(log, partition, minute, NOON + minute * MINUTE)
    return tmp_path


def produce_into(log: FileLog, partition: int, value: int, time: int) -> None:
    with log.writer("t", f"w{partition}-{value}") as writer:
        writer.write(partition, pa.nulls(1, pa.binary()), pa.array([value.to_bytes(8, "big")]), np.array([time]))
    log.append("t", writer.segments())


def source(folder: Path, **options: str) -> PenstockSource:
    return PenstockSource({"topic": "t", "log": str(folder), **options})


def read(folder: Path, *filters: ds.Filter, **options: str) -> list[tuple[int, int]]:
    """Partition and value of the records that a batch reads."""
    found = source(folder, **options)
    check_for_batch(found.options, found._asked)
    columns = Columns(found.schema(), "bytes", "bytes")
    reader = FilteringBatchReader(found._place, "t", columns, found._asked)
    reader.pushFilters(list(filters))
    batches = [batch for one in reader.partitions() for batch in reader.read(one)]
    values = [int.from_bytes(value.as_py(), "big") for batch in batches for value in batch["value"]]
    places = [place for batch in batches for place in batch["partition"].to_pylist()]
    return list(zip(places, values, strict=True))


def both(first: range, second: range) -> list[tuple[int, int]]:
    return [*((0, value) for value in first), *((1, value) for value in second)]


ALL = both(range(10), range(4))


def stream(folder: Path, **options: str) -> Any:
    found = source(folder, **options)
    return found.streamReader(found.schema())


# --- where reading begins and ends -----------------------------------------------------------------------------------


def test_without_options_a_batch_reads_all_there_is(folder: Path):
    assert read(folder) == ALL


def test_names_of_options_are_compared_as_spark_does(folder: Path):
    assert read(folder, STARTINGOFFSETS="Earliest", endingoffsets=' {"t":{"0":1,"1":0}}') == [(0, 0)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"startingOffsets": '{"t":{"0":7,"1":-2}}'}, both(range(7, 10), range(4))),
        ({"endingOffsets": '{"t":{"0":2,"1":-1}}'}, both(range(2), range(4))),
        (
            {"startingOffsets": '{"t":{"0":3,"1":4}}', "endingOffsets": '{"t":{"0":5,"1":4}}'},
            both(range(3, 5), range(0)),
        ),
        ({"startingTimestamp": str(NOON + 3 * MINUTE)}, both(range(3, 10), range(3, 4))),
        ({"startingTimestamp": "2026-01-01T12:02:30Z"}, both(range(3, 10), range(3, 4))),
        ({"startingTimestamp": "2026-01-01 13:03:00+01:00"}, both(range(3, 10), range(3, 4))),
        ({"endingTimestamp": "2026-01-01T12:02"}, both(range(2), range(2))),
        ({"endingTimestamp": "2030-01-01"}, ALL),
        (
            {"startingTimestamp": "2026-01-01T12:01", "endingTimestamp": "2026-01-01T12:03"},
            both(range(1, 3), range(1, 3)),
        ),
        (
            {"startingOffsetsByTimestamp": f'{{"t":{{"0":"2026-01-01T12:08","1":{NOON}}}}}'},
            both(range(8, 10), range(4)),
        ),
        (
            {"endingOffsetsByTimestamp": f'{{"t":{{"0":"2026-01-01T12:08","1":{NOON}}}}}'},
            both(range(8), range(0)),
        ),
        (
            {"startingTimestamp": "2026-01-01T12:05", "startingOffsetsByTimestampStrategy": "latest"},
            both(range(5, 10), range(0)),
        ),
        ({"startingOffsets": "by_timestamp:2026-01-01T12:05"}, both(range(5, 10), range(0))),
        ({"startingOffsets": "by_duration:1 hour"}, []),
    ],
)
def test_a_batch_reads_from_where_it_begins_to_where_it_ends(folder: Path, options: dict[str, str], found: Any):
    assert read(folder, **options) == found


def test_an_hour_is_counted_back_from_when_the_topic_is_read(folder: Path):
    log = FileLog(folder)
    now = int(datetime.now(UTC).timestamp() * 1000)
    for value, time in ((20, now - 61 * MINUTE), (21, now - 59 * MINUTE), (22, now)):
        produce_into(log, 1, value, time)
    assert read(folder, startingOffsets="by_duration:1 hour") == [(1, 21), (1, 22)]


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ({}, {"0": 0, "1": 0}),
        ({"startingOffsets": "latest"}, {"0": 10, "1": 4}),
        ({"startingOffsets": '{"t":{"0":-1,"1":2}}'}, {"0": 10, "1": 2}),
        ({"startingTimestamp": "2026-01-01T12:03"}, {"0": 3, "1": 3}),
    ],
)
def test_a_new_stream_begins_where_it_is_told_to(folder: Path, options: dict[str, str], begins: dict[str, int]):
    assert stream(folder, **options).initialOffset()["t"] == begins


def test_what_retention_has_removed_is_no_beginning(folder: Path):
    FileLog(folder).trim("t", {0: 4})
    assert read(folder, startingOffsets='{"t":{"0":-2,"1":0}}') == both(range(4, 10), range(4))
    with pytest.raises(OffsetOutOfRangeError) as error:
        read(folder, startingOffsets='{"t":{"0":3,"1":0}}')
    assert str(error.value) == (
        "format(\"penstock\"): topic 't', partition 0: the option startingOffsets says offset 3, but the partition has "
        "the offsets from 4 to its end at 10. Nothing was read. Give an offset in between, or -2 for the first record, "
        "-1 for the end"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingOffsets": '{"t":{"0":7}}'},
            "the option startingOffsets names the partitions 0 of topic 't', which has the partitions 0, 1. Name each "
            "of them",
        ),
        (
            {"endingOffsets": '{"t":{"0":7,"1":5}}'},
            "topic 't', partition 1: the option endingOffsets says offset 5, but the partition has the offsets from 0 "
            "to its end at 4. Nothing was read. Give an offset in between, or -1 for the end",
        ),
        (
            {"startingTimestamp": "2026-01-01T12:05"},
            "topic 't', partition 1: the option startingTimestamp says 2026-01-01T12:05:00Z, but no record is from "
            "then or later. Nothing was read. Give an earlier time, or set startingOffsetsByTimestampStrategy to "
            "latest to begin such partitions at their end",
        ),
        (
            {"startingOffsets": '{"t":{"0":7,"1":0}}', "endingOffsets": '{"t":{"0":6,"1":0}}'},
            "topic 't', partition 0: startingOffsets begins at offset 7, behind offset 6, where endingOffsets ends. "
            "Begin before the end",
        ),
        (
            {"startingTimestamp": "2026-01-01T12:03", "endingTimestamp": "2026-01-01T12:01"},
            "topic 't', partition 0: startingTimestamp begins at offset 3, behind offset 1, where endingTimestamp ends",
        ),
        ({"startingOffsets": "latest"}, "the option startingOffsets names the end (latest, or -1), where a batch has"),
        (
            {"startingOffsets": '{"t":{"0":-1,"1":0}}'},
            "the option startingOffsets names the end (latest, or -1), where",
        ),
    ],
)
def test_what_the_topic_does_not_have_is_refused_when_it_is_read(folder: Path, options: dict[str, str], message: str):
    with pytest.raises((ConfigError, OffsetOutOfRangeError)) as error:
        read(folder, **options)
    assert str(error.value).startswith('format("penstock"): ' + message)


# --- what is refused at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingoffset": "earliest"},
            "has no option 'startingoffset' (did you mean 'startingOffsets'?); the option",
        ),
        ({"maxoffsetpertrigger": "5"}, "has no option 'maxoffsetpertrigger' (did you mean 'maxOffsetsPerTrigger'?);"),
        (
            {"startingOffsets": "earlyest"},
            "the option startingOffsets is earliest, latest, by_duration:1 hour or JSON such as "
            "{\"t\": {\"0\": 23}}; got 'earlyest' (did you mean 'earliest'?)",
        ),
        ({"startingOffsets": "none"}, "the option startingOffsets is earliest, latest, by_duration:1 hour or JSON"),
        ({"endingOffsets": "earliest"}, "the option endingOffsets is latest or JSON such as"),
        ({"startingOffsets": "{"}, "the option startingOffsets is JSON with the offsets of each partition; got '{'. W"),
        (
            {"startingOffsets": '{"t":[1]}'},
            "the option startingOffsets is JSON with the offsets of each partition; got",
        ),
        ({"startingOffsets": '{"t":{"x":1}}'}, "the option startingOffsets is JSON with the offsets of each partition"),
        (
            {"startingOffsets": '{"u":{"0":1}}'},
            "the option startingOffsets has offsets for the topics 'u', but the DataFrame reads topic 't'. Write it "
            'like {"t": {"0": 23}}',
        ),
        (
            {"startingOffsets": '{"t":{"0":1},"u":{"0":1}}'},
            "the option startingOffsets has offsets for the topics 't',",
        ),
        (
            {"startingOffsets": '{"t":{"0":-3}}'},
            "the option startingOffsets has a whole number from 0 on for each partition, or -2 for the first record, "
            "-1 for the end; got -3",
        ),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "the option endingOffsets has a whole number from 0 on for each partit"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "the option startingOffsets has a whole number from 0 on for each"),
        ({"startingOffsets": '{"t":{"0":"1"}}'}, "the option startingOffsets has a whole number from 0 on for each"),
        (
            {"startingTimestamp": "yesterday"},
            "the option startingTimestamp is a number of milliseconds since 1970, a datetime, or text in ISO 8601",
        ),
        ({"endingOffsetsByTimestamp": '{"t":{"0":1.5}}'}, "the option endingOffsetsByTimestamp is a number of millis"),
        (
            {"startingTimestamp": "1", "startingOffsets": "earliest"},
            "the options startingTimestamp and startingOffsets say the same thing. Leave all but one out",
        ),
        (
            {"endingTimestamp": "1", "endingOffsets": "latest"},
            "the options endingTimestamp and endingOffsets say the s",
        ),
        (
            {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "lates"},
            "the option startingOffsetsByTimestampStrategy is error or latest, got 'lates' (did you mean 'latest'?)",
        ),
        (
            {"startingOffsetsByTimestampStrategy": "latest"},
            "the option startingOffsetsByTimestampStrategy says what happens where no record has the time of",
        ),
        ({"maxOffsetsPerTrigger": "0"}, "the option maxOffsetsPerTrigger is a number from 1 on, got '0'"),
        ({"minPartitions": "many"}, "the option minPartitions is a number from 1 on, got 'many'"),
        ({"includeHeaders": "yes"}, "the option includeHeaders is true or false, got 'yes'"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_at_load(tmp_path: Path, options: dict[str, str], message: str):
    with pytest.raises(ConfigError) as error:
        source(tmp_path, **options)
    assert str(error.value).replace(" has no option", ": has no option").startswith('format("penstock"): ' + message)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(folder: Path, name: str):
    values = {"endingOffsets": "latest", "endingTimestamp": "1", "endingOffsetsByTimestamp": '{"t":{"0":1,"1":1}}'}
    with pytest.raises(ConfigError) as error:
        stream(folder, **{name: values[name]})
    assert str(error.value) == (
        f'format("penstock"): the option {name} is for spark.read: a stream has no end, and continues with new '
        "records. Leave it out; trigger(availableNow=True) ends a query at the present end of the topic"
    )


def test_a_batch_has_no_triggers(folder: Path):
    with pytest.raises(
        ConfigError, match=r"the option maxOffsetsPerTrigger is for spark\.readStream: a batch has no tr"
    ):
        read(folder, maxOffsetsPerTrigger="5")


@pytest.mark.parametrize("method", ["writer", "streamWriter"])
def test_a_topic_is_not_written_from_an_offset(folder: Path, method: str):
    found = source(folder, startingOffsets="earliest")
    with pytest.raises(
        ConfigError, match="the option startingOffsets is for reading: a topic is always written at its"
    ):
        getattr(found, method)(None, False)


def test_a_limit_is_refused_where_spark_does_not_say_where_a_batch_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stream_source, "ReadMaxRows", None)
    with pytest.raises(ConfigError, match=r"maxOffsetsPerTrigger needs Spark 4\.2 or newer, .* this is Spark \d"):
        stream(folder, maxOffsetsPerTrigger="5")


SECONDS = [1_767_268_800, 1_767_268_801]
"""Noon, and a second later."""


def write_times(folder: Path, **options: str) -> None:
    """Write two times that are numbers, in two tasks of one process."""
    types = StructType([StructField("value", LongType()), StructField("timestamp", LongType())])
    writer = source(folder, **options).writer(types, False)
    written = [
        writer.write(iter([pa.RecordBatch.from_pydict({"value": [time], "timestamp": [time]})])) for time in SECONDS
    ]
    writer.commit(written)


def times_in(folder: Path, topic: str) -> list[int]:
    return sorted(record.timestamp for record in consume(topic, log=folder))


def test_the_option_says_in_which_unit_times_are_written_and_strange_years_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level("WARNING"):
        write_times(tmp_path, topic="said", timestamp_unit="s")
        assert caplog.messages == []
        write_times(tmp_path, topic="meant-as-seconds")
        write_times(tmp_path, topic="meant-as-seconds")
    assert times_in(tmp_path, "said") == [NOON, NOON + 1000]
    assert times_in(tmp_path, "meant-as-seconds") == sorted(SECONDS * 2)
    [told] = caplog.messages
    assert told.startswith("topic 'meant-as-seconds': its first records are of 1970-01-21T")
    assert told.endswith('; timestamp_unit="s" says that they are in seconds')


def test_a_unit_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="write: timestamp_unit"):
        write_times(tmp_path, timestamp_unit="h")


# --- how much at once ------------------------------------------------------------------------------------------------


def test_a_micro_batch_goes_on_by_so_many_offsets_as_each_partition_has_waiting(folder: Path):
    reader = stream(folder, maxOffsetsPerTrigger="7")
    limit = reader.getDefaultReadLimit()
    at = reader.initialOffset()
    assert (at := reader.latestOffset(at, limit))["t"] == {"0": 5, "1": 2}
    assert (at := reader.latestOffset(at, limit))["t"] == {"0": 10, "1": 4}
    assert reader.latestOffset(at, limit) == at


def test_a_partition_with_little_is_not_left_behind(folder: Path):
    log = FileLog(folder)
    for value in range(10, 100):
        produce_into(log, 0, value, NOON)
    reader = stream(folder, maxOffsetsPerTrigger="10")
    at = reader.initialOffset()
    assert reader.latestOffset(at, reader.getDefaultReadLimit())["t"] == {"0": 9, "1": 1}


def test_spark_may_ask_for_all_there_is_whatever_the_limit(folder: Path):
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader = stream(folder, maxOffsetsPerTrigger="7")
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["t"] == {"0": 10, "1": 4}


def test_a_batch_is_cut_into_at_least_so_many_ranges_of_about_one_length(folder: Path):
    found = source(folder, minPartitions="5")
    ranges = [one.value[1:4] for one in found.reader(found.schema()).partitions()]
    assert ranges == [(0, 0, 2), (0, 2, 5), (0, 5, 7), (0, 7, 10), (1, 0, 2), (1, 2, 4)]
    assert read(folder, minPartitions="5") == read(folder, minPartitions="1000") == ALL


def test_a_micro_batch_is_cut_as_well(folder: Path):
    reader = stream(folder, minPartitions="3")
    ranges = reader.partitions(reader.initialOffset(), reader.latestOffset())
    assert [one.value[1:4] for one in ranges] == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 4)]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5), st.integers(1, 60))
def test_what_is_cut_is_all_there_was(sizes: list[int], least: int):
    ranges = [(p, 10, 10 + size) for p, size in enumerate(sizes)]
    pieces = ReadOptions.of({"minPartitions": str(least)}, "t").cut(ranges)
    offsets = [(p, offset) for p, start, stop in pieces for offset in range(start, stop)]
    assert offsets == [(p, offset) for p, start, stop in ranges for offset in range(start, stop)]
    assert len([one for one in pieces if one[1] < one[2]]) >= min(least, sum(sizes))


# --- headers ---------------------------------------------------------------------------------------------------------


def test_headers_are_a_column_where_they_are_wanted(tmp_path: Path):
    rows = [("a", 1, 1, [("h", b"x"), ("h", None)]), ("b", 2, 2, [])]
    produce(rows, "t", value=int, log=tmp_path)
    found = source(tmp_path, includeHeaders="true")
    assert found.schema()["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    reader: Any = found.reader(found.schema())
    [batch] = [batch for one in reader.partitions() for batch in reader.read(one)]
    assert batch["headers"].to_pylist()[0] == [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    assert not batch["headers"].to_pylist()[1]
    assert "headers" not in source(tmp_path).schema().names


# --- filters ---------------------------------------------------------------------------------------------------------


def at(minute: float) -> datetime:
    return datetime.fromtimestamp(NOON / 1000, UTC) + timedelta(minutes=minute)


PARTITION, OFFSET, TIME = ("partition",), ("offset",), ("timestamp",)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([ds.EqualTo(PARTITION, 1)], both(range(0), range(4))),
        ([ds.Not(ds.EqualTo(PARTITION, 1))], both(range(10), range(0))),
        ([ds.In(PARTITION, (0, 7))], both(range(10), range(0))),
        ([ds.Not(ds.In(PARTITION, (0, 1)))], []),
        ([ds.GreaterThan(PARTITION, 0), ds.IsNotNull(PARTITION)], both(range(0), range(4))),
        ([ds.GreaterThanOrEqual(OFFSET, 3), ds.LessThan(OFFSET, 5)], both(range(3, 5), range(3, 4))),
        ([ds.GreaterThan(OFFSET, 3), ds.LessThanOrEqual(OFFSET, 5)], both(range(4, 6), range(0))),
        ([ds.EqualTo(OFFSET, 3)], both(range(3, 4), range(3, 4))),
        ([ds.In(OFFSET, (3, 5))], both(range(3, 6), range(3, 4))),
        ([ds.GreaterThanOrEqual(TIME, at(8))], both(range(8, 10), range(0))),
        ([ds.GreaterThan(TIME, at(8))], both(range(9, 10), range(0))),
        ([ds.GreaterThan(TIME, at(8) - timedelta(microseconds=1))], both(range(8, 10), range(0))),
        ([ds.EqualTo(TIME, at(2))], both(range(2, 10), range(2, 4))),
        ([ds.LessThan(TIME, at(2))], ALL),
        ([ds.GreaterThan(TIME, at(20))], []),
        ([ds.GreaterThanOrEqual(TIME, at(2)), ds.EqualTo(PARTITION, 1), ds.LessThan(OFFSET, 3)], [(1, 2)]),
        ([ds.EqualTo(("key",), b"a"), ds.EqualTo(("key", "offset"), 3)], ALL),
    ],
)
def test_filters_leave_what_may_pass_and_nothing_else_is_read(folder: Path, filters: list[ds.Filter], found: Any):
    assert read(folder, *filters) == found


def test_filters_narrow_what_the_options_mean(folder: Path):
    options = {"startingOffsets": '{"t":{"0":4,"1":0}}', "endingTimestamp": "2026-01-01T12:08"}
    assert read(folder, ds.GreaterThan(TIME, at(2)), ds.LessThan(OFFSET, 9), **options) == both(
        range(4, 8), range(3, 4)
    )


def test_spark_looks_once_more_where_records_that_do_not_pass_may_be_read():
    exact = [ds.EqualTo(PARTITION, 1), ds.Not(ds.In(PARTITION, (1, 2))), ds.LessThan(OFFSET, 3), ds.IsNotNull(TIME)]
    rest = [ds.In(OFFSET, (1, 5)), ds.Not(ds.EqualTo(OFFSET, 1)), ds.GreaterThan(TIME, at(1)), ds.EqualTo(("key",), 1)]
    assert [is_exact(one) for one in [*exact, *rest]] == [True] * 4 + [False] * 4


def test_sessions_that_penstock_starts_hand_filters_over():
    assert session._OPTIONS["spark.sql.python.filterPushdown.enabled"] == "true"


KINDS = [ds.EqualTo, ds.EqualNullSafe, ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual]
VALUES = {PARTITION: st.integers(-1, 3), OFFSET: st.integers(-1, 12), TIME: st.integers(-1, 12).map(at)}


@st.composite
def a_filter(draw: Any) -> ds.Filter:
    column = draw(st.sampled_from(list(VALUES)))
    one = draw(st.sampled_from(KINDS))(column, draw(VALUES[column]))
    if draw(st.booleans()):
        one = ds.In(column, tuple(draw(st.lists(VALUES[column], min_size=1, max_size=3))))
    return ds.Not(one) if draw(st.booleans()) else one


def passes(one: ds.Filter, record: dict[Any, Any]) -> bool:
    """What Spark would say of a record."""
    if isinstance(one, ds.Not):
        return not passes(one.child, record)
    value = record[one.attribute]  # type: ignore[attr-defined]
    if isinstance(one, ds.In):
        return value in one.value
    sign = {"GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<="}
    compare = {">": value > one.value, ">=": value >= one.value, "<": value < one.value, "<=": value <= one.value}
    return compare[sign[type(one).__name__]] if type(one).__name__ in sign else value == one.value


class Times:
    """A log of two partitions, of which only the times are known."""

    def __init__(self, minutes: list[list[int]]):
        self.records = [
            {PARTITION: p, OFFSET: offset, TIME: at(minute)}
            for p, some in enumerate(minutes)
            for offset, minute in enumerate(some)
        ]

    def offset_at(self, topic: str, partition: int, time: int) -> int | None:
        for record in self.records:
            if record[PARTITION] == partition and record[TIME].timestamp() * 1000 >= time:
                return record[OFFSET]
        return None


@given(st.lists(st.lists(st.integers(0, 11), max_size=10), min_size=2, max_size=2), st.lists(a_filter(), max_size=4))
def test_no_record_that_passes_is_left_out_and_exact_filters_need_no_second_look(
    minutes: list[list[int]], filters: list[ds.Filter]
):
    log: Any = Times(minutes)
    ranges = PushedFilters(filters).narrowed(log, "t", [(p, 0, len(some)) for p, some in enumerate(minutes)])
    found = [one for one in log.records if any(one[PARTITION] == p and a <= one[OFFSET] < b for p, a, b in ranges)]
    second = [one for one in filters if not is_exact(one)]
    assert [record for record in found if all(passes(one, record) for one in second)] == [
        record for record in log.records if all(passes(one, record) for one in filters)
    ]
