"""Records as columns: what is read of a partition, and how it lies in an Arrow file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, concat, spans, take
from penstock.batch import HEADERS

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64())])
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS))


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one partition that follow each other, as columns."""

    offset: int
    """The offset of the first one."""
    key: Binary
    value: Binary
    timestamp: IntArray
    headers: Any = None
    placed: bool = False
    arrival: IntArray | None = None
    """The order in which the records of all topics arrived, where that is known."""
    clock: IntArray | None = None
    """In internal topics: how far the task that sent each one had come in time, see ``Reader``."""
    old: Binary | None = None
    """In internal topics that carry changes of a table: the value before."""
    cause: IntArray | None = None
    """In some internal topics: which record of the log caused each one, see ``Meetings``."""
    offsets: IntArray | None = None
    """The offset of each one where they need not be consecutive, as in Kafka; None where they are."""

    def offsets_of(self, rows: IntArray) -> IntArray:
        """The offsets of some of the records.

        >>> none = pa.nulls(3, pa.binary())
        >>> Records(5, none, none, np.arange(3)).offsets_of(np.array([0, 2])).tolist()
        [5, 7]
        >>> Records(5, none, none, np.arange(3), offsets=np.array([5, 6, 9])).offsets_of(np.array([0, 2])).tolist()
        [5, 9]
        """
        return self.offset + rows if self.offsets is None else self.offsets[rows]

    @property
    def every_offset(self) -> IntArray:
        """The offset of each record."""
        return self.offsets_of(np.arange(len(self)))

    @property
    def end(self) -> int:
        """The offset behind that of the last one."""
        return self.offset + len(self) if self.offsets is None or not len(self) else int(self.offsets[-1]) + 1

    def __len__(self) -> int:
        return len(self.timestamp)

    @property
    def nbytes(self) -> int:
        old = 0 if self.old is None else self.old.nbytes
        return int(self.key.nbytes + self.value.nbytes + old) + 8 * len(self.timestamp)

    def sizes(self) -> IntArray:
        """How many bytes each record has; they add up to ``nbytes``, but for what Arrow itself needs."""
        old = 0 if self.old is None else spans(self.old).length
        return spans(self.key).length + spans(self.value).length + old + 8

    def take(self, rows: IntArray) -> Records:
        """Some of the records, which are still to be written."""
        headers = None if self.headers is None else take(self.headers, rows)
        return Records(-1, take(self.key, rows), take(self.value, rows), self.timestamp[rows], headers)

    def slice(self, start: int, stop: int) -> Records:
        if start == 0 and stop >= len(self):
            return self
        length = max(stop - start, 0)
        offsets = None if self.offsets is None else self.offsets[start:stop]
        return Records(
            self.offset + start if offsets is None or not len(offsets) else int(offsets[0]),
            self.key.slice(start, length),
            self.value.slice(start, length),
            self.timestamp[start:stop],
            headers=None if self.headers is None else self.headers.slice(start, length),
            placed=self.placed,
            arrival=None if self.arrival is None else self.arrival[start:stop],
            clock=None if self.clock is None else self.clock[start:stop],
            old=None if self.old is None else self.old.slice(start, length),
            cause=None if self.cause is None else self.cause[start:stop],
            offsets=offsets,
        )


def join_records(pieces: Sequence[Records]) -> Records:
    """Join records of a topic that follow each other; their offsets may have gaps."""
    if len(pieces) == 1:
        return pieces[0]
    has_gaps = any(piece.offset >= 0 and piece.end != after.offset for piece, after in pairwise(pieces))
    has_offsets = has_gaps or any(piece.offsets is not None for piece in pieces)
    return Records(
        pieces[0].offset,
        concat([piece.key for piece in pieces]),
        concat([piece.value for piece in pieces]),
        np.concatenate([piece.timestamp for piece in pieces]),
        join_headers(pieces),
        all(piece.placed for piece in pieces),
        offsets=np.concatenate([piece.every_offset for piece in pieces]) if has_offsets else None,
    )


def gathered(pieces: Iterable[Records], most: int, most_bytes: int) -> Iterator[Records]:
    """Records that follow each other in fewer pieces: of at most so many records and bytes, unless one came larger."""
    some: list[Records] = []
    count = nbytes = 0
    for piece in pieces:
        if some and (count + len(piece) > most or nbytes + piece.nbytes > most_bytes):
            yield join_records(some)
            some, count, nbytes = [], 0, 0
        some.append(piece)
        count, nbytes = count + len(piece), nbytes + piece.nbytes
    if some:
        yield join_records(some)


def join_headers(pieces: Sequence[Records]) -> Any:
    """The headers of pieces of records, one after the other; None when there are none."""
    if all(piece.headers is None for piece in pieces):
        return None
    return concat([pa.nulls(len(piece), HEADERS) if piece.headers is None else piece.headers for piece in pieces])


def first_at(pieces: Iterable[Records], time: int) -> int | None:
    """The offset of the first record whose timestamp is a time or later; None when there is none."""
    for piece in pieces:
        found = np.flatnonzero(piece.timestamp >= time)
        if len(found):
            return int(piece.offsets_of(found[:1])[0])
    return None


def to_record_batch(records: Records) -> Any:
    """Records as an Arrow record batch of a topic's schema."""
    columns = [records.key, records.value, pa.array(records.timestamp)]
    if records.headers is None:
        return pa.record_batch(columns, schema=SCHEMA)
    return pa.record_batch([*columns, records.headers], schema=SCHEMA_WITH_HEADERS)


def from_record_batch(batch: Any, offset: int, placed: bool = False) -> Records:
    """The reverse of ``to_record_batch``."""
    headers = batch.column(3) if batch.num_columns > 3 else None
    if headers is not None and headers.null_count == len(headers):
        headers = None
    timestamp = batch.column(2).to_numpy()
    return Records(offset, batch.column(0), batch.column(1), np.asarray(timestamp), headers, placed)
