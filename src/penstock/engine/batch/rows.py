"""The rows that go through Spark between the stages of a batch, and out of them.

All output of a task goes in blocks: Arrow batches as bytes, one in a row. So a record is converted to Spark's own
format once, and only if it is read. Blocks for other stages say the place of their first record (``packed.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.log.tables import small

OUTPUT, STORE, FIGURES, ERROR, ENDED = -1, -2, -3, -4, -5
"""The kinds of blocks, in the column ``what``; a block for another stage has the number of its topic there."""

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
    ]
)
"""The columns of a stage's output."""

IN_SPARK = "what int, name string, block binary, partition int, clock bigint, cause bigint, sender bigint, seq bigint"
"""The same schema in Spark's syntax."""

SORTED_BY = ("clock", "cause", "input", "sender", "seq")
"""The sort columns of a task's rows, as far as they have them: the order of the engine's own reader."""


def blocks(what: int, name: str, batch: Any) -> Iterator[Any]:
    """Yield a batch of any columns as rows of a stage's result, each a block of bounded size."""
    for part in small(batch):
        yield block(what, name, in_bytes(part))


def in_bytes(batch: Any) -> Any:
    """Return a batch as a buffer of bytes."""
    size = pa.MockOutputStream()
    _write(batch, size)
    buffer = pa.allocate_buffer(size.size())  # as large as it has to be: one that grows is copied again and again
    _write(batch, pa.FixedSizeBufferWriter(buffer))
    return buffer


def _write(batch: Any, sink: Any) -> None:
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def block(what: int, name: str, data: Any) -> Any:
    """Return bytes, or a buffer of them, as a row of a stage's result."""
    return row(what=what, name=name, block=data)


def row(block: Any, **others: Any) -> Any:
    """Return one row of a stage's result, by column."""
    ends = pa.array([0, len(block)], pa.int32()).buffers()[1]
    columns = [pa.array([others.get(field.name)], field.type) for field in RESULT]
    columns[RESULT.get_field_index("block")] = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(block)])
    return pa.record_batch(columns, schema=RESULT)


def unpacked(rows: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Yield the batches in rows with blocks: these columns of them, with these types."""
    for row in rows:
        for data in row.column(0):
            for batch in ipc.open_stream(data.as_buffer()):
                yield batch.select(schema.names).cast(schema)
