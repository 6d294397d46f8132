"""DataFrames of any schema into topics and back: the same schema, the same values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema

import penstock
from penstock import consume
from penstock.errors import ConfigError, SerdeError
from penstock.log.file.log import FileLog
from support import schemas

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def far_from_utc(spark: Any):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def typed(spark: Any, topic: str, folder: Path, **options: Any) -> Any:
    options = {"topic": topic, "log": str(folder), "typed": "true"} | options
    return spark.read.format("penstock").options(**options).load()


EVERY = """
    select named_struct('a', 1Y, 'b', cast(null as string)) as s, named_struct('a', cast(null as int)) as empty,
    array(named_struct('x', nullif(1152921504606846976L, 0L)), null) as arr,
    array(cast('NaN' as float), float(1.5), null) as nan,
    map('p', 1S, 'q', null) as m, map(date'2026-01-02', X'DEAD') as by_day, map(1.50BD, 'a', 2.25BD, null) as by_price,
    map(true, 1, false, null) as by_truth,
    map(named_struct('k', 1, 'at', timestamp'2026-01-02 03:04:05Z'), 2) as by_row,
    map(array(1, 2), map(X'01', double('-Infinity'))) as deep, map(double('NaN'), 1) as by_nan,
    cast('12345678901234567890.123456789012345678' as decimal(38,18)) as dec, cast(-1.5 as decimal(3,1)) as small,
    1Y as i1, 2S as i2, 3 as i4, 1152921504606846977L as i8, float(0.1) as f4, double('Infinity') as f8,
    timestamp'2026-01-02 03:04:05.678901Z' as ts, timestamp_ntz'2026-01-02 03:04:05.678901' as tn,
    date'0001-01-02' as d, time'03:04:05.678901' as clock, X'00FF' as raw, X'' as nothing, true as yes, 'text' as word,
    cast('abc' as char(5)) as padded, null as nul, cast(null as binary) as missing,
    interval '1 02:03:04.000005' day to second as dt, interval '5' hour as hours
"""


def test_every_type_comes_back_with_its_schema_and_values(spark: Any, tmp_path: Path):
    frame = spark.sql(EVERY)
    penstock.write(frame, "t", log=tmp_path)
    back = typed(spark, "t", tmp_path).select("value.*")
    assert back.schema == all_nullable(frame.schema)
    assert repr(back.toArrow().to_pylist()) == repr(frame.toArrow().to_pylist())
    assert back.where("dec > 1 and by_day[date'2026-01-02'] = X'DEAD'").select("i2").collect() == [(2,)]


def all_nullable(schema: Any) -> Any:
    """A schema of Spark with everything nullable, as it is in topics."""

    def relaxed(kind: Any) -> Any:
        if isinstance(kind, spark_types.StructType):
            fields = [spark_types.StructField(f.name, relaxed(f.dataType), True, f.metadata) for f in kind]
            return spark_types.StructType(fields)
        if isinstance(kind, spark_types.ArrayType):
            return spark_types.ArrayType(relaxed(kind.elementType), True)
        if isinstance(kind, spark_types.MapType):
            return spark_types.MapType(relaxed(kind.keyType), relaxed(kind.valueType), True)
        return kind

    return relaxed(schema)


SCALARS = st.one_of(
    st.sampled_from([pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.time64("ns"), pa.duration("us")]),
    st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]),
    st.builds(pa.timestamp, st.just("us"), st.sampled_from([None, "UTC"])),
    st.integers(1, 38).flatmap(lambda digits: st.builds(pa.decimal128, st.just(digits), st.integers(0, digits))),
)
COLUMNS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.map_, SCALARS.filter(lambda kind: not pa.types.is_floating(kind)), inner),
        st.builds(pa.struct, schemas.fields(inner, 1)),
    ),
    max_leaves=4,
)


def test_sixty_columns_of_random_types_come_back_with_their_schema_and_values(spark: Any, tmp_path: Path):
    found: list[Any] = []

    @settings(max_examples=60, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(
        COLUMNS.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(schemas.values(kind), min_size=5, max_size=5)))
    )
    def draw(column: Any) -> None:
        found.append(column)

    draw()
    kinds = pa.schema([("n", pa.int16()), *((f"c{number}", kind) for number, (kind, _) in enumerate(found))])
    columns = [range(5), *(values for _, values in found)]
    rows = [dict(zip(kinds.names, row, strict=True)) for row in zip(*columns, strict=True)]
    table = pa.Table.from_batches([schemas.table_of(kinds, rows)])
    frame = spark.createDataFrame(table, from_arrow_schema(kinds))
    penstock.write(frame, "t", log=tmp_path, key="c0")
    back = typed(spark, "t", tmp_path)
    assert back.select("value.*").schema == all_nullable(frame.schema)
    assert back.schema["key"].dataType == frame.schema["c0"].dataType
    expected = frame.orderBy("n").toArrow().to_pylist()
    assert repr(back.select("value.*").orderBy("n").toArrow().to_pylist()) == repr(expected)
    found = sorted((record.value for record in consume("t", log=tmp_path)), key=lambda row: row["n"])
    assert not schemas.first_difference(found, rows)


def test_a_table_of_arrow_has_the_next_wider_types_in_spark(spark: Any, tmp_path: Path):
    columns = {
        "u1": pa.array([255], pa.uint8()), "u8": pa.array([2**64 - 1], pa.uint64()), "h": pa.array([0.5], pa.float16()),
        "t": pa.array([5], pa.time32("s")), "at": pa.array([5], pa.timestamp("ms", "Europe/Berlin")),
        "id": pa.array([b"\0" * 16], pa.binary(16)).cast(pa.uuid()), "c": pa.array(["x"]).dictionary_encode(),
        "big": pa.array([Decimal(7)], pa.decimal256(50, 2)), "d": pa.array([date(2026, 1, 2)], pa.date64()),
    }  # fmt: skip
    penstock.produce_columns(columns, "t", log=tmp_path)
    back = typed(spark, "t", tmp_path).select("value.*")
    assert back.schema.simpleString() == (
        "struct<u1:smallint,u8:decimal(20,0),h:float,t:time(6),at:timestamp,id:string,c:string,big:string,d:date>"
    )
    at = [str(back.selectExpr(f"cast({name} as string) as text").head().text) for name in back.columns]
    assert at == [
        "255", "18446744073709551615", "0.5", "00:00:05", "1969-12-31 19:00:00.005",
        "00000000-0000-0000-0000-000000000000", "x", "7.00", "2026-01-02",
    ]  # fmt: skip


def test_keys_of_several_columns_and_headers_come_back(spark: Any, tmp_path: Path):
    frame = spark.sql(
        "select 'a' as shop, date'2026-01-02' as day, id as n, array(named_struct('key', 'h', 'value', X'01')) as hs "
        "from range(4)"
    )
    penstock.write(frame, "t", key=["shop", "day"], value="n", headers="hs", partitions=8, log=tmp_path)
    back = typed(spark, "t", tmp_path, includeHeaders="true")
    assert back.schema["key"].dataType.simpleString() == "struct<shop:string,day:date>"
    assert back.select("partition").distinct().count() == 1
    expected = [(("a", date(2026, 1, 2)), n, [("h", b"\x01")]) for n in range(4)]
    found = [(tuple(r.key), r.value, [tuple(h) for h in r.headers]) for r in back.collect()]
    assert sorted(found, key=lambda row: row[1]) == expected
    penstock.write(frame, "rows", key=["day"], headers="hs", log=tmp_path)
    assert typed(spark, "rows", tmp_path).schema["value"].dataType.names == ["shop", "day", "n"]


def test_another_schema_is_refused_with_both_and_so_is_text_that_is_none(spark: Any, tmp_path: Path):
    penstock.write(spark.sql("select 1 as a, 'x' as b"), "t", log=tmp_path)
    penstock.write(spark.sql("select 'y' as b, 2 as a"), "t", log=tmp_path)
    both = "values of the schema struct<a: int32, b: string>, and these have struct<a: int64, b: string>"
    with pytest.raises(ConfigError, match=f"^write: topic 't' has {both}"):
        penstock.write(spark.sql("select 1L as a, 'x' as b"), "t", log=tmp_path)
    for chosen in ({}, {"value": "b"}):
        with pytest.raises((SerdeError, ConfigError), match="column 'b'"):
            penstock.write(spark.sql("select cast(X'FF' as string) as b"), "u", log=tmp_path, **chosen)
    assert FileLog(tmp_path).topics() == ["t"]


def test_a_stream_keeps_the_schema_too(spark: Any, tmp_path: Path):
    frame = spark.createDataFrame(
        [(1, Decimal("1.50"), datetime(2026, 1, 2, tzinfo=UTC))], "a short, p decimal(9,2), at timestamp"
    )
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    query = penstock.write(stream, "t", log=tmp_path / "log", checkpoint=tmp_path / "ck")
    query.processAllAvailable()
    query.stop()
    back = typed(spark, "t", tmp_path / "log").select("value.*")
    assert back.schema == frame.schema
    assert back.collect() == frame.collect()
