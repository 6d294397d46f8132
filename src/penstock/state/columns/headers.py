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

from penstock.arrays import Binary, BoolArray, fixed_binary, items_at, slices, spans
from penstock.record import Headers
from penstock.state.columns.packed import pack_one, unpack_one
from penstock.state.columns.packed_headers import COUNT, LENGTHS, NO_VALUE, pack_headers

_SIZE = 4
_TIMESTAMP = 8
"""Bytes in front of a row on disk."""
MARKED = -2
"""The highest timestamp of rows that have headers: the mark of -1, which is no time."""


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
    lengths = [number for name, value in parts for number in (len(name), NO_VALUE if value is None else len(value))]
    packed = struct.pack(f"<i{len(lengths)}i", len(parts), *lengths)
    packed += b"".join(name + (value or b"") for name, value in parts)
    return len(packed).to_bytes(_SIZE, "little") + packed + data


def without_headers(data: bytes) -> Headed:
    """The inverse of ``with_headers``: the value, which knows its headers."""
    end = _SIZE + int.from_bytes(data[:_SIZE], "little")
    found = Headed(data[end:])
    if end > _SIZE + COUNT:
        (count,) = struct.unpack_from("<i", data, _SIZE)
        lengths = struct.unpack_from(f"<{2 * count}i", data, _SIZE + COUNT)
        found.headers = tuple(_pairs(data, _SIZE + COUNT + LENGTHS * count, lengths))
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
    return (without_headers(data), marked(timestamp)) if timestamp <= MARKED else (data, timestamp)


def marked(timestamp: int) -> int:
    """The timestamp of a row that has headers; and its inverse.

    >>> marked(0), marked(-1), marked(marked(5))
    (-3, -2, 5)
    """
    return MARKED - 1 - timestamp


def packed_with_no_headers(row: bytes) -> bytes:
    """Put no headers in front of each entry of a row on disk, as of sessions, whose entries all have some in front.

    >>> before = bytes(8) + pack_one([(9, 5, b"one"), (20, 20, b"two")])
    >>> [(end, start, without_headers(data)) for end, start, data in unpack_one(packed_with_no_headers(before)[8:])]
    [(9, 5, b'one'), (20, 20, b'two')]
    """
    entries = [(first, second, with_headers(data, ())) for first, second, data in unpack_one(row[_TIMESTAMP:])]
    return row[:_TIMESTAMP] + pack_one(entries)


# --- columns -----------------------------------------------------------------------------------------------------


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
