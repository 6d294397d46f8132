"""The rows that go through Spark between the stages of a batch, and out of them.

A row that a task sends through a repartition topic is a row of the DataFrame, which Spark shuffles. All other output of
a task (records of output topics, rows of stores, metrics) goes in blocks: Arrow batches as bytes, one in a row. So a
record is converted to Spark's own format once, and only if it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.arrays import IntArray, nulls
from penstock.batch import HEADERS
from penstock.log.records import Records
from penstock.log.tables import small

OUTPUT, STORE, FIGURES, ERROR, ENDED = -1, -2, -3, -4, -5
"""The kinds of blocks, in the column ``what``; a row for another stage has the number of its topic there."""

RESULT = pa.schema(
    [
        ("what", pa.int32()),
        ("name", pa.string()),
        ("block", pa.binary()),
        ("partition", pa.int32()),
        ("clock", pa.int64()),
        ("cause", pa.int64()),
        ("sender", pa.int64()),
        ("seq", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("old", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""The columns of a stage's output."""

IN_SPARK = (
    "what int, name string, block binary, partition int, clock bigint, cause bigint, sender bigint, seq bigint, "
    "timestamp bigint, key binary, value binary, old binary, headers array<struct<key:string,value:binary>>"
)
"""The same schema in Spark's syntax."""

SENT = ("partition", "clock", "cause", "sender", "seq", "timestamp", "key", "value", "old", "headers")
"""The columns of rows for other stages."""

SORTED_BY = ("clock", "cause", "input", "sender", "seq")
"""The sort columns of a task's rows, as far as they have them: the order of the engine's own reader."""


def sent(
    what: int, partition: int, records: Records, clock: IntArray, cause: IntArray | None, sender: int, seq: IntArray
) -> Any:
    """Return records for a partition of a repartition topic, as rows."""
    count = len(records)
    columns = {
        "what": pa.repeat(pa.scalar(what, pa.int32()), count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "clock": pa.array(clock),
        "cause": pa.nulls(count, pa.int64()) if cause is None else pa.array(cause),
        "sender": pa.repeat(pa.scalar(sender, pa.int64()), count),
        "seq": pa.array(seq),
        "timestamp": pa.array(records.timestamp),
        "key": records.key,
        "value": records.value,
        "old": nulls(count) if records.old is None else records.old,
        "headers": pa.nulls(count, HEADERS) if records.headers is None else records.headers,
    }
    return _whole(columns, count)


def blocks(what: int, name: str, batch: Any) -> Iterator[Any]:
    """Yield a batch of any columns as rows of a stage's result, each a block of bounded size."""
    for part in small(batch):
        size = pa.MockOutputStream()
        _write(part, size)
        buffer = pa.allocate_buffer(size.size())  # as large as it has to be: one that grows is copied again and again
        _write(part, pa.FixedSizeBufferWriter(buffer))
        yield block(what, name, buffer)


def _write(batch: Any, sink: Any) -> None:
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def block(what: int, name: str, data: Any) -> Any:
    """Return bytes, or a buffer of them, as a row of a stage's result."""
    ends = pa.array([0, len(data)], pa.int32()).buffers()[1]
    columns = {
        "what": pa.array([what], pa.int32()),
        "name": pa.array([name], pa.string()),
        "block": pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)]),
    }
    return _whole(columns, 1)


def _whole(columns: dict[str, Any], count: int) -> Any:
    every = [columns.get(field.name, pa.nulls(count, field.type)) for field in RESULT]
    return pa.record_batch(every, schema=RESULT)


def unpacked(rows: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Yield the batches in rows with blocks: these columns of them, with these types."""
    for row in rows:
        for data in row.column(0):
            for batch in ipc.open_stream(data.as_buffer()):
                yield batch.select(schema.names).cast(schema)
