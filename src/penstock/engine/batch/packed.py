"""Records between the stages of a batch, in blocks that Spark shuffles and sorts, and the reading task merges.

A block has consecutive records that one task sends to one partition, so Spark converts a row for some thousand records
instead of one for each. Spark sorts the blocks by their first records. The blocks of one sender do not overlap, so when
the next block begins, all waiting records before its first one are final: at most one block of each sender is in
memory.

    sender 0   10 20 40 | 60 70
    sender 1      15 30   50 | 80
    arrive     [10 20 40] [15 30 50] [60 70] [80]
    final                 10         15 20 30 40 50   60 70   80
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.arrays import IntArray, nulls
from penstock.columns.batch import HEADERS
from penstock.engine.batch.rows import in_bytes, row
from penstock.engine.shared.exchange import EARLIEST
from penstock.log.records import Records

BLOCK_ROWS, BLOCK_BYTES = 4096, 256 << 10
"""Most records and approximate most bytes of a block. A reading task holds as much of each sender."""

BLOCK = ("block", "clock", "cause", "sender", "seq")
"""The columns of a block's row; all but the first are those of its first record."""

AS_ROWS = (
    "partition int, clock bigint, cause bigint, sender bigint, seq bigint, timestamp bigint, key binary, value binary, "
    "old binary, headers array<struct<key:string,value:binary>>"
)
"""The columns of records as rows, in Spark's syntax."""


def packed(
    what: int, partition: int, records: Records, clock: IntArray, cause: IntArray | None, sender: int, seq: int
) -> Iterator[Any]:
    """Yield records for a partition of a topic as blocks, each in one row of a stage's result.

    Args:
        clock: the clock of each record; it does not decrease.
        seq: the number of the first record among all that the sender sends there.
    """
    count = len(records)
    columns = {
        "clock": pa.array(clock),
        "cause": pa.nulls(count, pa.int64()) if cause is None else pa.array(cause),
        "timestamp": pa.array(records.timestamp),
        "key": records.key,
        "value": records.value,
        "old": nulls(count) if records.old is None else records.old,
        "headers": pa.nulls(count, HEADERS) if records.headers is None else records.headers,
    }
    batch = pa.record_batch(columns)
    rows = max(min(BLOCK_ROWS, BLOCK_BYTES * count // max(batch.nbytes, 1)), 1)
    for start in range(0, count, rows):
        yield row(
            what=what,
            block=in_bytes(batch.slice(start, rows)),
            partition=partition,
            clock=int(clock[start]),
            cause=None if cause is None else int(cause[start]),
            sender=sender,
            seq=seq + start,
        )


def as_rows(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield the records of blocks as rows of Spark, for stages that also read other rows."""
    for batch in blocks:
        for partition, sender, seq, data in zip(
            *(batch.column(name) for name in ("partition", "sender", "seq", "block")), strict=True
        ):
            records = _read(data)
            count, first = records.num_rows, seq.as_py()
            told = {
                "partition": pa.repeat(partition, count),
                "clock": records.column("clock"),
                "cause": records.column("cause"),
                "sender": pa.repeat(sender, count),
                "seq": pa.array(np.arange(first, first + count)),
            }
            rest = {name: records.column(name) for name in ("timestamp", "key", "value", "old", "headers")}
            yield pa.record_batch(told | rest)


def merged(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield the records of blocks, which come sorted by their first records, in the order of their places."""
    waiting: dict[tuple[int, int], _Piece] = {}
    for batch in blocks:
        for number in range(batch.num_rows):
            piece = _piece(batch, number)
            yield from _joined(_taken_before(piece, waiting))
            waiting[piece.of] = piece
    yield from _joined(sorted(waiting.values(), key=_of))


class _Piece(NamedTuple):
    """Records of one block that are not returned yet."""

    of: tuple[int, int]
    """The input and the sender."""
    records: Any
    clock: IntArray
    cause: IntArray
    """``EARLIEST`` where records have none."""

    def before(self, other: _Piece) -> int:
        """Return how many records come before the first one of another sender's block."""
        clock, cause = other.clock[0], other.cause[0]
        first, end = np.searchsorted(self.clock, clock, "left"), np.searchsorted(self.clock, clock, "right")
        side: Any = "right" if self.of < other.of else "left"
        return int(first + np.searchsorted(self.cause[first:end], cause, side))

    def slice(self, start: int, stop: int) -> _Piece:
        """Return the records from ``start`` until before ``stop``."""
        records = self.records.slice(start, stop - start)
        return _Piece(self.of, records, self.clock[start:stop], self.cause[start:stop])


def _of(piece: _Piece) -> tuple[int, int]:
    return piece.of


def _piece(batch: Any, number: int) -> _Piece:
    records = _read(batch.column("block")[number])
    input_ = 0
    if "input" in batch.schema.names:
        input_ = batch.column("input")[number].as_py()
        records = records.append_column("input", pa.repeat(pa.scalar(input_, pa.int32()), records.num_rows))
    cause = records.column("cause").fill_null(EARLIEST).to_numpy(zero_copy_only=False)
    sender = batch.column("sender")[number].as_py()
    return _Piece((input_, sender), records, records.column("clock").to_numpy(), cause)


def _taken_before(piece: _Piece, waiting: dict[tuple[int, int], _Piece]) -> list[_Piece]:
    """Remove and return the waiting records before the first one of a block, by input and sender."""
    taken = []
    for of in sorted(waiting):
        one = waiting[of]
        count = len(one.clock) if of == piece.of else one.before(piece)
        if count == len(one.clock):
            taken.append(waiting.pop(of))
        elif count:
            taken.append(one.slice(0, count))
            waiting[of] = one.slice(count, len(one.clock))
    return taken


def _joined(pieces: list[_Piece]) -> Iterator[Any]:
    """Yield the records of pieces in order; at equal places the first piece's come first."""
    if not pieces:
        return
    if len(pieces) == 1:
        yield pieces[0].records
        return
    clock, cause = np.concatenate([one.clock for one in pieces]), np.concatenate([one.cause for one in pieces])
    order = np.lexsort((cause, clock)) if (cause != EARLIEST).any() else np.argsort(clock, kind="stable")
    records = pa.concat_batches([one.records for one in pieces])
    yield records if (order[1:] > order[:-1]).all() else records.take(pa.array(order))


def _read(data: Any) -> Any:
    (batch,) = ipc.open_stream(data.as_buffer())
    return batch
