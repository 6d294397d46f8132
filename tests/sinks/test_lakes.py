"""Rows in tables of Delta Lake and Iceberg: columns of all types, appended or by key, each once."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import SinkError, StreamsBuilder, TimeWindows, faults, produce
from penstock.errors import ConfigError
from penstock.sinks.lakes.kept_columns import kept_schema
from support.handing import ORDER, Order, handed_on, handed_on_by_two, put
from support.lakes import LAKES, Lake

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.table")

UTC = datetime.UTC


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return LAKES[request.param](tmp_path / "lake")


def rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    return sorted(lake.arrow(name).to_pylist(), key=lambda row: str(list(row.values())))


def totals(lake: Lake) -> StreamsBuilder:
    builder = StreamsBuilder()
    changes = builder.table("in", key=str, value=int)
    changes.to_sink(lake.sink("totals"), "totals", key="who", value="n", timestamp=None)
    return builder


def appended(lake: Lake) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.to_sink(lake.sink("rows"), "rows", key=None, value="n", timestamp=None)
    return builder


def test_each_record_of_a_stream_is_a_row_with_a_column_for_each_field(lake: Lake, tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=Order).to_sink(lake.sink("orders"), "orders", key="a `number`")
    put(tmp_path, "shop-orders-sink", ("1", ORDER, 5_000), ("1", ORDER, 6_000), key=str, value=Order)
    handed_on(builder, tmp_path)
    row = {"a `number`": "1", "item": "tea", "count": 2, "price": 1.5, "paid": True, "note": None, "tags": ["hot"]}
    times = [datetime.datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC) for second in (5, 6)]
    assert rows(lake, "orders") == [row | {"timestamp": time} for time in times]
    assert lake.number("orders", "shop/orders/0") == 2


def test_each_key_of_a_table_has_one_row_and_a_deleted_key_none(lake: Lake, tmp_path: Path):
    changes = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", None), ("d", None)]
    put(tmp_path, "shop-totals-sink", *changes, key=str, value=int)
    handed_on(totals(lake), tmp_path)
    assert rows(lake, "totals") == [{"who": "a", "n": 2}, {"who": "c", "n": 1}]
    put(tmp_path, "shop-totals-sink", ("a", None), ("b", 5), ("c", 2), key=str, value=int)
    handed_on(totals(lake), tmp_path)
    assert rows(lake, "totals") == [{"who": "b", "n": 5}, {"who": "c", "n": 2}]


def test_a_batch_that_touches_no_row_is_known_as_well(lake: Lake, tmp_path: Path):
    put(tmp_path, "shop-totals-sink", ("a", None), key=str, value=int)
    handed_on(totals(lake), tmp_path)
    assert lake.number("totals", "shop/totals/0") == 1
    assert rows(lake, "totals") == []


@dataclass
class Place:
    country: str
    city: str | None


def test_keys_of_fields_that_may_be_null_have_one_row(lake: Lake, tmp_path: Path):
    def places() -> StreamsBuilder:
        builder = StreamsBuilder()
        changes = builder.table("in", key=Place, value=int)
        changes.to_sink(lake.sink("places"), "places", value="n", timestamp=None)
        return builder

    first, second, third = Place("fr", None), Place("fr", "Lyon"), Place("de", "Lyon")
    put(tmp_path, "shop-places-sink", (first, 1), (second, 1), (third, 1), key=Place, value=int)
    handed_on(places(), tmp_path)
    put(tmp_path, "shop-places-sink", (first, 2), (second, None), key=Place, value=int)
    handed_on(places(), tmp_path)
    assert rows(lake, "places") == [{"country": "de", "city": "Lyon", "n": 1}, {"country": "fr", "city": None, "n": 2}]


def test_windows_are_found_by_key_start_and_end(lake: Lake, tmp_path: Path):
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace("10 seconds")
    counts = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows).count("counts")
    counts.to_sink(lake.sink("counts"), "counts", key="who", value="n", timestamp=None)
    places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    for records in ([("a", 1, 1_000), ("a", 1, 12_000), ("a", 1, 13_000)], [("a", 1, 14_000)]):
        produce(records, "in", key=str, value=int, log=tmp_path / "log")
        streams = builder.build().start("shop", engine="local", slots=1, trigger="available-now", **places)
        streams.await_termination()
    found = [
        (row["who"], row["window_start"].second, row["window_end"].second, row["n"]) for row in rows(lake, "counts")
    ]
    assert sorted(found) == [("a", 0, 10, 1), ("a", 10, 20, 3)]


def test_a_table_of_the_users_own_keeps_its_types_and_its_other_columns(lake: Lake, tmp_path: Path):
    schema = pa.schema([("note", pa.string()), ("who", pa.string()), ("n", pa.int32())])
    lake.create("totals", schema)
    lake.add("totals", pa.table({"note": ["mine", "old"], "who": ["a", "b"], "n": [1, 1]}, schema))
    put(tmp_path, "shop-totals-sink", ("c", 3), ("a", 2), ("b", None), key=str, value=int)
    handed_on(totals(lake), tmp_path)
    assert rows(lake, "totals") == [{"note": "mine", "who": "a", "n": 2}, {"note": None, "who": "c", "n": 3}]
    assert lake.arrow("totals").schema.field("n").type == pa.int32()


def test_two_programs_that_append_at_once_do_not_double_a_batch(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    handed_on_by_two(appended(lake), appended(lake), tmp_path, monkeypatch, at="in-sink")
    assert rows(lake, "rows") == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("value", [1, None])
def test_two_programs_that_merge_at_once_do_not_double_a_batch(
    value: int | None, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    put(tmp_path, "shop-totals-sink", ("a", value), key=str, value=int)
    handed_on_by_two(totals(lake), totals(lake), tmp_path, monkeypatch, at="in-sink")
    assert rows(lake, "totals") == ([] if value is None else [{"who": "a", "n": 1}])
    assert lake.number("totals", "shop/totals/0") == 1


def test_the_commit_of_another_writer_does_not_hinder_one(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    lake.create("rows", pa.schema([("n", pa.int64())]))
    others: list[str] = []

    def meanwhile(point: str) -> None:
        if point == "in-sink" and len(others) < 2:
            others.append(point)
            lake.add("rows", pa.table({"n": [7]}))

    monkeypatch.setattr(faults, "listener", meanwhile)
    handed_on(appended(lake), tmp_path)
    assert rows(lake, "rows") == [{"n": 1}, *[{"n": 7}] * len(others)]


def test_sinks_share_a_table_and_have_numbers_of_their_own(lake: Lake, tmp_path: Path):
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    for name in ("one", "two"):
        stream.to_sink(lake.sink("rows"), name, key=None, value="n", timestamp=None)
        put(tmp_path, f"shop-{name}-sink", ("a", 1), ("a", 2), ("a", 3), key=str, value=int)
    handed_on(builder, tmp_path)
    assert rows(lake, "rows") == [{"n": n} for n in (1, 1, 2, 2, 3, 3)]
    assert [lake.number("rows", f"shop/{name}/0") for name in ("one", "two")] == [3, 3]


def test_the_rows_of_another_log_are_not_mixed_in(lake: Lake, tmp_path: Path):
    for folder in (tmp_path / "old", tmp_path / "new"):
        put(folder, "shop-rows-sink", ("a", 1), key=str, value=int)
    handed_on(appended(lake), tmp_path / "old")
    with pytest.raises(SinkError, match="the sink has rows of another topic under 'shop/rows/0'"):
        handed_on(appended(lake), tmp_path / "new")
    assert rows(lake, "rows") == [{"n": 1}]


PROBLEMS: dict[str, tuple[Any, str]] = {
    "a column that the table lacks": (pa.schema([("m", pa.int64())]), "the table has no column 'n'; it has m"),
    "a value that does not fit": (pa.schema([("n", pa.int32())]), "a value does not fit into column 'n' of type int32"),
    "a column that has to have values": (
        pa.schema([("n", pa.int64()), pa.field("must", pa.int64(), nullable=False)]),
        "column 'must' of the table takes no nulls",
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_no_retry_mends_ends_the_program_at_once(problem: str, lake: Lake, tmp_path: Path):
    schema, said = PROBLEMS[problem]
    lake.create("rows", schema)
    put(tmp_path, "shop-rows-sink", ("a", 1 << 40), key=str, value=int)
    with pytest.raises(SinkError, match=said):
        handed_on(appended(lake), tmp_path)


@pytest.mark.parametrize("type_", [pa.duration("us"), pa.list_(pa.duration("us")), pa.month_day_nano_interval()])
def test_columns_that_a_lake_cannot_keep_are_refused(type_: Any, lake: Lake):
    with pytest.raises(ConfigError, match="the table cannot keep column 'x' of Arrow's type"):
        lake.sink("rows").check_columns(pa.schema([("n", pa.int64()), ("x", type_)]))


TYPES: dict[Any, tuple[Any, Any]] = {
    pa.uint32(): (pa.int64(), 4_000_000_000),
    pa.uint64(): (pa.decimal128(20, 0), decimal.Decimal(1 << 63)),
    pa.float16(): (pa.float32(), 1.5),
    pa.null(): (pa.string(), None),
    pa.timestamp("ms"): (pa.timestamp("us"), datetime.datetime(2026, 1, 2, 3, 4, 5)),
    pa.dictionary(pa.int32(), pa.string()): (pa.string(), "x"),
}


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_types_that_lakes_lack_become_wider_ones(type_: Any, lake: Lake):
    wider, value = TYPES[type_]
    schema = kept_schema(pa.schema([("x", type_)]))
    assert schema.types == [wider]
    lake.sink("kept").check_columns(pa.schema([("x", type_)]))
    lake.create("kept", schema)
    lake.add("kept", pa.table({"x": [value]}, schema))
    assert rows(lake, "kept") == [{"x": value}]


def test_a_gathered_batch_of_many_pieces_is_one_commit(lake: Lake, tmp_path: Path):
    put(tmp_path, "shop-rows-sink", *(("a", n) for n in range(100_000)), key=str, value=int)
    handed_on(appended(lake), tmp_path)
    assert lake.number("rows", "shop/rows/0") == 100_000
    assert sorted(lake.arrow("rows")["n"].to_pylist()) == list(range(100_000))
