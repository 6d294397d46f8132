"""Records into topics from Python, and out again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import Record, StreamsBuilder, Windowed, consume, produce, produce_columns
from penstock.engine.local import LocalApplication
from penstock.engine.shared.source_times import SourceTimes
from penstock.errors import ConfigError, OffsetOutOfRangeError, SerdeError, TopicNotFoundError
from penstock.log.base import Log, TopicInfo
from penstock.log.file.log import FileLog
from penstock.log.memory import MemoryLog
from penstock.serdes import STR, TimeWindowedSerde
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing import TopologyTestDriver
from penstock.values import strange_times


def rows(log: Path | Log, topic: str, **arguments: Any) -> list[tuple[Any, ...]]:
    """Partition, offset, key, value and timestamp of all records."""
    return [(r.partition, r.offset, r.key, r.value, r.timestamp) for r in consume(topic, log=log, **arguments)]


# --- rows ---------------------------------------------------------------------------------------------------------


def test_rows_lie_where_kafkas_partitioner_puts_their_keys(tmp_path: Path) -> None:
    written = produce(
        [("JFK", {"n": 0}, 10), ("LGA", {"n": 1}, 11), ("EWR", {"n": 2}, 12), ("JFK", {"n": 3}, 13)],
        "departures",
        log=tmp_path,
        partitions=2,
    )

    assert written == 4
    assert rows(tmp_path, "departures", partition=0) == [(0, 0, "LGA", {"n": 1}, 11)]
    assert rows(tmp_path, "departures", partition=1) == [
        (1, 0, "JFK", {"n": 0}, 10),
        (1, 1, "EWR", {"n": 2}, 12),
        (1, 2, "JFK", {"n": 3}, 13),
    ]


def test_rows_without_a_key_go_to_all_partitions_in_turn_and_the_next_call_goes_on_there(tmp_path: Path) -> None:
    for values in (["a", "b"], ["c"], ["d", "e"]):
        produce([(None, value, 1) for value in values], "t", value=str, log=tmp_path, partitions=3)

    assert [row[:4] for row in rows(tmp_path, "t")] == [
        (0, 0, None, "a"),
        (0, 1, None, "d"),
        (1, 0, None, "b"),
        (1, 1, None, "e"),
        (2, 0, None, "c"),
    ]


def test_windowed_keys_lie_with_the_windows_of_the_same_key(tmp_path: Path) -> None:
    key = TimeWindowedSerde(STR, 10)
    keys = [Windowed(airport, start, start + 10) for start in (0, 10, 20) for airport in ("JFK", "LGA")]

    produce([(key_, 1, key_.start) for key_ in keys], "t", key=key, value=int, log=tmp_path, partitions=2)

    assert [row[2:4] for row in rows(tmp_path, "t", partition=0)] == [
        (Windowed("LGA", 0, 10), 1), (Windowed("LGA", 10, 20), 1), (Windowed("LGA", 20, 30), 1)
    ]  # fmt: skip


def test_keys_too_short_for_a_window_lie_where_their_bytes_say_whatever_else_is_written(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    log.create_topic(TopicInfo("short", 4, TimeWindowedSerde(STR, 10).name, "bytes"))
    log.create_topic(TopicInfo("bytes", 4, "bytes", "bytes"))
    keys = [b"a", b"bc", b"def", b"gh", None, b"i" * 7]
    for topic in ("short", "bytes"):
        produce([(key, b"x", 1) for key in keys], topic, key=bytes, value=bytes, log=log)
    assert log.end_offsets("short") == log.end_offsets("bytes")


def test_a_log_that_is_opened_for_a_call_is_closed_behind_it_and_one_that_is_given_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[FileLog] = []
    monkeypatch.setattr(FileLog, "close", lambda log: closed.append(log))

    def use(log: Any) -> None:
        produce([("a", 1)], "t", value=int, log=log)
        produce_columns({"v": [1]}, "u", value="v", log=log)
        list(consume("t", log=log))
        list(consume("t", log=log, as_="arrow"))
        with pytest.raises(TopicNotFoundError):
            consume("nowhere", log=log)

    use(FileLog(tmp_path))
    assert closed == []
    use(tmp_path)
    assert len(closed) == 5


def test_a_row_may_have_headers_a_null_value_and_no_timestamp(tmp_path: Path) -> None:
    produce(
        [("a", None), ("b", "x", 5, (("why", b"because"), ("why", b"\x00"))), Record("c", "y", 6)],
        "t",
        value=str,
        log=tmp_path,
    )

    deleted, *others = consume("t", log=tmp_path)
    assert (deleted.key, deleted.value, deleted.headers) == ("a", None, ())
    assert abs(deleted.timestamp - datetime.now(UTC).timestamp() * 1000) < 3_600_000
    assert [(r.key, r.value, r.timestamp, r.headers) for r in others] == [
        ("b", "x", 5, (("why", b"because"), ("why", b"\x00"))),
        ("c", "y", 6, ()),
    ]


def test_more_rows_than_fit_into_one_batch_keep_their_order_and_become_visible_at_once(tmp_path: Path) -> None:
    assert produce(((None, n, n) for n in range(70_000)), "t", value=int, log=tmp_path) == 70_000

    assert [r.value for r in consume("t", log=tmp_path)] == list(range(70_000))
    assert len(list((tmp_path / "t" / "commits").iterdir())) == 1


def test_a_log_in_memory_takes_rows_too() -> None:
    log = MemoryLog()
    produce([("a", 1, 1)], "t", value=int, log=log)
    assert rows(log, "t") == [(0, 0, "a", 1, 1)]


# --- types --------------------------------------------------------------------------------------------------------


def test_a_new_topic_says_what_is_in_it_and_later_rows_are_of_that_type(tmp_path: Path) -> None:
    produce([(1, 0.5, 1)], "t", key=int, value=float, log=tmp_path)
    produce([(2, 1.5, 2)], "t", log=tmp_path)

    assert FileLog(tmp_path).topic("t") == TopicInfo("t", 1, "int", "float")
    assert [row[2:] for row in rows(tmp_path, "t")] == [(1, 0.5, 1), (2, 1.5, 2)]


@dataclass
class Delay:
    minutes: int


def test_values_are_read_into_the_class_that_is_asked_for(tmp_path: Path) -> None:
    produce([("JFK", Delay(5), 1)], "t", value=Delay, log=tmp_path)
    assert FileLog(tmp_path).topic("t").value == "json[Delay]"
    assert rows(tmp_path, "t") == [(0, 0, "JFK", {"minutes": 5}, 1)]
    assert rows(tmp_path, "t", value=Delay) == [(0, 0, "JFK", Delay(5), 1)]


def test_rows_of_another_type_than_the_topics_are_refused(tmp_path: Path) -> None:
    produce([("a", 1, 1)], "t", value=int, log=tmp_path)
    with pytest.raises(ConfigError, match="topic 't' holds values of type int, not str; convert the values"):
        produce([("a", "1", 1)], "t", value=str, log=tmp_path)


def test_a_topic_of_bytes_takes_any_type_and_any_topic_takes_encoded_bytes(tmp_path: Path) -> None:
    FileLog(tmp_path).create_topic(TopicInfo("raw", 1))
    produce([("a", {"n": 1}, 1)], "raw", key=str, value=dict, log=tmp_path)
    produce([("a", 1, 1)], "numbers", value=int, log=tmp_path)
    produce([(b"b", bytes([0] * 7 + [2]), 2)], "numbers", key=bytes, value=bytes, log=tmp_path)

    assert rows(tmp_path, "raw") == [(0, 0, b"a", b'{"n":1}', 1)]
    assert rows(tmp_path, "numbers") == [(0, 0, "a", 1, 1), (0, 1, "b", 2, 2)]


# --- what is refused ----------------------------------------------------------------------------------------------


def test_a_value_that_does_not_fit_is_named_with_its_row_and_nothing_is_written(tmp_path: Path) -> None:
    def all_but_one() -> Iterator[tuple[str, Any]]:
        yield from (("a", n) for n in range(40_000))
        yield "b", "forty thousand"

    with pytest.raises(
        SerdeError, match="topic 't', value of row 40001: the serde 'int' cannot encode 'forty thousand' of type str"
    ):
        produce(all_but_one(), "t", value=int, log=tmp_path)

    assert rows(tmp_path, "t") == []
    assert list((tmp_path / "t" / "data").iterdir()) == []


def test_a_wrong_first_row_does_not_even_make_the_topic(tmp_path: Path) -> None:
    with pytest.raises(
        SerdeError, match="key of row 1: the serde 'str' cannot encode 7 of type int; say key=int, or convert it"
    ):
        produce([(7, "x")], "t", log=tmp_path)
    assert FileLog(tmp_path).topics() == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a", r"topic 't', row 2: a row is \(key, value\), .* or a Record; got 'a'"),
        (("a",), r"topic 't', row 2: a row is \(key, value\), .* or a Record; got \('a',\)"),
        (("a", 1, "noon"), "topic 't', row 2: a timestamp is a number of milliseconds since 1970, .*; got 'noon'"),
        (
            ("a", 1, -1),
            "row 2: a timestamp is a number of milliseconds since 1970, .*; got -1, which is before 1970",
        ),
        (("a", 1, 2**63), f"topic 't', row 2: a timestamp is a number of milliseconds since 1970, .*; got {2**63}"),
        (("a", 1, 1, "why"), r"topic 't', row 2: headers are pairs of a name and bytes; got 'why'"),
        (("a", 1, 1, {"h": b"x"}), r"topic 't', row 2: headers are pairs of a name and bytes; got {'h': b'x'}"),
        (("a", 1, 1, [("\ud800", b"x")]), r"topic 't', row 2: headers are pairs of a name and bytes; got \[\("),
        (("a", 1, 1, [("h", "x")]), r"topic 't', row 2: headers are pairs of a name and bytes; got \[\("),
    ],
)
def test_a_row_of_another_form_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        produce([("a", 1), row], "t", log=tmp_path)


def test_a_header_may_be_null_as_in_kafka(tmp_path: Path) -> None:
    produce([("a", 1, 1, [("h", None), ("i", b"")])], "t", log=tmp_path)
    assert [record.headers for record in consume("t", log=tmp_path)] == [(("h", None), ("i", b""))]


# --- columns ------------------------------------------------------------------------------------------------------


def test_a_table_becomes_a_json_object_for_each_row(tmp_path: Path) -> None:
    table = pa.table({"airport": ["JFK", "LGA"], "delay": [5, None], "at": pa.array([10, 20], pa.timestamp("ms"))})

    assert produce_columns(table, "t", key="airport", timestamp="at", log=tmp_path, partitions=2) == 2

    info = FileLog(tmp_path).topic("t")
    assert (info.partitions, info.key, info.value) == (2, "str", "json")
    assert rows(tmp_path, "t") == [
        (1, 0, "JFK", {"airport": "JFK", "delay": 5, "at": datetime(1970, 1, 1, 0, 0, 0, 10_000)}, 10),
        (0, 0, "LGA", {"airport": "LGA", "delay": None, "at": datetime(1970, 1, 1, 0, 0, 0, 20_000)}, 20),
    ]


@pytest.mark.parametrize(
    ("column", "name", "values"),
    [
        (np.array([1, 2], np.int32), "int", [1, 2]),
        (np.array([0.5, 2.0]), "float", [0.5, 2.0]),
        (pa.array([1, None]), "int", [1, None]),
        (pa.array(["a", "b"]).dictionary_encode(), "str", ["a", "b"]),
        (pa.array(["a", "b"], pa.large_string()), "str", ["a", "b"]),
        (pa.array([b"\x00", b"b"]), "bytes", [b"\x00", b"b"]),
        (pa.array([{"x": 1}, {"x": 2}]), "json", [{"x": 1}, {"x": 2}]),
        (pa.array([True, False]), "json", [True, False]),
    ],
)
def test_a_column_of_values_keeps_its_type(tmp_path: Path, column: Any, name: str, values: list[Any]) -> None:
    produce_columns({"value": column}, "t", value="value", log=tmp_path)
    info = FileLog(tmp_path).topic("t")
    assert (info.key, info.value) == ("bytes", name)
    assert [r.value for r in consume("t", log=tmp_path)] == values


def test_columns_of_many_batches_keep_the_order_of_their_rows(tmp_path: Path) -> None:
    count = 100_000
    columns = {"key": np.arange(count) % 7, "n": np.arange(count), "at": np.arange(count) + 5}

    produce_columns(columns, "t", key="key", value="n", timestamp="at", log=tmp_path, partitions=3)

    found = rows(tmp_path, "t")
    assert sorted((n, key, at) for _, _, key, n, at in found) == [(n, n % 7, n + 5) for n in range(count)]
    for partition in range(3):
        numbers = [n for p, _, _, n, _ in found if p == partition]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        ({0: [1]}, {"key": 0}, "key is the name of a column, or several.*got 0"),
        ({"a": [1]}, {"key": "b"}, "there is no column 'b'; the columns are a"),
        ({"a": ["x"]}, {"timestamp": "a"}, "the column 'a' with the times must hold timestamps or whole milliseconds"),
        ({"a": [-1]}, {"timestamp": "a"}, "column 'a' holds -1; a timestamp is not before 1970"),
        ({"a": np.array([2**63], np.uint64)}, {"value": "a"}, "column 'a' does not fit the type int: "),
        ([1, 2], {}, "takes a dict of arrays, an Arrow table or an object that Arrow can read; got list"),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path: Path, columns: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        produce_columns(columns, "t", log=tmp_path, **arguments)
    assert FileLog(tmp_path).topics() == []


# --- consuming ----------------------------------------------------------------------------------------------------


def test_partitions_interleave_by_time_and_each_keeps_its_own_order(tmp_path: Path) -> None:
    produce(
        [("LGA", "l30", 30), ("LGA", "l10", 10), ("JFK", "j20", 20), ("JFK", "j40", 40), ("LGA", "l35", 35)],
        "t", value=str, log=tmp_path, partitions=2,
    )  # fmt: skip
    # l10 came late: it stays behind l30 in its partition
    assert [r.value for r in consume("t", log=tmp_path)] == ["j20", "l30", "l10", "l35", "j40"]


def test_consuming_can_begin_at_an_offset_and_at_the_end_there_is_nothing(tmp_path: Path) -> None:
    produce([("a", n, n) for n in range(5)], "t", value=int, log=tmp_path)
    assert [r.value for r in consume("t", log=tmp_path, start=3)] == [3, 4]
    assert [r.value for r in consume("t", log=tmp_path, start=5)] == []
    assert [r.value for r in consume("t", log=tmp_path, start=99)] == []


def test_what_cannot_be_consumed_is_named(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    produce([("a", b"\x00" * 8, 1), ("b", b"text", 2)], "t", value=bytes, log=log)

    with pytest.raises(
        SerdeError, match=r"topic 't', partition 0, offset 1: the serde 'int' needs 8 bytes, got 4: b'text'"
    ):
        list(consume("t", value=int, log=log))
    with pytest.raises(ConfigError, match="topic 't' has no partition 1; it has partition 0 alone"):
        consume("t", partition=1, log=log)
    with pytest.raises(TopicNotFoundError, match="topic 'u' does not exist"):
        consume("u", log=log)
    log.trim("t", {0: 1})
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 0 was removed by retention; the first .* is 1"):
        list(consume("t", start=0, log=log))


def test_times_may_be_datetimes_and_text(tmp_path: Path) -> None:
    five = 1_357_016_400_000
    oslo = timezone(timedelta(hours=1))
    times = [
        datetime(2013, 1, 1, 5),
        datetime(2013, 1, 1, 6, tzinfo=oslo),
        "2013-01-01 05:00",
        "2013-01-01T06:00+01:00",
    ]
    produce([(None, number, time) for number, time in enumerate(times)], "rows", log=tmp_path)
    produce_columns({"n": [0, 1], "at": times[2:]}, "text", value="n", timestamp="at", log=tmp_path)
    produce_columns({"n": [0, 1], "at": times[:1] * 2}, "datetimes", value="n", timestamp="at", log=tmp_path)
    for topic, count in [("rows", 4), ("text", 2), ("datetimes", 2)]:
        assert [record.timestamp for record in consume(topic, log=tmp_path)] == [five] * count


@pytest.mark.parametrize(
    ("unit", "times", "expected"),
    [
        ("s", [1_767_225_600, 1_767_225_600.25, np.int64(1_767_225_601)], [0, 250, 1000]),
        ("ms", [1_767_225_600_001], [1]),
        ("us", [1_767_225_600_000_999, 1_767_225_600_001_000], [0, 1]),
        ("ns", [1_767_225_600_000_999_999], [0]),
        ("s", [datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:01Z"], [0, 1000]),
    ],
)
def test_times_may_be_in_another_unit(tmp_path: Path, unit: str, times: list[Any], expected: list[int]):
    since = 1_767_225_600_000
    produce([("k", n, time) for n, time in enumerate(times)], "rows", value=int, log=tmp_path, timestamp_unit=unit)
    assert [record.timestamp - since for record in consume("rows", log=tmp_path)] == expected
    if not all(isinstance(time, int | float | np.integer) for time in times):
        return
    columns = {"v": np.arange(len(times)), "t": np.array(times)}
    produce_columns(columns, "columns", value="v", timestamp="t", log=tmp_path, timestamp_unit=unit)
    assert [record.timestamp - since for record in consume("columns", log=tmp_path)] == expected


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -1, 1e300, True, 2**62])
def test_what_is_no_time_in_seconds_is_refused(tmp_path: Path, time: Any):
    with pytest.raises(ConfigError, match="a number of seconds since 1970, a datetime, or text in ISO 8601 such as"):
        produce([("k", 1, time)], "t", log=tmp_path, timestamp_unit="s")
    with pytest.raises(ConfigError, match="timestamp_unit is one of s, ms, us, ns; got 'h'"):
        produce([], "t", log=tmp_path, timestamp_unit="h")


def test_headers_may_be_null(tmp_path: Path):
    headers = (("a", None), ("a", b""), ("b", b"x"))
    produce([("k", "v", 1, headers)], "t", value=str, log=tmp_path)
    [record] = consume("t", log=tmp_path)
    assert record.headers == headers
    with pytest.raises(ConfigError, match="headers are pairs of a name and bytes; got"):
        produce([("k", "v", 1, (("a", "text"),))], "t", value=str, log=tmp_path)


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (1_767_225_600, 'timestamp_unit="s" says that they are in seconds'),
        (1_767_225_600_000_000, 'timestamp_unit="us" says that they are in microseconds'),
        (1_767_225_600_000_000_000, 'timestamp_unit="ns" says that they are in nanoseconds'),
        (315_532_799_999, "are they meant so?"),  # 1979
        (7_258_118_400_000, "are they meant so?"),  # 2200
        (315_532_800_000, None),
        (7_258_118_399_999, None),
        (86_399_999, None),  # counted from zero
        (0, None),
    ],
)
def test_times_of_strange_years_are_told_of_once_a_topic(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, time: int, told: str | None
):
    strange_times._told.clear()
    for _ in range(2):
        produce([("k", 1, time)], "rows", log=tmp_path)
        produce_columns({"v": np.array([1]), "t": np.array([time])}, "columns", None, "v", "t", log=tmp_path)
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == (0 if told is None else 2)
    assert all(said.startswith(f"topic '{name}': ") for said, name in zip(found, ("rows", "columns"), strict=False))
    assert all(said.endswith(told or "") for said in found)


def test_the_times_of_sources_are_told_of_where_they_come_from(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    builder = StreamsBuilder()
    builder.stream("carried", value=int).to("out-1")
    builder.stream("in-a-field", value=dict, timestamp="at").to("out-2")
    builder.table("right", value=dict, timestamp="at", timestamp_unit="s", store="rows")
    builder.stream("by-a-function", value=int, timestamp=lambda value: value).to("out-3")
    log = FileLog(tmp_path / "log")
    at = 1_767_225_600
    produce([("k", at, 5)], "by-a-function", str, int, log)
    produce([("k", 1, at)], "carried", str, int, log)
    produce([("k", {"at": at}, 5)], "in-a-field", str, dict, log)
    produce([("k", {"at": at}, 5)], "right", str, dict, log)
    running = LocalApplication(builder.build(), "app", Settings(), log, LocalStorage(tmp_path / "checkpoint"))
    times = SourceTimes(running.coordinator.topology)
    strange_times._told.clear()
    caplog.clear()
    times.after([])
    assert caplog.records == []
    running.run_until()
    for _ in range(2):
        times.after(one.numbers for one in running.coordinator.manifest.tasks.values())
    name = "test_the_times_of_sources_are_told_of_where_they_come_from.<locals>.<lambda>"
    assert sorted(re.sub(r"py:\d+", "py:LINE", record.getMessage()) for record in caplog.records) == [
        f"topic '{topic}': its first records are of 1970-01-21T10:53:45.600Z, as milliseconds since 1970; {way_out}"
        for topic, way_out in (
            ("by-a-function", f"they seem to be seconds: have {name} at {__file__}:LINE return milliseconds"),
            ("carried", 'timestamp_unit="s" where they are produced says that they are in seconds'),
            ("in-a-field", 'timestamp_unit="s" where the source is read says that they are in seconds'),
        )
    ]
    running.close()


def test_the_driver_tells_of_times_in_seconds_as_well(caplog: pytest.LogCaptureFixture):
    strange_times._told.clear()
    builder = StreamsBuilder()
    builder.stream("in-the-driver", value=int, timestamp=lambda value: value).to("out")
    driver = TopologyTestDriver(builder.build())
    for _ in range(2):
        driver.pipe_input("in-the-driver", "k", 1_767_225_600)
    assert [record.getMessage().partition(": have ")[0] for record in caplog.records] == [
        "topic 'in-the-driver': its first records are of 1970-01-21T10:53:45.600Z, as milliseconds since 1970; they "
        "seem to be seconds"
    ]


def test_a_topic_in_the_place_of_the_rows_is_told(tmp_path: Path):
    said = r"a topic's name is text, such as 'orders'; got \[\('a', 1\)\] of type list"
    with pytest.raises(ConfigError, match=said):
        produce("orders", [("a", 1)], log=tmp_path)  # type: ignore[arg-type]
