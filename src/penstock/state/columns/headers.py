"""Headers in stores: packed into bytes, and in front of the values that they belong to.

A row that has headers begins with 4 bytes, the length of its packed headers, then these, then the value. Its timestamp
is marked (``marked``), so that rows without headers are those of a store without headers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import (
    Binary,
    BoolArray,
    IntArray,
    cut,
    fixed_binary,
    items_at,
    null_mask,
    nulls,
    offsets_of,
    slices,
    spans,
)
from penstock.record import Headers

_NULL = -1
_COUNT, _LENGTHS = 4, 8
_SIZE = 4
_FIRST = -2
"""The mark of -1, which is no time; below it are those of 0 and later."""


class Headed(bytes):
    """The bytes of a value that know their headers."""

    headers: Headers = ()


def headers_of(data: bytes) -> Headers:
    """The headers of a value that was read."""
    return data.headers if isinstance(data, Headed) else ()


# --- one row -----------------------------------------------------------------------------------------------------


def with_headers(data: bytes, headers: Headers) -> bytes:
    """Put headers in front of a value.

    >>> headed = without_headers(with_headers(b"5", (("id", b"x"), ("none", None))))
    >>> headed, headed.headers
    (b'5', (('id', b'x'), ('none', None)))
    """
    parts = [(name.encode(), value) for name, value in headers]
    lengths = [number for name, value in parts for number in (len(name), _NULL if value is None else len(value))]
    packed = struct.pack(f"<i{len(lengths)}i", len(parts), *lengths)
    packed += b"".join(name + (value or b"") for name, value in parts)
    return len(packed).to_bytes(_SIZE, "little") + packed + data


def without_headers(data: bytes) -> Headed:
    """The inverse of ``with_headers``: the value, which knows its headers."""
    end = _SIZE + int.from_bytes(data[:_SIZE], "little")
    found = Headed(data[end:])
    if end > _SIZE + _COUNT:
        (count,) = struct.unpack_from("<i", data, _SIZE)
        lengths = struct.unpack_from(f"<{2 * count}i", data, _SIZE + _COUNT)
        found.headers = tuple(_pairs(data, _SIZE + _COUNT + _LENGTHS * count, lengths))
    return found


def _pairs(data: bytes, at: int, lengths: tuple[int, ...]) -> Iterable[tuple[str, Any]]:
    for name, value in zip(lengths[::2], lengths[1::2], strict=True):
        yield data[at : at + name].decode(), None if value < 0 else data[at + name : at + name + value]
        at += name + max(value, 0)


def row_with_headers(data: bytes, timestamp: int, headers: Headers) -> tuple[bytes, int]:
    """The value and the timestamp of a row as a store keeps them.

    >>> row_with_headers(b"5", 7, ())
    (b'5', 7)
    >>> data, timestamp = row_with_headers(b"5", 7, (("id", b"x"),))
    >>> timestamp, row_without_headers(data, timestamp)
    (-10, (b'5', 7))
    """
    return (with_headers(data, headers), marked(timestamp)) if headers else (data, timestamp)


def row_without_headers(data: bytes, timestamp: int) -> tuple[bytes, int]:
    """The inverse of ``row_with_headers``; the value knows its headers."""
    return (without_headers(data), marked(timestamp)) if is_marked(timestamp) else (data, timestamp)


def marked(timestamp: int) -> int:
    """The timestamp of a row that has headers; and its inverse.

    >>> marked(0), marked(-1), marked(marked(5))
    (-3, -2, 5)
    """
    return _FIRST - 1 - timestamp


def is_marked(timestamp: int) -> bool:
    """True for the timestamp of a row that has headers."""
    return timestamp <= _FIRST


# --- columns -----------------------------------------------------------------------------------------------------


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
        lengths[missing, 1] = _NULL
    both = spans(pc.binary_join_element_wise(key, value.fill_null(b""), b""))
    packed = pc.binary_join_element_wise(
        fixed_binary(counts.astype("<i4")),
        cut(lengths.astype("<i4").view(np.uint8).ravel(), ends * _LENGTHS),
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
    lengths = items_at(where.data, where.start[owner] + _COUNT + within * _LENGTHS, ("<i4", 2)).astype(np.int64)
    key_length, value_length = lengths[:, 0], np.maximum(lengths[:, 1], 0)
    sizes = offsets_of(key_length + value_length)
    start = (where.start + _COUNT + counts * _LENGTHS)[owner] + sizes[:-1] - sizes[ends[owner]]
    key = slices(where.data, start, key_length).cast(pa.string())
    value = slices(where.data, start + key_length, value_length, lengths[:, 1] >= 0)
    bounds = pa.array(ends, pa.int32(), mask=None if missing is None else np.append(missing, False))
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays([key, value], ["key", "value"]))


def are_marked(timestamps: IntArray) -> BoolArray:
    """True for the timestamps of rows that have headers."""
    return timestamps <= _FIRST


def rows_with_headers(data: Binary, headers: Any) -> tuple[Binary, BoolArray]:
    """Put the headers of records in front of their values; and which of them have any."""
    has = pc.fill_null(pc.greater(pc.list_value_length(headers), 0), False)
    packed = pc.if_else(has, pack_headers(headers, len(data)), pa.scalar(None, pa.binary()))
    size = fixed_binary(np.where(np.asarray(has), spans(packed).length, 0).astype("<i4"))
    return pc.if_else(has, pc.binary_join_element_wise(size, packed, data, b""), data), np.asarray(has)


def rows_without_headers(data: Binary, has: BoolArray) -> Binary:
    """The values of rows, of which these have headers."""
    if not has.any():
        return data
    where = spans(data)
    skipped = np.zeros(len(data), np.int64)
    skipped[has] = items_at(where.data, where.start[has], "<i4").astype(np.int64) + _SIZE
    return slices(where.data, where.start + skipped, where.length - skipped)


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
