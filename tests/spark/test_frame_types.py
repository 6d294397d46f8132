"""What becomes of the columns of a Spark DataFrame: kept exactly, or refused by name."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import consume
from penstock.errors import ConfigError
from penstock.log.file.log import FileLog

pytestmark = pytest.mark.slow

KEPT = """
    named_struct('a', 1, 'b', cast(null as string)) as s,
    array(named_struct('x', 1152921504606846976L), null) as arr,
    map('p', 1, 'q', null) as m,
    map('k', array(named_struct('t', timestamp_ntz'2026-01-02 03:04:05.678901'))) as deep,
    cast('12345678901234567890.123456789012345678' as decimal(38,18)) as dec,
    timestamp'2026-01-02 03:04:05.678901Z' as ts,
    timestamp_ntz'2026-01-02 03:04:05.678901' as tn,
    date'2026-01-02' as d,
    cast(null as string) as n,
    1152921504606846977L as big,
    0.1D as dbl,
    true as yes,
    interval '1 02:03:04.000005' day to second as dt
"""
RECORD = {
    "s": {"a": 1, "b": None},
    "arr": [{"x": 2**60}, None],
    "m": {"p": 1, "q": None},
    "deep": {"k": [{"t": "2026-01-02T03:04:05.678901"}]},
    "dec": "12345678901234567890.123456789012345678",
    "ts": "2026-01-02T03:04:05.678901Z",
    "tn": "2026-01-02T03:04:05.678901",
    "d": "2026-01-02",
    "n": None,
    "big": 2**60 + 1,
    "dbl": 0.1,
    "yes": True,
    "dt": "P1DT7384.000005S",
}


@pytest.fixture(autouse=True)
def far_from_utc(spark: Any):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def test_a_row_keeps_every_value(spark: Any, tmp_path: Path):
    penstock.write(spark.sql(f"select {KEPT}"), "t", log=tmp_path)
    assert [record.value for record in consume("t", value=dict, log=tmp_path)] == [RECORD]


def test_a_column_by_itself_and_the_same_in_a_row_are_written_alike(spark: Any, tmp_path: Path):
    frame = spark.sql(f"select {KEPT}")
    for name in ("s", "arr", "m", "deep", "dec", "ts", "tn", "d", "yes", "dt"):
        penstock.write(frame, name, value=name, log=tmp_path)
        assert [record.value for record in consume(name, value=Any, log=tmp_path)] == [RECORD[name]], name


def test_from_json_reads_a_row_back_as_it_was(spark: Any, tmp_path: Path):
    frame = spark.sql(f"select {KEPT}").drop("dt")
    penstock.write(frame, "t", log=tmp_path)
    from pyspark.sql import functions as f

    topic = spark.read.format("penstock").option("topic", "t").option("log", str(tmp_path))
    found = topic.load().select(f.from_json(f.col("value").cast("string"), frame.schema).alias("v")).select("v.*")
    assert found.collect() == frame.collect()
    [row] = found.select("ts", "tn", "d", "dec").collect()
    assert row["dec"] == Decimal("12345678901234567890.123456789012345678")
    assert row["ts"].astimezone(UTC) == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert (row["tn"], row["d"]) == (datetime(2026, 1, 2, 3, 4, 5, 678901), date(2026, 1, 2))


@pytest.mark.parametrize(
    ("sql", "name", "kind"),
    [
        ("interval '1' year", "v", "interval year"),
        ("array(interval '1' year)", "v.element", "interval year"),
        ("make_interval(1, 2)", "v", "interval"),
        ("""parse_json('{"a":1}')""", "v", "variant"),
        ("""named_struct('x', parse_json('1'))""", "v.x", "variant"),
    ],
)
def test_a_type_that_would_change_is_refused_by_its_column(spark: Any, tmp_path: Path, sql: str, name: str, kind: str):
    with pytest.raises(ConfigError) as error:
        penstock.write(spark.sql(f"select 'k' as k, {sql} as v"), "t", key="k", log=tmp_path)
    said = str(error.value)
    assert said.startswith(f"write: column {name!r} is of type {kind}")
    assert any(way_out in said for way_out in ("cast", "Cast", "select", "convert it to text"))
    assert FileLog(tmp_path).topics() == []


def test_a_column_that_is_not_used_may_have_any_type(spark: Any, tmp_path: Path):
    penstock.write(spark.sql("select 'k' as k, interval '1' year as v"), "t", value="k", log=tmp_path)
    assert [record.value for record in consume("t", log=tmp_path)] == ["k"]


def test_bytes_by_themselves_are_bytes(spark: Any, tmp_path: Path):
    penstock.write(spark.sql("select X'00ff' as v"), "t", key="v", value="v", log=tmp_path)
    assert [record[:2] for record in consume("t", log=tmp_path)] == [(b"\x00\xff", b"\x00\xff")]


def test_a_number_that_json_does_not_have_is_text(spark: Any, tmp_path: Path):
    frame = spark.sql("select array(named_struct('x', double('Infinity'))) as a, map('a', float('NaN')) as m")
    penstock.write(frame, "t", log=tmp_path)
    assert next(consume("t", value=dict, log=tmp_path)).value == {"a": [{"x": "Infinity"}], "m": {"a": "NaN"}}
    assert repr(next(consume("t", log=tmp_path)).value) == "{'a': [{'x': inf}], 'm': {'a': nan}}"


def test_such_a_number_by_itself_is_kept(spark: Any, tmp_path: Path):
    penstock.write(spark.sql("select double('NaN') as v"), "t", value="v", log=tmp_path)
    [record] = consume("t", log=tmp_path)
    assert repr(record.value) == "nan"


def test_a_row_without_a_time_is_refused(spark: Any, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"^write: column 'at' holds no time in row 0 of 1 \(null or NaT\)"):
        penstock.write(spark.sql("select 1 as n, cast(null as timestamp) as at"), "t", timestamp="at", log=tmp_path)


def test_the_data_source_itself_keeps_and_refuses_the_same(spark: Any, tmp_path: Path):
    def written(sql: str) -> None:
        frame = spark.sql(f"select {sql} as value")
        frame.write.format("penstock").option("topic", "t").option("log", str(tmp_path)).mode("append").save()

    row = {"ts": "2026-01-02T03:04:05.678901Z", "n": None}
    written("named_struct('ts', timestamp'2026-01-02 03:04:05.678901Z', 'n', cast(null as int))")
    assert [record.value for record in consume("t", value=dict, log=tmp_path)] == [row]
    with pytest.raises(Exception, match=r"column 'value\.b' is of type interval year"):
        written("named_struct('b', interval '1' year)")
