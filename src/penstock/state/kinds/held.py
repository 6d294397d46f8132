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
    cut,
    fixed_binary,
    items_at,
    null_mask,
    nulls,
    offsets_of,
    slices,
    spans,
)
from penstock.batch import Origins, no_headers
from penstock.rows import Rows, if_absent

_NULL = -1
_HEAD = 32
_COUNT, _LENGTHS = 4, 8


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
        parts = [self.new, self.old, self.prior, _pack_headers(self.headers, len(self.sizes))]
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
    return Updates(new, old, prior, _unpack_headers(headers), head[:, 0], seen, origins)


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


def _pack_headers(headers: Any, count: int) -> Binary:
    """For each record, the number of its headers, the lengths of their keys and values, then these; null if it has
    none."""
    if headers is None:
        return nulls(count)
    counts = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    every = pc.list_flatten(headers)
    key, value = pc.struct_field(every, "key").cast(pa.binary()), pc.struct_field(every, "value")
    missing = null_mask(value)
    lengths = np.stack([spans(key).length, spans(value).length], axis=1)
    sizes, ends = offsets_of(lengths.sum(axis=1)), offsets_of(counts)
    if missing is not None:
        lengths[missing, 1] = _NULL
    both = spans(pc.binary_join_element_wise(key, value.fill_null(b""), b""))
    packed = pc.binary_join_element_wise(
        fixed_binary(counts.astype("<i4")),
        cut(lengths.astype("<i4").view(np.uint8).ravel(), ends * _LENGTHS),
        cut(both.data[int(both.start[0]) :] if len(every) else both.data, sizes[ends]),
        b"",
    )
    return pc.if_else(headers.is_valid(), packed, pa.scalar(None, pa.binary()))


def _unpack_headers(packed: Binary) -> Any:
    """The inverse of ``_pack_headers``."""
    if packed.null_count == len(packed):
        return None
    where, missing = spans(packed), null_mask(packed)
    rows = np.arange(len(packed)) if missing is None else np.flatnonzero(~missing)
    counts = np.zeros(len(packed), np.int64)
    counts[rows] = items_at(where.data, where.start[rows], "<i4")
    ends = offsets_of(counts)
    owner = np.repeat(np.arange(len(packed)), counts)
    within = np.arange(len(owner)) - ends[owner]
    lengths = items_at(where.data, where.start[owner] + _COUNT + within * _LENGTHS, ("<i4", 2)).astype(np.int64)
    key_length, value_length = lengths[:, 0], np.maximum(lengths[:, 1], 0)
    sizes = offsets_of(key_length + value_length)
    start = (where.start + _COUNT + counts * _LENGTHS)[owner] + sizes[:-1] - sizes[ends[owner]]
    key = slices(where.data, start, key_length).cast(pa.string())
    value = slices(where.data, start + key_length, value_length, lengths[:, 1] >= 0)
    bounds = pa.array(ends, pa.int32(), mask=None if missing is None else np.append(missing, False))
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays([key, value], ["key", "value"]))
