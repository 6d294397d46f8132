"""Rows in DuckDB: columns of all types, appended or by key, each once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import SinkError, StreamsBuilder, faults, produce
from penstock.errors import ConfigError
from penstock.sinks import DuckDbSink
from support.handing import ORDER, Order, handed_on, handed_on_by_two, put

duckdb = pytest.importorskip("duckdb")


def rows(folder: Path, question: str) -> list[Any]:
    with duckdb.connect(str(folder / "shop.duckdb")) as database:
        found: list[Any] = database.execute(question).fetchall()
        return found


def sink(folder: Path, table: str) -> DuckDbSink:
    return DuckDbSink(folder / "shop.duckdb", table)


def totals(folder: Path) -> StreamsBuilder:
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int)
    table.to_sink(sink(folder, "totals"), "totals", key="who", value="n", timestamp=None)
    return builder


def appended(folder: Path) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_sink(sink(folder, "rows"), "rows", timestamp=None)
    return builder


def test_each_record_of_a_stream_is_a_row_with_a_column_for_each_field(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=Order).to_sink(sink(tmp_path, "orders"), "orders", key="number")
    put(tmp_path, "shop-orders-sink", ("1", ORDER, 5_000), ("1", ORDER, 6_000), key=str, value=Order)
    handed_on(builder, tmp_path)
    question = "select number, item, count, price, paid, note, tags, epoch_ms(timestamp) from orders"
    row = ("1", "tea", 2, 1.5, True, None, ["hot"])
    assert rows(tmp_path, question) == [(*row, 5_000), (*row, 6_000)]
    assert rows(tmp_path, "select id, number from penstock_sinks") == [("shop/orders/0", 2)]


def test_each_key_of_a_table_has_one_row_and_a_deleted_key_none(tmp_path: Path):
    changes = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", None), ("d", None)]
    put(tmp_path, "shop-totals-sink", *changes, key=str, value=int)
    handed_on(totals(tmp_path), tmp_path)
    assert rows(tmp_path, "select * from totals order by who") == [("a", 2), ("c", 1)]
    put(tmp_path, "shop-totals-sink", ("a", None), ("b", 5), ("c", 2), key=str, value=int)
    handed_on(totals(tmp_path), tmp_path)
    assert rows(tmp_path, "select * from totals order by who") == [("b", 5), ("c", 2)]


def test_a_table_of_the_users_own_keeps_its_other_columns(tmp_path: Path):
    rows(tmp_path, "create table totals (who text primary key, n integer, note text default 'new')")
    rows(tmp_path, "insert into totals values ('a', 1, 'mine')")
    put(tmp_path, "shop-totals-sink", ("a", 2), ("b", 3), key=str, value=int)
    handed_on(totals(tmp_path), tmp_path)
    assert rows(tmp_path, "select * from totals order by who") == [("a", 2, "mine"), ("b", 3, "new")]


def test_two_programs_that_write_at_once_do_not_double_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    handed_on_by_two(appended(tmp_path), appended(tmp_path), tmp_path, monkeypatch)
    assert rows(tmp_path, "select value from rows") == [(1,), (2,)]


def test_what_fails_within_the_transaction_leaves_neither_rows_nor_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    failed: list[str] = []

    def fail(point: str) -> None:
        if point in ("in-sink", "after-sink") and point not in failed:
            failed.append(point)
            raise OSError("the disk is full")

    monkeypatch.setattr(faults, "listener", fail)
    handed_on(appended(tmp_path), tmp_path)
    assert failed == ["in-sink", "after-sink"]
    assert rows(tmp_path, "select value from rows") == [(1,), (2,)]


def test_what_no_retry_mends_ends_the_program_at_once(tmp_path: Path):
    rows(tmp_path, "create table rows (key text)")
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    with pytest.raises(SinkError, match=r"BinderException: .* does not have a column with name"):
        handed_on(appended(tmp_path), tmp_path)


REFUSED: dict[str, str] = {
    "DuckDbSink(5, 'rows')": "DuckDbSink: path is a file; got 5",
    "DuckDbSink('x.duckdb', 'a b')": "DuckDbSink: table is a name, such as 'totals' or 'shop.totals'; got 'a b'",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(call: str):
    with pytest.raises(ConfigError, match=REFUSED[call]):
        eval(call, {"DuckDbSink": DuckDbSink})


def test_a_run_of_the_command_line_ends_without_words_of_duckdb(tmp_path: Path):
    (tmp_path / "app.py").write_text(
        "from penstock import StreamsBuilder\n"
        "from penstock.sinks import DuckDbSink\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('in', value=str).to_sink(DuckDbSink('x.duckdb', 'rows'), 'rows', timestamp=None)\n"
    )
    produce([("a", "x")], "in", key=str, value=str, log=tmp_path / ".penstock/log")
    command = [sys.executable, "-m", "penstock", "run", "app.py:builder", "--engine", "local", "--available-now"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "leaked" not in ran.stdout + ran.stderr
    assert ran.stderr.splitlines()[-1] == "The results of 'rows' are in DuckDB table rows in x.duckdb."
    with duckdb.connect(str(tmp_path / "x.duckdb")) as database:
        assert database.execute("SELECT key, value FROM rows").fetchall() == [("a", "x")]
