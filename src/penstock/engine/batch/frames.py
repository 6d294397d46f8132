"""Topics as rows for Spark: the task of each row, and the order of a task's rows.

The order is total, so that Spark may run a task twice with the same result. Rows of a DataFrame without a column for
their order of arrival are sorted by time, and at equal times by all of their columns, the key's first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql import types as spark
from pyspark.sql.window import Window

from penstock.arrays import partitions
from penstock.columns.batch import HEADERS
from penstock.engine.batch.arguments import Source
from penstock.engine.batch.feed import RowsOf
from penstock.engine.batch.program import Range
from penstock.engine.shared.exchange import EARLIEST
from penstock.engine.shared.meetings import Meetings
from penstock.engine.spark.arrow_functions import arrow_function
from penstock.engine.spark.frame_types import written_schema
from penstock.engine.spark.private import eight_bytes, is_classic, murmur2
from penstock.log.open import open_log
from penstock.log.tables import Chosen
from penstock.serdes import BYTES, INT, STR
from penstock.serdes.row import plain_serde

_NOT_SORTED = (spark.MapType, spark.VariantType, spark.CalendarIntervalType)
"""Types that Spark cannot sort."""

_LOG_ROWS = (
    "partition int, clock bigint, cause bigint, seq bigint, timestamp bigint, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)


def rows_of(source: Source, of: RowsOf, tasks: int, meetings: Meetings | None) -> Any:
    """Return the rows of a DataFrame. Tasks that read nothing else make the clocks themselves.

    Args:
        tasks: the number of tasks.
        meetings: numbers the causes, if rows must carry them.
    """
    used = list(map(quoted, source.used))
    parts = used if of.is_alone else [f.struct(*used)]
    columns = [_time(source).alias("timestamp")]
    columns += [part.alias(name) for part, name in zip(parts, of.columns, strict=True)]
    if source.offset is not None:
        columns.append(whole(source, source.offset).alias("seq"))
    if of.is_global:
        partition = f.lit(0)
        if source.partition is not None:
            columns.append(whole(source, source.partition).alias("sender"))
    elif source.partition is not None:
        partition = whole(source, source.partition, tasks).cast("int")
    else:
        partition = partition_of(source, tasks)
    rows = source.frame.select(partition.alias("partition"), *columns)
    if of.is_alone and not of.is_global:
        return rows
    rows = rows.withColumn("input", f.lit(of.number))
    if of.is_global:
        rows = rows.withColumn("clock", f.lit(EARLIEST))
        return rows.withColumn("partition", f.explode(f.sequence(f.lit(0), f.lit(tasks - 1))))
    arrived = Window.partitionBy("partition").orderBy(*places(source, of))
    clock = f.col("timestamp")
    if source.offset is not None:
        clock = f.max("timestamp").over(arrived.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    rows = rows.withColumn("clock", clock)
    if meetings is not None:
        first = f.col("partition").cast("long") * f.lit(meetings.first_cause("", 1) - meetings.first_cause("", 0))
        first += f.lit(meetings.first_cause(source.topic, 0))
        rows = rows.withColumn("cause", first + f.row_number().over(arrived) - 1)
    return rows


def places(source: Source, of: RowsOf) -> list[Any]:
    """Return the sort columns of a DataFrame's rows in a task."""
    first = [source.chosen.timestamp, *source.keys]
    names = [name for name in dict.fromkeys(first) if name is not None and name in source.used]
    names += [name for name in source.used if name not in names]
    fields = {field.name: field.dataType for field in source.frame.schema}
    arrived = [] if source.offset is None else ["seq"]

    def column(name: str) -> Any:
        return f.col(of.columns[source.used.index(name)]) if of.is_alone else f.col(of.column)[name]

    return [f.col(name) for name in (*arrived, "timestamp")] + [sortable(column(name), fields[name]) for name in names]


def whole(source: Source, name: str, end: int | None = None) -> Any:
    """Return a column that orders rows by arrival. A row with null, or with an invalid partition, ends the run.

    Args:
        end: the number of partitions, if the column holds the partition.
    """
    column, where = quoted(name), f"penstock.errors.ConfigError: {source.chosen.method}: order: column {name!r} holds "
    empty = f"{where}nothing in some row (null). Fill it (coalesce), or leave such rows out"
    checked = f.when(column.isNull(), f.raise_error(f.lit(empty)))
    if end is not None:
        range_ = f", and the partitions are 0 to {end - 1}; partitions= says how many there are"
        strange = f.concat(f.lit(where), column.cast("string"), f.lit(range_))
        checked = checked.when((column < 0) | (column >= end), f.raise_error(strange))
    return checked.otherwise(column)


def quoted(name: str) -> Any:
    """Return a column by its name, whatever characters it has."""
    return f.col("`{}`".format(name.replace("`", "``")))


def sortable(column: Any, kind: Any) -> Any:
    """A column by which rows can be sorted, whatever its type."""
    return f.to_json(f.struct(column)) if _holds(kind, _NOT_SORTED) else column


def _holds(kind: Any, kinds: tuple[Any, ...]) -> bool:
    if isinstance(kind, kinds):
        return True
    inner = {"elementType", "keyType", "valueType"} & set(dir(kind))
    fields = [field.dataType for field in kind] if isinstance(kind, spark.StructType) else []
    return any(_holds(one, kinds) for one in [*fields, *(getattr(kind, name) for name in inner)])


# --- times -----------------------------------------------------------------------------------------------------------


def _time(source: Source) -> Any:
    """Return the times of rows in milliseconds; null where missing."""
    name, unit = source.chosen.timestamp, source.chosen.timestamp_unit
    assert name is not None
    kind, column = source.frame.schema[name].dataType, quoted(name)
    if isinstance(kind, spark.TimestampType):
        return f.unix_millis(column)
    if isinstance(kind, spark.TimestampNTZType):
        return f.timestamp_diff("MILLISECOND", f.lit("1970-01-01 00:00:00").cast("timestamp_ntz"), column)
    if isinstance(kind, spark.DateType):
        return f.unix_date(column).cast("long") * 86_400_000
    if isinstance(kind, spark.IntegralType) and unit in (None, "ms"):
        return column.cast("long")
    chosen = Chosen(source.chosen.method, None, name, name, unit)

    def times(values: pa.Array) -> pa.Array:
        there = pa.record_batch({name: values.drop_null()})
        found = np.zeros(len(values), np.int64)
        found[np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))] = chosen.encode(there).timestamp
        return pa.array(found, mask=values.is_null().to_numpy(zero_copy_only=False))

    argument = written_schema(source.frame.schema, [name]).field(name).type
    return arrow_function(times, argument, "bigint", f"the column of times {name!r}")(column)


# --- partitions ------------------------------------------------------------------------------------------------------


def partition_of(source: Source, tasks: int) -> Any:
    """Return the task of each row, by Kafka's partitioner. Rows without a key are spread by all of their columns."""
    if tasks == 1:
        return f.lit(0)
    fields = [(name, source.frame.schema[name].dataType) for name in source.used]
    spread = f.pmod(f.xxhash64(*(sortable(quoted(name), kind) for name, kind in fields)), f.lit(tasks)).cast("int")
    if not source.keys:
        return spread
    placed = _in_jvm(source, tasks)
    return f.coalesce(_in_python(source, tasks) if placed is None else placed, spread)


def _in_jvm(source: Source, tasks: int) -> Any | None:
    """Return the task of each row with a key, computed without Python. None where that is impossible."""
    session = source.frame.sparkSession
    if not isinstance(source.chosen.key, str) or not is_classic(session):
        return None
    key, serde = quoted(source.chosen.key), plain_serde(source.schema.field(source.chosen.key).type)
    if serde is INT:
        data = eight_bytes(session, key.cast("bigint"))
    elif serde in (STR, BYTES):
        data = key.cast("binary")
    else:
        return None
    return murmur2(session, data).bitwiseAND(f.lit(0x7FFFFFFF)) % f.lit(tasks)


def _in_python(source: Source, tasks: int) -> Any:
    """Return the task of each row with a key, of any type. Spark sends the keys alone to Python."""
    is_one = isinstance(source.chosen.key, str)
    key = quoted(source.keys[0]) if is_one else f.struct(*map(quoted, source.keys))
    chosen = Chosen(source.chosen.method, source.chosen.key, source.keys[0], None)
    types = pa.schema([source.schema.field(name) for name in source.keys])

    def placed(keys: pa.Array) -> pa.Array:
        rows = pa.record_batch([keys], types.names) if is_one else pa.RecordBatch.from_struct_array(keys)
        encoded = chosen.encode(rows.cast(types)).key
        found = partitions(encoded, tasks, -1)
        return pa.array(found.astype(np.int32), mask=found < 0)

    argument = types.field(0).type if is_one else pa.struct(list(types))
    return arrow_function(placed, argument, "int", f"the key {source.chosen.key!r}")(key)


# --- topics of the log -----------------------------------------------------------------------------------------------


def rows_of_log(
    session: Any, place: Any, topic: str, of: RowsOf, ranges: tuple[Range, ...], first_causes: list[int]
) -> Any:
    """Return the records of a topic of the log as rows, for tasks that also read other rows."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for partition in batch.column(0).to_pylist():
                yield from log_rows(place, topic, partition, ranges[partition], first_causes[partition])

    count = len(ranges)
    rows = session.range(0, count, 1, count).mapInArrow(read, _LOG_ROWS)
    if of.is_global:
        rows = rows.withColumns({"sender": f.col("partition"), "partition": f.lit(0), "clock": f.lit(EARLIEST)})
    return rows.withColumn("input", f.lit(of.number))


def log_rows(place: Any, topic: str, partition: int, range_: Range, first_cause: int) -> Iterator[Any]:
    """Yield the records of one partition of a topic of the log as rows."""
    log = open_log(place)
    highest = EARLIEST
    try:
        for records in log.read(topic, partition, range_.start, range_.end):
            count = len(records)
            clock = np.maximum.accumulate(np.maximum(records.timestamp, highest))
            highest = int(clock[-1]) if count else highest
            offsets = records.offsets
            yield pa.record_batch(
                {
                    "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
                    "clock": pa.array(clock),
                    "cause": pa.array(first_cause + offsets),
                    "seq": pa.array(offsets),
                    "timestamp": pa.array(records.timestamp),
                    "key": records.key,
                    "value": records.value,
                    "headers": pa.nulls(count, HEADERS) if records.headers is None else records.headers,
                }
            )
    finally:
        log.close()


def with_time(source: Source, now: int) -> Source:
    """Return a DataFrame whose rows all have one time, if it has no column of times."""
    if source.chosen.timestamp is not None:
        return source
    frame = source.frame.withColumn(NOW, f.lit(now).cast("long"))
    return replace(source, frame=frame, chosen=source.chosen._replace(timestamp=NOW))


NOW = "__penstock_now"
"""The column with the time of the run, for DataFrames without times."""
