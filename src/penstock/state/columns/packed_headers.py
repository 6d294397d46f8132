"""Columns of headers packed into bytes, and how many bytes they are in Kafka Streams' stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, cut, fixed_binary, items_at, null_mask, nulls, offsets_of, slices, spans

NO_VALUE = -1
"""The length of a header's value that is null."""
COUNT, LENGTHS = 4, 8
"""The bytes of the number of headers, and of the lengths of a header's name and value."""


def pack_headers(headers: Any, count: int) -> Binary:
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
        lengths[missing, 1] = NO_VALUE
    both = spans(pc.binary_join_element_wise(key, value.fill_null(b""), b""))
    packed = pc.binary_join_element_wise(
        fixed_binary(counts.astype("<i4")),
        cut(lengths.astype("<i4").view(np.uint8).ravel(), ends * LENGTHS),
        cut(both.data[int(both.start[0]) :] if len(every) else both.data, sizes[ends]),
        b"",
    )
    return pc.if_else(headers.is_valid(), packed, pa.scalar(None, pa.binary()))


def unpack_headers(packed: Binary) -> Any:
    """The inverse of ``pack_headers``; None if no record has headers."""
    if packed.null_count == len(packed):
        return None
    where, missing = spans(packed), null_mask(packed)
    rows = np.arange(len(packed)) if missing is None else np.flatnonzero(~missing)
    counts = np.zeros(len(packed), np.int64)
    counts[rows] = items_at(where.data, where.start[rows], "<i4")
    ends = offsets_of(counts)
    owner = np.repeat(np.arange(len(packed)), counts)
    within = np.arange(len(owner)) - ends[owner]
    lengths = items_at(where.data, where.start[owner] + COUNT + within * LENGTHS, ("<i4", 2)).astype(np.int64)
    key_length, value_length = lengths[:, 0], np.maximum(lengths[:, 1], 0)
    sizes = offsets_of(key_length + value_length)
    start = (where.start + COUNT + counts * LENGTHS)[owner] + sizes[:-1] - sizes[ends[owner]]
    key = slices(where.data, start, key_length).cast(pa.string())
    value = slices(where.data, start + key_length, value_length, lengths[:, 1] >= 0)
    bounds = pa.array(ends, pa.int32(), mask=None if missing is None else np.append(missing, False))
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays([key, value], ["key", "value"]))


def sizes_of_headers(headers: Any, count: int) -> IntArray:
    """The bytes of each record's headers in Kafka Streams' stores, with their length in front: 1 for none."""
    sizes = np.zeros(count, np.int64)
    if headers is None:
        return sizes + 1
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy().astype(np.int64)
    every = pc.list_flatten(headers)
    names = pc.binary_length(pc.struct_field(every, "key").cast(pa.binary())).to_numpy().astype(np.int64)
    value = pc.struct_field(every, "value")
    values = pc.fill_null(pc.binary_length(value), 0).to_numpy().astype(np.int64)
    owner = np.repeat(np.arange(count), counts)
    np.add.at(sizes, owner, _varint(names) + names + _varint(values) + values)
    sizes[counts > 0] += _varint(counts)[counts > 0]
    return sizes + _varint(sizes)


def _varint(numbers: IntArray) -> IntArray:
    """The bytes of Kafka's varints, which have 6 bits of a number in the first byte and 7 in each of the others."""
    return 1 + sum((numbers >= 1 << bits).astype(np.int64) for bits in (6, 13, 20, 27))  # type: ignore[return-value]
