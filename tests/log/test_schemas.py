"""The schema of a table travels with its topic: what comes back has the same types and the same values."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import consume, produce, produce_columns, schema_of
from penstock.errors import ConfigError, CorruptDataError, SerdeError
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.log.schema import schema_of_topic
from support.schemas import fields, same, scalars, tables


def read(topic: str, folder: Path | str) -> Any:
    """A topic's columns."""
    return pa.Table.from_batches(list(consume(topic, log=folder, as_="arrow"))).combine_chunks()


@given(tables())
def test_a_table_of_any_schema_comes_back_from_its_topic(drawn: tuple[Any, list[Any]]):
    table, rows = drawn
    with tempfile.TemporaryDirectory() as folder:
        if produce_columns(table, "t", log=folder):
            back = read("t", folder).column("value")
            assert back.type == pa.struct(list(table.schema))
            assert same(back.to_pylist(maps_as_pydicts=None), table.to_struct_array().to_pylist())
        assert same([record.value for record in consume("t", log=folder)], rows)


@given(tables(st.builds(pa.schema, fields(scalars, 3)), rows=3))
def test_keys_and_values_of_any_type_come_back(drawn: tuple[Any, list[Any]]):
    table, rows = drawn
    key, value = table.schema.names[:2]
    if any(type(row[name]) is int and row[name] >= 2**63 for row in rows for name in (key, value)):
        return  # refused, see the table of the docs
    with tempfile.TemporaryDirectory() as folder:
        if produce_columns(table, "t", key=key, value=value, log=folder):
            back = read("t", folder)
            assert back.column("key").type == table.schema.field(key).type
            assert back.column("value").type == table.schema.field(value).type
        found = [(record.key, record.value) for record in consume("t", log=folder)]
        assert same(found, [(row[key], row[value]) for row in rows])


@pytest.mark.parametrize(
    ("column", "type_", "values"),
    [
        (np.array([1, -2], np.int8), pa.int8(), [1, -2]),
        (pa.array([2**32 - 1, None], pa.uint32()), pa.uint32(), [2**32 - 1, None]),
        (np.array([0.5, np.nan], np.float32), pa.float32(), "[0.5, nan]"),
        (pa.array(["a", None], pa.large_string()), pa.large_string(), ["a", None]),
        (pd.Series(["a", "b"], dtype="category"), None, ["a", "b"]),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(2), [b"ab"]),
        (pa.array([Decimal("1.50")]), pa.decimal128(3, 2), [Decimal("1.50")]),
        (pa.array([date(2026, 1, 2), None]), pa.date32(), [date(2026, 1, 2), None]),
        (pa.array([5], pa.timestamp("ms", "UTC")), pa.timestamp("ms", "UTC"), [datetime.fromtimestamp(0.005, UTC)]),
        (pa.array([True]), pa.bool_(), [True]),
        (pl.Series(["a", None], dtype=pl.Categorical), pa.string(), ["a", None]),
    ],
)
def test_a_column_comes_back_as_it_was_from_a_topic_of_plain_values(
    tmp_path: Path, column: Any, type_: Any, values: Any
):
    produce_columns({"v": column}, "t", value="v", log=tmp_path)
    if type_ is None:  # pandas decides
        type_ = pa.array(column).type.value_type
    assert read("t", tmp_path).column("value").type == type_
    found = [record.value for record in consume("t", log=tmp_path)]
    assert (repr(found) if isinstance(values, str) else found) == values


def test_rows_come_back_as_dicts_with_pythons_own_types(tmp_path: Path):
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    row = {"id": 1, "price": Decimal("12.50"), "at": at, "raw": b"\x00", "share": float("-inf"), "tags": {7: "a"}}
    kinds = [pa.int32(), pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.binary(), pa.float32()]
    schema = pa.schema(list(zip(row, [*kinds, pa.map_(pa.int64(), pa.string())], strict=True)))
    produce_columns(pa.Table.from_pylist([row], schema), "t", key="id", log=tmp_path)
    assert [record.value for record in consume("t", log=tmp_path)] == [row]
    assert produce([(2, row | {"id": 2})], "t", log=tmp_path) == 1
    assert [record.value["id"] for record in consume("t", log=tmp_path)] == [1, 2]
    assert pa.Table.from_struct_array(read("t", tmp_path).column("value")).schema == schema


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": 2**31}, r"value.id is 2147483648, which does not fit the type int32: it goes from -2147483648 to 2147"),
        ({"id": "1"}, r"value.id is '1', which does not fit the type int32: it is of type str"),
        ({"price": Decimal("1.234")}, "value.price is .*1.234.*, which .*: it has 2 digits behind the point"),
        ({"price": Decimal(10**7)}, "value.price is .*, which does not fit the type decimal128.9, 2.: it has 9 digits"),
        ({"at": datetime(2026, 1, 2)}, "value.at is datetime.*, which .* timestamp.us, tz=UTC.: it has no zone"),
        ({"more": 1}, "'more' is no field"),
        ({"tags": {"a": "b"}}, "value.tags.key is 'a', which does not fit the type int64: it is of type str"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_fit_the_schema_of_its_topic_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
):
    kinds = {"id": pa.int32(), "price": pa.decimal128(9, 2), "at": pa.timestamp("us", "UTC")}
    schema = pa.schema([*kinds.items(), ("tags", pa.map_(pa.int64(), pa.string()))])
    row = {"id": 1, "price": Decimal(1), "at": datetime(2026, 1, 2, tzinfo=UTC), "tags": {}}
    produce_columns(pa.Table.from_pylist([row], schema), "t", log=tmp_path)
    with pytest.raises(SerdeError, match=f"^topic 't', value of row 2: .*{message}"):
        produce([(None, row), (None, row | change)], "t", key=bytes, log=tmp_path)
    assert len(list(consume("t", log=tmp_path))) == 1


# --- other schemas -------------------------------------------------------------------------------------------------


def test_columns_of_another_schema_are_refused_with_both(tmp_path: Path):
    produce_columns({"a": np.array([1], np.int32), "b": ["x"]}, "t", key="a", log=tmp_path)
    produce_columns({"b": ["y"], "a": np.array([2], np.int32)}, "t", key="a", log=tmp_path)
    assert [record.value for record in consume("t", log=tmp_path)] == [{"a": 1, "b": "x"}, {"b": "y", "a": 2}]
    both = r"values of the schema struct<a: int32, b: string>, and these have struct<a: int32, b: string, c: int64>"
    with pytest.raises(ConfigError, match=f"^produce_columns: topic 't' has {both}. Convert the columns"):
        produce_columns({"a": np.array([1], np.int32), "b": ["x"], "c": [1]}, "t", key="a", log=tmp_path)
    with pytest.raises(ConfigError, match="topic 't' has keys of the schema int32, and these have int64"):
        produce_columns({"a": [1], "b": ["x"]}, "t", key="a", log=tmp_path)
    assert len(list(consume("t", log=tmp_path))) == 2


def test_a_topic_that_was_made_of_rows_has_no_schema_and_takes_any_columns(tmp_path: Path):
    produce([(b"k", {"at": "2026-01-02"})], "t", key=bytes, log=tmp_path)
    produce_columns({"at": pa.array([date(2026, 1, 3)])}, "t", log=tmp_path)
    assert schema_of_topic(FileLog(tmp_path).topic("t")).names == []
    assert [record.value for record in consume("t", log=tmp_path)] == [{"at": "2026-01-02"}, {"at": "2026-01-03"}]


# --- keys of several columns -----------------------------------------------------------------------------------------


def test_equal_keys_of_several_columns_are_equal_bytes_in_one_partition(tmp_path: Path):
    days = [date(2026, 1, day) for day in (2, 3, 2, 3)]
    table = {"shop": ["a", "a", "a", "a"], "day": days, "n": np.arange(4, dtype=np.int16)}
    produce_columns(table, "t", key=["day", "shop"], value="n", partitions=8, log=tmp_path)
    back = read("t", tmp_path)
    assert back.column("key").type == pa.struct([("day", pa.date32()), ("shop", pa.string())])
    assert back.column("value").type == pa.int16()
    records = list(consume("t", log=tmp_path))
    by_day = {day: {(r.partition, r.value) for r in records if r.key["day"] == day} for day in days}
    assert [sorted(value for _, value in found) for found in by_day.values()] == [[0, 2], [1, 3]]
    assert [len({partition for partition, _ in found}) for found in by_day.values()] == [1, 1]
    assert next(consume("t", key=bytes, log=tmp_path)).key == b'{"day":"2026-01-02","shop":"a"}'
    assert produce([({"shop": "a", "day": days[0]}, 9)], "t", log=tmp_path) == 1
    partitions = {r.partition for r in consume("t", log=tmp_path) if r.key == {"day": days[0], "shop": "a"}}
    assert len(partitions) == 1


@pytest.mark.parametrize("key", [[], ["k", "k"], ["k", 1], 5, {"k"}])
def test_a_key_is_a_column_or_several(tmp_path: Path, key: Any):
    with pytest.raises(ConfigError, match=r"^produce_columns: key is the name of a column, or several: "):
        produce_columns({"k": [1]}, "t", key=key, log=tmp_path)


def test_a_map_is_no_part_of_a_key(tmp_path: Path):
    maps = pa.array([[[("a", 1)]]], pa.list_(pa.map_(pa.string(), pa.int8())))
    with pytest.raises(ConfigError, match=r"column 'm' is of type list<item: map<.*, and cannot be part of a key"):
        produce_columns({"k": [1], "m": maps}, "t", key=["k", "m"], log=tmp_path)


# --- headers ---------------------------------------------------------------------------------------------------------

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_a_column_of_headers_becomes_the_headers_and_no_part_of_the_row(tmp_path: Path):
    headers = pa.array([[("a", b"1"), ("a", None)], None, []], HEADERS)
    produce_columns({"v": [1, 2, 3], "h": headers}, "t", headers="h", log=tmp_path)
    found = [(record.value, record.headers) for record in consume("t", log=tmp_path)]
    assert found == [({"v": 1}, (("a", b"1"), ("a", None))), ({"v": 2}, ()), ({"v": 3}, ())]


def test_what_is_no_column_of_headers_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="column 'v' with the headers must be an array<struct<key: string, va"):
        produce_columns({"v": [1]}, "t", headers="v", log=tmp_path)
    with pytest.raises(ConfigError, match="there is no column 'h'"):
        produce_columns({"v": [1]}, "t", headers="h", log=tmp_path)
    for headers in ([None], [(None, b"x")]):
        with pytest.raises(SerdeError, match="column 'h' holds a header without a name"):
            produce_columns({"v": [1], "h": pa.array([headers], HEADERS)}, "t", headers="h", log=tmp_path)
    assert FileLog(tmp_path).topics() == []


# --- classes ---------------------------------------------------------------------------------------------------------


@dataclass
class Reading:
    id: int
    share: float
    raw: bytes
    by_day: dict[date, Decimal]
    by_truth: list[tuple[bool, int]]
    shares: list[float | None]


def test_a_class_reads_everything_as_it_was(tmp_path: Path):
    kinds = [pa.int8(), pa.float64(), pa.binary(), pa.map_(pa.date32(), pa.decimal128(5, 2))]
    kinds += [pa.map_(pa.bool_(), pa.int64()), pa.list_(pa.float32())]
    reading = Reading(
        1, math.inf, b"\xff\x00", {date(2026, 1, 2): Decimal("1.50")}, [(True, 1), (False, 0)], [0.5, -math.inf, None]
    )
    schema = pa.schema([(field.name, kind) for field, kind in zip(dataclass_fields(Reading), kinds, strict=True)])
    produce_columns(pa.Table.from_pylist([vars(reading)], schema), "t", log=tmp_path)
    assert [record.value for record in consume("t", value=Reading, log=tmp_path)] == [reading]
    assert produce([(None, reading)], "t", key=bytes, value=Reading, log=tmp_path) == 1
    assert read("t", tmp_path).column("value")[1] == read("t", tmp_path).column("value")[0]


# --- damage ----------------------------------------------------------------------------------------------------------


def test_a_damaged_schema_is_told(tmp_path: Path):
    FileLog(tmp_path).create_topic(TopicInfo("t", 1, schema="AAAA"))
    with pytest.raises(CorruptDataError, match="the schema of topic 't' is damaged"):
        list(consume("t", log=tmp_path))


def test_a_topic_without_a_schema_says_so(tmp_path: Path):
    produce([("k", 1)], "t", log=tmp_path)
    with pytest.raises(ConfigError, match=r"topic 't' in .* keeps no schema: no DataFrame was written into"):
        schema_of("t", log=tmp_path)
