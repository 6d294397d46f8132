"""Rows in SQLite: columns of all types, appended or by key, each once, and what is refused."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from penstock import SinkError, StreamsBuilder, TimeWindows, consume
from penstock.errors import ConfigError, TopologyError
from penstock.log.file.log import FileLog
from penstock.sinks import SqliteSink
from penstock.testing import TopologyTestDriver
from support.handing import ORDER, Order, handed_on, handed_on_by_two, put


def rows(folder: Path, question: str) -> list[Any]:
    with sqlite3.connect(folder / "shop.db") as database:
        return database.execute(question).fetchall()


def test_each_record_of_a_stream_is_a_row_with_a_column_for_each_field(tmp_path: Path):
    builder = StreamsBuilder()
    orders = builder.stream("in", key=str, value=Order)
    orders.to_sink(SqliteSink(tmp_path / "shop.db", "orders"), "orders", key="number")
    put(tmp_path, "shop-orders-sink", ("1", ORDER, 5_000), ("1", ORDER, 6_000), key=str, value=Order)
    handed_on(builder, tmp_path)
    first = ("1", "tea", 2, 1.5, 1, None, '["hot"]', "1970-01-01T00:00:05+00:00")
    assert rows(tmp_path, "select * from orders") == [first, (*first[:-1], "1970-01-01T00:00:06+00:00")]
    assert rows(tmp_path, "select id, number from penstock_sinks") == [("shop/orders/0", 2)]


def test_each_key_of_a_table_has_one_row_and_a_deleted_key_none(tmp_path: Path):
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int)
    table.to_sink(SqliteSink(tmp_path / "shop.db", "totals"), "totals", key="who", value="n", timestamp=None)
    changes = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", None), ("d", None)]
    put(tmp_path, "shop-totals-sink", *changes, key=str, value=int)
    handed_on(builder, tmp_path)
    assert rows(tmp_path, "select * from totals order by who") == [("a", 2), ("c", 1)]
    put(tmp_path, "shop-totals-sink", ("a", None), ("b", 5), ("c", 2), key=str, value=int)
    handed_on(builder, tmp_path)
    assert rows(tmp_path, "select * from totals order by who") == [("b", 5), ("c", 2)]


def test_a_windowed_key_is_its_key_start_and_end(tmp_path: Path):
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    counts = grouped.windowed_by(TimeWindows.of_size_with_no_grace("1 s")).count("counts")
    counts.to_sink(SqliteSink(tmp_path / "shop.db", "counts"), "counts", key="word", timestamp=None)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [("a", 1, 0), ("a", 1, 10), ("b", 1, 1_000)])
    [first, *_, last] = driver.read_output("counts-sink")
    windowed = builder.build().owned_by("shop").sinks["shop-counts-sink"].key
    put(tmp_path, "shop-counts-sink", tuple(first[:2]), tuple(last[:2]), key=windowed, value=int)
    handed_on(builder, tmp_path)
    zero, one, two = (f"1970-01-01T00:00:0{second}+00:00" for second in range(3))
    assert rows(tmp_path, "select * from counts order by word") == [("a", zero, one, 1), ("b", one, two, 1)]


def test_json_of_no_type_is_a_column_of_text(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", key=str).to_sink(SqliteSink(tmp_path / "shop.db", "seen"), "seen", timestamp=None)
    put(tmp_path, "shop-seen-sink", ("a", {"n": 1}), ("b", None), key=str)
    handed_on(builder, tmp_path)
    assert rows(tmp_path, "select * from seen") == [("a", '{"n":1}'), ("b", None)]


def test_a_table_of_the_users_own_keeps_its_other_columns(tmp_path: Path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table totals (who text primary key, n integer, note text default 'new')")
        database.execute("insert into totals values ('a', 1, 'mine')")
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int)
    table.to_sink(SqliteSink(tmp_path / "shop.db", "totals"), "totals", key="who", value="n", timestamp=None)
    put(tmp_path, "shop-totals-sink", ("a", 2), ("b", 3), key=str, value=int)
    handed_on(builder, tmp_path)
    assert rows(tmp_path, "select * from totals order by who") == [("a", 2, "mine"), ("b", 3, "new")]


@dataclass
class Sale:
    price: Decimal
    at: datetime | None
    size: Literal["s", "m"]
    scan: bytes
    more: Any
    tags: list[str]


SALE = Sale(Decimal("1.50"), datetime(2026, 11, 27, 10, tzinfo=UTC), "s", b"\0\xff", {"n": "1"}, ["hot"])


def test_fields_without_a_type_of_arrow_are_columns_too(tmp_path: Path):
    builder = StreamsBuilder()
    sales = builder.stream("in", key=str, value=Sale)
    sales.to_sink(SqliteSink(tmp_path / "shop.db", "sales"), "sales", timestamp=None)
    rows_ = [("a", SALE), ("b", replace(SALE, at=None, more="1")), ("c", None)]
    put(tmp_path, "shop-sales-sink", *rows_, key=str, value=Sale)
    handed_on(builder, tmp_path)
    columns = [name for _, name, *_ in rows(tmp_path, "pragma table_info(sales)")]
    assert columns == ["key", "price", "at", "size", "scan", "more", "tags"]
    assert rows(tmp_path, "select * from sales") == [
        ("a", "1.50", "2026-11-27T10:00:00Z", "s", b"\0\xff", '{"n":"1"}', '["hot"]'),
        ("b", "1.50", None, "s", b"\0\xff", '"1"', '["hot"]'),
        ("c", None, None, None, None, None, None),
    ]


@dataclass(frozen=True)
class Price:
    of: Decimal


def test_a_windowed_key_has_such_columns_too(tmp_path: Path):
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=Price, value=int).group_by_key()
    counts = grouped.windowed_by(TimeWindows.of_size_with_no_grace("1 s")).count("counts")
    counts.to_sink(SqliteSink(tmp_path / "shop.db", "counts"), "counts", timestamp=None)
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", Price(Decimal("1.50")), 1, timestamp=5)
    [only] = driver.read_output("counts-sink")
    windowed = builder.build().owned_by("shop").sinks["shop-counts-sink"].key
    put(tmp_path, "shop-counts-sink", tuple(only[:2]), key=windowed, value=int)
    handed_on(builder, tmp_path)
    ends = [f"1970-01-01T00:00:0{second}+00:00" for second in range(2)]
    assert rows(tmp_path, "select * from counts") == [("1.50", *ends, 1)]


@dataclass(frozen=True)
class Place:
    city: str
    street: str | None = None


def test_a_key_with_a_null_has_one_row(tmp_path: Path):
    builder = StreamsBuilder()
    table = builder.table("in", key=Place, value=int)
    table.to_sink(SqliteSink(tmp_path / "shop.db", "totals"), "totals", value="n", timestamp=None)

    def step(*changes: Any) -> list[Any]:
        put(tmp_path, "shop-totals-sink", *changes, key=Place, value=int)
        handed_on(builder, tmp_path)
        return rows(tmp_path, "select * from totals order by n")

    assert step((Place("bonn"), 1), (Place("bonn", "b"), 2)) == [("bonn", None, 1), ("bonn", "b", 2)]
    assert step((Place("bonn"), 3), (Place("bonn", "b"), 4)) == [("bonn", None, 3), ("bonn", "b", 4)]
    assert step((Place("bonn"), None)) == [("bonn", "b", 4)]


def test_the_key_nan_has_one_row(tmp_path: Path):
    builder = StreamsBuilder()
    table = builder.table("in", key=float, value=int)
    table.to_sink(SqliteSink(tmp_path / "shop.db", "totals"), "totals", timestamp=None)
    for n in range(2):
        put(tmp_path, "shop-totals-sink", (float("nan"), n), key=float, value=int)
        handed_on(builder, tmp_path)
    assert rows(tmp_path, "select * from totals") == [(None, 1)]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("key text primary key", "has no column named value"),
        ("key text primary key, value int, n not null", "NOT NULL"),
    ],
)
def test_an_error_that_no_retry_mends_ends_the_program_at_once(columns: str, says: str, tmp_path: Path):
    rows(tmp_path, f"create table totals ({columns})")
    builder = StreamsBuilder()
    sink = SqliteSink(tmp_path / "shop.db", "totals")
    builder.table("in", key=str, value=int).to_sink(sink, "totals", timestamp=None, retry_for="1 h")
    put(tmp_path, "shop-totals-sink", ("a", 1), key=str, value=int)
    with pytest.raises(SinkError, match=says):
        handed_on(builder, tmp_path)


def test_a_log_that_was_made_anew_is_told_apart_although_its_numbers_fit(tmp_path: Path):
    builder = StreamsBuilder()
    sink = SqliteSink(tmp_path / "shop.db", "rows")
    builder.stream("in", key=str, value=int).to_sink(sink, "rows")
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    handed_on(builder, tmp_path)
    FileLog(tmp_path / "log").delete_topic("shop-rows-sink")
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    with pytest.raises(SinkError, match=r"the sink has rows of another topic under 'shop/rows/0'"):
        handed_on(builder, tmp_path)
    assert rows(tmp_path, "select value from rows") == [(1,)]


def test_two_programs_that_write_at_once_do_not_double_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_sink(SqliteSink(tmp_path / "shop.db", "rows"), "rows")
    handed_on_by_two(builder, builder, tmp_path, monkeypatch)
    assert rows(tmp_path, "select value from rows") == [(1,), (2,)]


def test_a_whole_program_writes_its_sinks_and_a_second_run_adds_nothing_twice(tmp_path: Path):
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=int)
    words.to_sink(SqliteSink(tmp_path / "shop.db", "words"), "words", timestamp=None)
    counts = words.group_by_key().count("counts")
    counts.to_sink(SqliteSink(tmp_path / "shop.db", "counts"), "counts", key="word", value="n", timestamp=None)
    topology, places = builder.build(), {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    for word in ("a", "b"):
        put(tmp_path, "words", (word, 1), (word, 2), key=str, value=int)
        topology.start("shop", engine="local", slots=1, trigger="available-now", **places).await_termination()
    assert rows(tmp_path, "select * from words") == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert rows(tmp_path, "select * from counts order by word") == [("a", 2), ("b", 2)]
    assert len(list(consume("shop-words-sink", log=tmp_path / "log"))) == 4


REFUSED: dict[str, tuple[type[Exception], str]] = {
    "SqliteSink(5, 'rows')": (ConfigError, "SqliteSink: path is a file; got 5"),
    "SqliteSink('x.db', 'a b')": (ConfigError, "SqliteSink: table is a name, such as 'totals'"),
    "stream.to_sink('x.db', 'rows')": (TopologyError, "a sink has a method open.partition., as .* says; got 'x.db'"),
    "stream.to_sink(SqliteSink, 'rows')": (TopologyError, r"a sink has a method .*; call it: SqliteSink\(...\)"),
    "stream.to_sink(sink, 'a/b')": (TopologyError, "a/b"),
    "stream.to_sink(sink, 'rows', key=5)": (TopologyError, "key is the name of a column; got 5"),
    "table.to_sink(sink, 'rows', key=None)": (TopologyError, "key is the name of a column; got None"),
    "stream.to_sink(sink, 'rows', max_behind=0)": (TopologyError, "max_behind is a number of records from 1 on"),
    "stream.to_sink(sink, 'rows', missing='no')": (TopologyError, "missing is one of stop, skip; got 'no'"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(call: str):
    builder = StreamsBuilder()
    kind, said = REFUSED[call]
    known = {
        "stream": builder.stream("in", key=str, value=int),
        "table": builder.table("other", key=str, value=int),
        "sink": SqliteSink("x.db", "rows"),
        "SqliteSink": SqliteSink,
    }
    with pytest.raises(kind, match=said):
        eval(call, known)


def test_two_columns_of_one_name_are_refused_before_anything_starts(tmp_path: Path):
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=Order)
    stream.to_sink(SqliteSink(tmp_path / "shop.db", "orders"), "orders", key="item")
    with pytest.raises(ConfigError, match=r"to_sink at .*: two columns are called 'item'"):
        handed_on(builder, tmp_path)


def test_two_steps_do_not_write_one_sink_name():
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    for table in ("one", "two"):
        stream.to_sink(SqliteSink("shop.db", table), "rows")
    with pytest.raises(TopologyError, match="'rows' is the name of two sinks"):
        builder.build()
