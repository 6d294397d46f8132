"""Updates of a table in the form in which a suppression holds them: packed into bytes, and unpacked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import (
    Binary,
    BoolArray,
    IntArray,
    Spans,
    fixed_binary,
    items_at,
    null_mask,
    nulls,
    slices,
    spans,
)
from penstock.columns.batch import Origins, no_headers
from penstock.columns.rows import Rows, if_absent
from penstock.state.columns.packed_headers import pack_headers, unpack_headers

_NULL = -1
_HEAD = 32


@dataclass(frozen=True, slots=True)
class Updates(Rows):
    """Held updates: new and old values, the value before the first held update (``prior``), record headers, the bytes
    that each update counts (``size``), the stream time at its arrival (``seen``), and its origin."""

    new: Binary
    old: Binary
    prior: Binary
    headers: Any = field(metadata=if_absent(no_headers))
    sizes: IntArray
    seen: IntArray
    origins: Origins

    def pack(self) -> Binary:
        """Pack each update into one value: the size, the lengths of the parts and of the topic's name in 4 bytes, the
        time in 8, the parts, the topic's name, its partition in 4 bytes, the offset in 8."""
        parts = [self.new, self.old, self.prior, pack_headers(self.headers, len(self.sizes))]
        head = np.empty((len(self.sizes), 8), "<i4")
        head[:, 0] = self.sizes
        topic = self.origins.topic.cast(pa.binary())
        head[:, 5] = np.where(_valid(topic), self.origins.topic_bytes(), _NULL)
        head[:, 6:] = self.seen.astype("<i8").view("<i4").reshape(-1, 2)
        for column, part in enumerate(parts, 1):
            missing = null_mask(part)
            length = spans(part).length
            head[:, column] = length if missing is None else np.where(missing, _NULL, length)
        present = [
            pc.fill_null(part, b"") if part.null_count else part for part in parts if part.null_count < len(part)
        ]
        tail = np.empty((len(self.sizes), 3), "<i4")
        tail[:, 0] = self.origins.partition
        tail[:, 1:] = self.origins.offset.astype("<i8").view("<i4").reshape(-1, 2)
        return pc.binary_join_element_wise(
            fixed_binary(head), *present, pc.fill_null(topic, b""), fixed_binary(tail), b""
        )


def unpack(packed: Binary) -> Updates:
    """The inverse of ``pack``; no value may be null."""
    where = spans(packed)
    head = items_at(where.data, where.start, ("<i4", 8))
    seen = np.ascontiguousarray(head[:, 6:]).view("<i8").ravel().astype(np.int64)
    head = head.astype(np.int64)
    start, parts = where.start + _HEAD, []
    for column in range(1, 5):
        length = np.maximum(head[:, column], 0)
        valid = head[:, column] >= 0
        parts.append(slices(where.data, start, length, valid) if valid.any() else nulls(len(packed)))
        start = start + length
    new, old, prior, headers = parts
    origins = _unpack_origins(where, start, head[:, 5])
    return Updates(new, old, prior, unpack_headers(headers), head[:, 0], seen, origins)


def _unpack_origins(where: Spans, start: IntArray, length: IntArray) -> Origins:
    """The origins of updates, which begin at these starts; rows written before 0064 have none."""
    is_there = where.length > start - where.start
    known = is_there & (length >= 0)
    length = np.where(known, length, 0)
    topic = slices(where.data, start, length, known).cast(pa.string())
    at = np.where(is_there, start + length, 0)
    number = items_at(where.data, at[is_there], ("<i4", 3))
    origins = Origins.alike(len(start))
    origins.partition[is_there] = number[:, 0]
    origins.offset[is_there] = np.ascontiguousarray(number[:, 1:]).view("<i8").ravel()
    return origins.with_columns(topic=topic)


def _valid(values: Any) -> BoolArray:
    missing = null_mask(values)
    return np.ones(len(values), np.bool_) if missing is None else ~missing


def no_updates() -> Updates:
    nothing, none = nulls(0), np.zeros(0, np.int64)
    return Updates(nothing, nothing, nothing, None, none, none, Origins.alike(0))
