"""Records as columns, in memory and in an Arrow file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, spans
from penstock.columns.batch import HEADERS, no_headers
from penstock.columns.rows import Rows, if_absent, joined

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64())])
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS))

_NO_GAPS: IntArray = np.zeros(0, np.int64)
"""Stands for the offsets of records that follow the first one without gaps."""


@dataclass(frozen=True, slots=True)
class Records(Rows):
    """Records of one partition, in the order of their offsets, as columns.

    ``first`` is the offset of the first one, where the others follow it without gaps; else give all ``offsets``.
    Records that are still to be written have -1 for all offsets.

    >>> none = pa.nulls(3, pa.binary())
    >>> Records(5, none, none, np.arange(3)).offsets.tolist()
    [5, 6, 7]
    >>> Records(5, none, none, np.arange(3), offsets=np.array([5, 6, 9])).between(6, 9).offsets.tolist()
    [6]
    """

    first: InitVar[int]
    key: Binary
    value: Binary
    timestamp: IntArray
    headers: Any = field(default=None, metadata=if_absent(no_headers))
    placed: bool = False
    """Whether Kafka's default partitioner puts every key into the partition."""
    arrival: IntArray | None = None
    """The order in which the records of all topics arrived, if known."""
    clock: IntArray | None = None
    """In internal topics: the sending task's clock at each record, see ``Reader``."""
    old: Binary | None = None
    """In internal topics that carry changes of a table: the previous value."""
    cause: IntArray | None = None
    """In some internal topics: the input record that caused each one, see ``Meetings``."""
    offsets: IntArray = field(default_factory=lambda: _NO_GAPS, kw_only=True)
    """The offset of each record; there may be gaps, as in Kafka."""

    def __post_init__(self, first: int) -> None:
        if self.offsets is _NO_GAPS:
            object.__setattr__(self, "offsets", offsets_from(first, len(self)))

    def __len__(self) -> int:
        return len(self.timestamp)

    def between(self, start: int, end: int) -> Records:
        """Return the records with ``start <= offset < end``."""
        first, stop = np.searchsorted(self.offsets, [start, end])
        return self.slice(int(first), int(stop))

    @property
    def end(self) -> int:
        """The offset after the last record; there must be one."""
        return int(self.offsets[-1]) + 1

    @property
    def nbytes(self) -> int:
        old = 0 if self.old is None else self.old.nbytes
        return int(self.key.nbytes + self.value.nbytes + old) + 8 * len(self.timestamp)

    def sizes(self) -> IntArray:
        """Return the size of each record in bytes; the sum is ``nbytes`` without Arrow's overhead."""
        old = 0 if self.old is None else spans(self.old).length
        return spans(self.key).length + spans(self.value).length + old + 8


def offsets_from(first: int, count: int) -> IntArray:
    """Return so many offsets without gaps; -1 for all if the first one is -1."""
    return np.arange(first, first + count) if first >= 0 else np.full(count, first)


def gathered(pieces: Iterable[Records], most: int, most_bytes: int) -> Iterator[Records]:
    """Yield consecutive records in fewer pieces: of at most so many records and bytes, unless one came larger."""
    some: list[Records] = []
    count = nbytes = 0
    for piece in pieces:
        if some and (count + len(piece) > most or nbytes + piece.nbytes > most_bytes):
            yield joined(Records, some)
            some, count, nbytes = [], 0, 0
        some.append(piece)
        count, nbytes = count + len(piece), nbytes + piece.nbytes
    if some:
        yield joined(Records, some)


def first_at(pieces: Iterable[Records], time: int) -> int | None:
    """Return the offset of the first record whose timestamp is a time or later; None if none exists."""
    for piece in pieces:
        found = np.flatnonzero(piece.timestamp >= time)
        if len(found):
            return int(piece.offsets[found[0]])
    return None


def to_record_batch(records: Records) -> Any:
    """Return records as an Arrow record batch of a topic's schema."""
    columns = [records.key, records.value, pa.array(records.timestamp)]
    if records.headers is None:
        return pa.record_batch(columns, schema=SCHEMA)
    return pa.record_batch([*columns, records.headers], schema=SCHEMA_WITH_HEADERS)


def from_record_batch(batch: Any, offset: int, placed: bool = False) -> Records:
    """Reverse ``to_record_batch``."""
    headers = batch.column(3) if batch.num_columns > 3 else None
    if headers is not None and headers.null_count == len(headers):
        headers = None
    timestamp = batch.column(2).to_numpy()
    return Records(offset, batch.column(0), batch.column(1), np.asarray(timestamp), headers, placed)
