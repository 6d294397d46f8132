"""Tables of any library into topics: what every type becomes, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock import consume, produce_columns
from penstock.errors import ConfigError, SerdeError
from penstock.log.file.log import FileLog
from penstock.serdes import from_name
from penstock.values.times import UNITS

NAN, INFINITY = float("nan"), float("inf")
LATE = datetime(2026, 1, 2, 3, 4, 5, 678901)
DECIMAL = Decimal("12345678901234567890.123456789012345678")
TEXT_OF_DECIMAL = "12345678901234567890.123456789012345678"


def values(columns: Any, folder: Path, **chosen: Any) -> list[Any]:
    """The values of the records that a table becomes."""
    topic = f"t{len(list(folder.glob('*')))}"
    produce_columns(columns, topic, log=folder, **chosen)
    written = from_name(FileLog(folder).topic(topic).value)
    return [record.value for record in consume(topic, value=written, log=folder)]


@pytest.mark.parametrize(
    ("array", "kept"),
    [
        (pa.array([LATE, None], pa.timestamp("us")), ["2026-01-02T03:04:05.678901", None]),
        (pa.array([LATE.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")), ["2026-01-02T03:04:05.678901Z"]),
        (pa.array([0], pa.timestamp("ms", "+01:00")), ["1970-01-01T01:00:00+01:00"]),
        (pa.array([1], pa.timestamp("ms")), ["1970-01-01T00:00:00.001000"]),
        (pa.array([1_000], pa.timestamp("ns")), ["1970-01-01T00:00:00.000001"]),
        (pa.array([date(2026, 1, 2), None]), ["2026-01-02", None]),
        (pa.array([time(12, 0, 0, 1)]), ["12:00:00.000001"]),
        (pa.array([timedelta(days=1, microseconds=5)]), ["P1DT0.000005S"]),
        (pa.array([DECIMAL, None], pa.decimal128(38, 18)), [TEXT_OF_DECIMAL, None]),
        (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
        (pa.array([0.1], pa.float32()), [float(np.float32(0.1))]),
        (pa.array([True, None]), [True, None]),
        (pa.nulls(1), [None]),
        (pa.array(["a", None, "b"]).dictionary_encode(), ["a", None, "b"]),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID(int=5).bytes], pa.binary(16))), [str(UUID(int=5))]),
        (pa.array([{"x": 1, "n": None}, None]), [{"x": 1, "n": None}, None]),
        (
            pa.array([[{"m": [("a", LATE), ("b", None)]}], None],
                     pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.timestamp("us")))]))),
            [[{"m": {"a": "2026-01-02T03:04:05.678901", "b": None}}], None],
        ),
        (pa.array([[1.5, 2.0]], pa.list_view(pa.float64())), [[1.5, 2.0]]),
        (pa.array([[NAN, INFINITY, -INFINITY, None]]), [["NaN", "Infinity", "-Infinity", None]]),
        (pa.array([[b"\xde\xad", None]]), [["3q0=", None]]),
        (pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string())), [{"1": "a"}]),
        (pa.array([[(date(2026, 1, 2), 1)]], pa.map_(pa.date32(), pa.int8())), [{"2026-01-02": 1}]),
        (pa.array([[(NAN, b"x")]], pa.map_(pa.float32(), pa.binary())), [{"NaN": "eA=="}]),
        (pa.array([[(True, 1), (False, None)]], pa.map_(pa.bool_(), pa.int8())), [[[True, 1], [False, None]]]),
        (pa.array([[({"x": 1}, 2)]], pa.map_(pa.struct([("x", pa.int8())]), pa.int8())), [[[{"x": 1}, 2]]]),
        (pa.array([[1.5, 2.0], None], pa.list_(pa.float64(), 2)), [[1.5, 2.0], None]),
        (pa.array([["a"]], pa.large_list(pa.string_view())), [["a"]]),
    ],
)  # fmt: skip
def test_rows_columns_and_what_is_inside_of_them_have_one_encoding(tmp_path: Path, array: Any, kept: list[Any]):
    assert values({"c": array}, tmp_path) == [{"c": one} for one in kept]
    field = pa.StructArray.from_arrays([array], ["c"])
    assert values({"s": field}, tmp_path, value="s") == [{"c": one} for one in kept]
    if FileLog(tmp_path).topic("t0").value == "json":
        lists = pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array)
        if array.type != pa.list_view(pa.float64()):
            assert values({"l": lists}, tmp_path, value="l") == [[one] for one in kept]


@pytest.mark.parametrize(
    ("array", "name", "kind", "way_out"),
    [
        (pa.array([pa.MonthDayNano([1, 2, 3])]), "c", "month_day_nano_interval", r"Convert it \(cast\), or leave it o"),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), "c", "struct", "Rename one of them"),
    ],
)  # fmt: skip
def test_what_json_would_change_is_refused_with_its_column_type_and_a_way_out(
    tmp_path: Path, array: Any, name: str, kind: str, way_out: str
):
    with pytest.raises(ConfigError, match=rf"^produce_columns: column '{name}' is of type {kind}.*, which.*{way_out}"):
        produce_columns({"c": array}, "t", log=tmp_path)
    assert FileLog(tmp_path).topics() == []


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([1], pa.timestamp("ns")), "column 'c' holds a value that JSON would change: Casting .* would lose"),
        (
            pa.array([[1]], pa.list_(pa.time64("ns"))),
            "column 'c.element' holds a value that JSON would change: Cast",
        ),
        (pa.array([253_402_300_800], pa.timestamp("s")), "outside of the years 1 to 9999"),
        (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), "duplicate key was 'a'"),
    ],
)
def test_values_that_json_would_change_are_refused(tmp_path: Path, array: Any, message: str):
    with pytest.raises(SerdeError, match=f"^produce_columns: .*{message}"):
        produce_columns({"c": array}, "t", log=tmp_path)
    assert FileLog(tmp_path).topics() == []


def test_numbers_that_json_does_not_have_are_kept_in_a_topic_of_float(tmp_path: Path):
    found = values({"c": pa.array([float("nan"), float("inf"), None])}, tmp_path, value="c")
    assert repr(found) == "[nan, inf, None]"


def test_what_is_not_of_a_null_or_a_slice_is_not_looked_at(tmp_path: Path):
    late = pa.array([253_402_300_800, 1, 253_402_300_800], pa.timestamp("s"))  # beyond the year 9999
    keys = pa.array(["a", "b", "c"])
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), keys, late, mask=pa.array([False, False, True]))
    assert values({"c": maps.slice(1)}, tmp_path) == [{"c": {"b": "1970-01-01T00:00:01"}}, {"c": None}]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), late, mask=pa.array([False, False, True]))
    assert values({"c": lists.slice(1)}, tmp_path) == [{"c": ["1970-01-01T00:00:01"]}, {"c": None}]


@dataclass
class Row:
    at: datetime
    day: date
    clock: time
    took: timedelta
    price: Decimal
    id: UUID


def test_a_dataclass_reads_every_value_as_it_was(tmp_path: Path):
    row = Row(LATE.replace(tzinfo=UTC), date(2026, 1, 2), time(1, 2, 3, 4), timedelta(1, 2, 3), DECIMAL, UUID(int=7))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([row.id.bytes], pa.binary(16)))
    columns = {
        "at": pa.array([row.at]), "day": pa.array([row.day]), "clock": pa.array([row.clock]),
        "took": pa.array([row.took]), "price": pa.array([row.price]), "id": ids,
    }  # fmt: skip
    produce_columns(columns, "t", log=tmp_path)
    assert [record.value for record in consume("t", value=Row, log=tmp_path)] == [row]


def test_times_of_any_zone_are_the_same_one_by_one_and_nested(tmp_path: Path):
    oslo = timezone(timedelta(hours=1))
    at = pa.array([LATE.replace(tzinfo=oslo)], pa.timestamp("us", "+01:00"))
    assert values({"at": at}, tmp_path) == [{"at": "2026-01-02T03:04:05.678901+01:00"}]
    assert values({"at": pa.ListArray.from_arrays([0, 1], at)}, tmp_path) == [
        {"at": ["2026-01-02T03:04:05.678901+01:00"]}
    ]


# --- pandas and polars ---------------------------------------------------------------------------------------------


def test_the_row_numbers_of_pandas_are_in_no_record(tmp_path: Path):
    frame = pd.DataFrame({"user": ["a", "b"], "n": [1, 2]})
    both = pd.concat([frame, frame])
    expected = [{"user": "a", "n": 1}, {"user": "b", "n": 2}]
    assert values(both, tmp_path) == expected * 2
    assert values(both[both.n > 1], tmp_path, key="user") == expected[1:] * 2
    assert values(frame.sort_values("n", ascending=False), tmp_path) == expected[::-1]
    assert values(pa.Table.from_pandas(both), tmp_path) == expected * 2


def test_an_index_of_pandas_with_a_name_is_a_column(tmp_path: Path):
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["a", "b"], name="user"))
    produce_columns(frame, "t", key="user", log=tmp_path)
    found = [(record.key, record.value) for record in consume("t", log=tmp_path)]
    assert found == [("a", {"n": 1, "user": "a"}), ("b", {"n": 2, "user": "b"})]


def test_an_index_of_pandas_that_holds_data_without_a_name_is_refused(tmp_path: Path):
    frame = pd.DataFrame({"n": [1, 2]}, index=["a", "b"])
    with pytest.raises(ConfigError, match=r"the index of this DataFrame has no name and holds .*rename_axis"):
        produce_columns(frame, "t", log=tmp_path)
    assert values(frame, tmp_path, value="n") == [1, 2]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"at": [pd.Timestamp(5, unit="ms"), pd.NaT], "n": [1, 2]}),
        pl.DataFrame({"at": [datetime(1970, 1, 1), None], "n": [1, 2]}),
        {"at": ["1970-01-01", None], "n": [1, 2]},
        {"at": [5, None], "n": [1, 2]},
    ],
)
def test_a_record_without_a_time_is_refused_and_not_of_now(tmp_path: Path, table: Any):
    with pytest.raises(ConfigError, match=r"column 'at' holds no time in row 1 of 2 \(null or NaT\)"):
        produce_columns(table, "t", timestamp="at", log=tmp_path)
    assert FileLog(tmp_path).topics() == []


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["x", "y"])])
def test_categories_of_polars_are_their_texts(tmp_path: Path, kind: Any):
    column = pl.Series(["x", None, "y"], dtype=kind)
    table = pl.DataFrame({"k": column, "v": column})
    produce_columns(table, "t", key="k", value="v", log=tmp_path)
    assert [(record.key, record.value) for record in consume("t", log=tmp_path)] == [
        ("x", "x"),
        (None, None),
        ("y", "y"),
    ]
    assert values(table, tmp_path) == [{"k": "x", "v": "x"}, {"k": None, "v": None}, {"k": "y", "v": "y"}]
    assert values(pd.DataFrame({"v": pd.Categorical(["x", "y"])}), tmp_path, value="v") == ["x", "y"]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"n": [1, 2], "bad": [1, "x"]}),
        {"n": [1, 2], "bad": [1, "x"]},
        {"n": [1, 2], "bad": np.array([1, "x"], object)},
        {"n": [1, 2], "bad": [object(), None]},
        pl.DataFrame({"n": [1, 2], "bad": pl.Series([object(), object()], dtype=pl.Object)}),
    ],
)
def test_a_column_of_mixed_objects_is_named(tmp_path: Path, table: Any):
    with pytest.raises(ConfigError, match=r"^produce_columns: column 'bad' does not hold values of one type"):
        produce_columns(table, "t", value="n", log=tmp_path)


def test_columns_of_different_lengths_and_of_one_name_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="columns of a table have equally many values; 'a' has 1, 'b' has 2"):
        produce_columns({"a": [1], "b": [1, 2]}, "t", log=tmp_path)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(ConfigError, match="there are two columns 'a'"):
        produce_columns(twice, "t", log=tmp_path)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int16, np.float64, np.float32, np.float16])
def test_a_column_of_times_becomes_what_each_of_them_becomes(unit: str, kind: Any):
    numbers = np.random.default_rng(7)
    if np.dtype(kind).kind == "f":
        exponents = numbers.integers(-4, 4 if kind is np.float16 else 14, 2000)
        halves = 1_767_225_600 + np.arange(2000) / 2000  # of milliseconds
        times = np.concatenate([numbers.uniform(-1, 1, 2000) * 10.0**exponents, np.arange(-999, 999) / 2000, halves])
        with np.errstate(over="ignore"):
            times = times.astype(kind)
        times = times[np.isfinite(times)]
    else:
        most = min(np.iinfo(kind).max, 2**63 // 1000 - 1 if unit == "s" else 2**63 - 1)
        least = max(np.iinfo(kind).min, -most)
        times = np.append(numbers.integers(least, most, 2000, kind), np.array([least, most], kind))
    assert UNITS[unit].all_to_ms(times).tolist() == [UNITS[unit].to_ms(time.item()) for time in times]


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1e300, 2**62])
def test_a_column_with_what_is_no_time_in_seconds_is_refused(tmp_path: Path, time: Any):
    columns = {"v": [1, 2], "at": np.array([1, time])}
    with pytest.raises(ConfigError, match="must hold timestamps or numbers; it holds a number that is no time in sec"):
        values(columns, tmp_path, value="v", timestamp="at", timestamp_unit="s")


def test_an_index_of_pandas_with_the_name_of_a_column_is_refused(tmp_path: Path):
    frame = pd.DataFrame({"n": [1, 2], "m": [3, 4]}, index=pd.Index([7, 8], name="n"))
    with pytest.raises(ConfigError, match=r"the index of this DataFrame has the name 'n', as a col.*rename_axis"):
        produce_columns(frame, "t", log=tmp_path)
    assert values(frame.rename_axis("k"), tmp_path) == [{"n": 1, "m": 3, "k": 7}, {"n": 2, "m": 4, "k": 8}]


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ({}, "there is no timestamp=: name the column with the times"),
        ({"timestamp": "at"}, r"the column 'at' holds timestamp\[us\], which says its own: leave timestamp_unit out"),
        ({"timestamp": "text"}, "the column 'text' holds .*string, which says its own: leave timestamp_unit out"),
    ],
)
def test_a_unit_of_no_column_is_refused_and_not_ignored(tmp_path: Path, chosen: Any, why: str):
    table = {"at": pa.array([datetime(2026, 1, 2)]), "text": ["2026-01-02"]}
    with pytest.raises(ConfigError, match=f"timestamp_unit='s' is for times that are numbers, but {why}"):
        produce_columns(table, "t", timestamp_unit="s", log=tmp_path, **chosen)
    assert FileLog(tmp_path).topics() == []
