"""Sources and sinks with a schema: functions see rows as dicts with Python's own types."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import StreamsBuilder, consume, produce_columns, schema_of
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError
from penstock.files import temporary
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.flows import Run

ORDER = pa.schema(
    [
        ("id", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("share", pa.float64()),
        ("by_day", pa.map_(pa.date32(), pa.int64())),
    ]
)
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
ROW = {"id": 1, "price": Decimal("1.50"), "at": AT, "raw": b"\xff", "share": math.inf, "by_day": {date(2026, 1, 2): 3}}


def test_functions_and_stores_have_rows_with_pythons_own_types(run: Run):
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=ORDER).group_by_key()
    table = grouped.reduce(lambda one, other: {**other, "price": one["price"] + other["price"]}, store="totals")
    parts = table.to_stream().map_values(lambda row: [row["at"].year, row["by_day"][date(2026, 1, 2)]], value=list)
    parts.to("out")
    ran = run(builder, [("a", ROW, 1), ("a", ROW, 2)])
    assert ran.store("totals") == [("a", ROW | {"price": Decimal("3.00")}, 2)]
    assert ran.output() == [("a", [2026, 3], 1), ("a", [2026, 3], 2)]


def test_a_result_that_does_not_fit_the_schema_is_a_dead_letter(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=ORDER)
    stream.map_values(lambda row: {**row, "id": row["id"] * 2**30}, value=ORDER).to("out")
    ran = run(builder, [("a", ROW, 1), ("a", ROW | {"id": 2}, 2)], on_error="dead_letter:dead")
    assert ran.output() == [("a", ROW | {"id": 2**30}, 1)]
    (letter,) = ran.driver.read_output("dead")
    assert b"value.id is 2147483648, which does not fit the type int32" in dict(letter.headers)["penstock.error"]


def test_spark_types_say_a_schema_too():
    from pyspark.sql.types import DecimalType, LongType, StructType

    stream = StreamsBuilder().stream("in", key=LongType(), value=StructType().add("p", DecimalType(9, 2)))
    assert repr(stream).startswith("<KStream int -> json[struct<p: decimal128(9, 2)>]")


def run_program(builder: StreamsBuilder, folder: Path) -> None:
    log = FileLog(folder)
    with temporary.within("test") as storage:
        application = LocalApplication(builder.build(), "app", Settings(), log, LocalStorage(storage))
        with closing(application):
            application.run_until(application.coordinator.end_offsets())


def test_an_output_topic_keeps_the_schema_of_its_rows(tmp_path: Path):
    produce_columns(pa.Table.from_pylist([ROW], ORDER), "orders", key="id", log=tmp_path)
    schema = schema_of("orders", log=tmp_path)
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=schema.key, value=schema.value)
    orders.filter(lambda key, row: row["at"] == AT).to("out")
    run_program(builder, tmp_path)
    (batch,) = consume("out", log=tmp_path, as_="arrow")
    assert batch.column("value").type == schema.value
    assert [record.value for record in consume("out", log=tmp_path)] == [ROW]


def test_another_schema_than_the_topics_is_refused_at_the_start(tmp_path: Path):
    produce_columns(pa.Table.from_pylist([ROW], ORDER), "orders", log=tmp_path)
    for change in (pa.schema([("id", pa.int64())]), pa.struct([("id", pa.int32())])):
        builder = StreamsBuilder()
        builder.stream("orders", key=bytes, value=change).to("out")
        with pytest.raises(ConfigError, match=r"topic 'orders' has values of the schema struct<id.*, but the so"):
            run_program(builder, tmp_path)
