"""A batch that is a commit of an application hands its results on to sinks and tables, also when it is repeated."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Topology
from penstock.errors import SinkError
from penstock.sinks import SqliteSink

COLUMNS = {"key": "customer", "value": "cents", "timestamp": "at"}
ROWS = [("ann", 250, 1_000), ("bob", 100, 2_000), ("ann", 50, 3_000)]
TYPES = "customer string, cents long, at long"

pytestmark = pytest.mark.slow


def paying(database: Path) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=str, value=int)
    orders.to_sink(SqliteSink(str(database), "orders"), "orders", key="customer", value="cents")
    totals = orders.group_by_key().reduce(lambda one, other: one + other, "totals")
    totals.to_sink(
        SqliteSink(str(database), "totals"),
        "totals",
        key="customer",
        value="cents",
        timestamp=None,
        retry_for="1 second",
    )
    return builder.build()


def rows_in(database: Path, table: str) -> list[Any]:
    with sqlite3.connect(database) as connection:
        return connection.execute(f"SELECT customer, cents FROM {table} ORDER BY 1, 2").fetchall()


def test_each_batch_is_in_its_sinks_once_when_the_call_returns(spark: Any, tmp_path: Path):
    database = tmp_path / "shop.db"
    places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}

    def run(rows: list[Any], name: str) -> Any:
        given = {"orders": spark.createDataFrame(rows, TYPES)}
        return paying(database).run_batch(spark, given, **COLUMNS, application_id="shop", batch=name, **places)

    run(ROWS[:2], "first")
    assert rows_in(database, "orders") == [("ann", 250), ("bob", 100)]
    assert rows_in(database, "totals") == [("ann", 250), ("bob", 100)]
    run(ROWS[2:], "second")
    assert run(ROWS[2:], "second").is_repeated
    assert rows_in(database, "orders") == [("ann", 50), ("ann", 250), ("bob", 100)]
    assert rows_in(database, "totals") == [("ann", 300), ("bob", 100)]


def test_a_sink_that_fails_gets_its_rows_when_the_batch_is_repeated(spark: Any, tmp_path: Path):
    database = tmp_path / "shop.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE totals (customer TEXT PRIMARY KEY, cents TEXT CHECK (cents = 'no'))")

    def run() -> Any:
        given = {"orders": spark.createDataFrame(ROWS, TYPES)}
        places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
        return paying(database).run_batch(spark, given, **COLUMNS, application_id="shop", batch="one", **places)

    with pytest.raises(SinkError, match=r"'shop' stopped because its sink 'totals'.*Everything committed is safe"):
        run()
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TABLE totals")
    assert run().is_repeated
    assert rows_in(database, "totals") == [("ann", 300), ("bob", 100)]
    assert rows_in(database, "orders") == [("ann", 50), ("ann", 250), ("bob", 100)]
