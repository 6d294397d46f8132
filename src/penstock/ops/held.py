"""Updates of a table as a suppression holds them: packed into bytes, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, concat, fixed_binary, items_at, null_mask, nulls, slices, spans
from penstock.batch import HEADERS

_NULL = -1
_HEAD = 28


class Updates(NamedTuple):
    """Some updates: new and old values, the value before the first of those that were held back (``prior``), record
    headers, how many bytes each one counts as, and the stream time when it came (``seen``)."""

    new: Binary
    old: Binary
    prior: Binary
    headers: Any
    sizes: IntArray
    seen: IntArray

    def take(self, rows: IntArray) -> Updates:
        chosen = pa.array(rows)
        headers = None if self.headers is None else self.headers.take(chosen)
        new, old, prior = (part.take(chosen) for part in (self.new, self.old, self.prior))
        return Updates(new, old, prior, headers, self.sizes[rows], self.seen[rows])

    def join(self, other: Updates) -> Updates:
        """These, then the others."""
        headers = None
        if self.headers is not None or other.headers is not None:
            headers = concat(
                [pa.nulls(len(u.sizes), HEADERS) if u.headers is None else u.headers for u in (self, other)]
            )
        return Updates(
            concat([self.new, other.new]),
            concat([self.old, other.old]),
            concat([self.prior, other.prior]),
            headers,
            np.concatenate([self.sizes, other.sizes]),
            np.concatenate([self.seen, other.seen]),
        )

    def pack(self) -> Binary:
        """All of it in one value each: the size and the lengths of the parts in 4 bytes, the time in 8, the parts."""
        parts = [self.new, self.old, self.prior, _pack_headers(self.headers, len(self.sizes))]
        head = np.empty((len(self.sizes), 7), "<i4")
        head[:, 0] = self.sizes
        head[:, 5:] = self.seen.astype("<i8").view("<i4").reshape(-1, 2)
        for column, part in enumerate(parts, 1):
            missing = null_mask(part)
            length = spans(part).length
            head[:, column] = length if missing is None else np.where(missing, _NULL, length)
        present = [
            pc.fill_null(part, b"") if part.null_count else part for part in parts if part.null_count < len(part)
        ]
        return pc.binary_join_element_wise(fixed_binary(head), *present, b"")


def unpack(packed: Binary) -> Updates:
    """The reverse of ``pack``; no value may be null."""
    where = spans(packed)
    head = items_at(where.data, where.start, ("<i4", 7))
    seen = np.ascontiguousarray(head[:, 5:]).view("<i8").ravel().astype(np.int64)
    head = head.astype(np.int64)
    start, parts = where.start + _HEAD, []
    for column in range(1, 5):
        length = np.maximum(head[:, column], 0)
        valid = head[:, column] >= 0
        parts.append(slices(where.data, start, length, valid) if valid.any() else nulls(len(packed)))
        start = start + length
    new, old, prior, headers = parts
    return Updates(new, old, prior, _unpack_headers(headers), head[:, 0], seen)


def no_updates() -> Updates:
    return Updates(nulls(0), nulls(0), nulls(0), None, np.zeros(0, np.int64), np.zeros(0, np.int64))


def _pack_headers(headers: Any, count: int) -> Binary:
    if headers is None:
        return nulls(count)
    rows = [None if row is None else msgspec.msgpack.encode(row) for row in headers.to_pylist()]
    return pa.array(rows, pa.binary())


def _unpack_headers(packed: Binary) -> Any:
    if packed.null_count == len(packed):
        return None
    return pa.array([None if row is None else msgspec.msgpack.decode(row) for row in packed.to_pylist()], HEADERS)
