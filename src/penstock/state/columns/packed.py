"""Several entries in one value: the entries of a key in a slot of time, sorted by two numbers.

A value is the number of its entries (4 bytes), then for each entry its two numbers (8 bytes each) and the length of its
data (4 bytes), then the data of all of them. Numpy packs and unpacks whole columns of such values.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, cut, fixed_binary, is_present, items_at, slices, spans
from penstock.columns.rows import Rows

_HEADER = np.dtype([("first", ">i8"), ("second", ">i8"), ("length", ">i4")])
_ONE = struct.Struct(">qqi")
_COUNT = 4


@dataclass(frozen=True, slots=True)
class Entries(Rows):
    """Entries of several rows, sorted by row and then by their numbers."""

    row: IntArray
    first: IntArray
    second: IntArray
    data: Binary

    def merge(self, other: Entries) -> Entries:
        """These entries and others, sorted."""
        every = self.join(other)
        return every.take(_in_order(every.row, every.first, every.second))


def _in_order(row: IntArray, first: IntArray, second: IntArray) -> IntArray:
    """The permutation that sorts by row and both numbers; fast if the first number decides and parts are sorted
    already."""
    if len(row):
        low, high = int(first.min()), int(first.max())
        if (high - low + 1) * (int(row.max()) + 1) < 2**62:
            code = row * (high - low + 1) + (first - low)
            order = np.argsort(code, kind="stable")
            in_order = code[order]
            if not (in_order[1:] == in_order[:-1]).any():
                return order
    return np.lexsort((second, first, row))


def pack(entries: Entries, rows: int) -> Binary:
    """Pack the entries of ``rows`` rows; null for rows without entries.

    >>> entries = Entries(np.array([0, 2, 2]), np.array([5, 6, 8]), np.array([1, 2, 3]), pa.array([b"a", b"b", b"cd"]))
    >>> packed = pack(entries, 3)
    >>> packed.is_null().to_pylist(), unpack(packed).data.to_pylist()
    ([False, True, False], [b'a', b'b', b'cd'])
    """
    counts = np.bincount(entries.row, minlength=rows)
    where = spans(entries.data)
    headers = np.empty(len(entries), _HEADER)
    headers["first"], headers["second"], headers["length"] = entries.first, entries.second, where.length
    ends = np.concatenate([[0], np.cumsum(counts)])
    sizes = np.concatenate([[0], np.cumsum(where.length)])
    begin = int(where.start[0]) if len(entries) else 0
    packed = pc.binary_join_element_wise(
        fixed_binary(counts.astype(">i4")),
        cut(headers.view(np.uint8), ends * _HEADER.itemsize),
        cut(where.data[begin:], sizes[ends]),
        b"",
    )
    return packed if counts.all() else pc.if_else(pa.array(counts > 0), packed, pa.scalar(None, pa.binary()))


def unpack(values: Binary) -> Entries:
    """The entries of all rows that are not null."""
    where = spans(values)
    length = where.length
    if values.null_count:
        length = np.where(is_present(values), length, 0)
    rows = np.flatnonzero(length)
    start = where.start[rows]
    counts = items_at(where.data, start, ">i4").astype(np.int64)
    owner = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    headers = items_at(where.data, start[owner] + _COUNT + within * _HEADER.itemsize, _HEADER)
    sizes = headers["length"].astype(np.int64)
    before = np.cumsum(sizes) - sizes
    first_of_row = np.cumsum(counts) - counts
    offset = start[owner] + _COUNT + counts[owner] * _HEADER.itemsize + before - before[first_of_row][owner]
    data = slices(where.data, offset, sizes)
    return Entries(rows[owner], headers["first"].astype(np.int64), headers["second"].astype(np.int64), data)


Entry = tuple[int, int, bytes]
"""Both numbers of an entry, and its data."""


def pack_one(entries: list[Entry]) -> bytes:
    """Pack the entries of one row, which are in order.

    >>> unpack_one(pack_one([(5, 1, b"a"), (6, 2, b"")]))
    [(5, 1, b'a'), (6, 2, b'')]
    """
    headers = [_ONE.pack(first, second, len(data)) for first, second, data in entries]
    return b"".join([len(entries).to_bytes(_COUNT, "big"), *headers, *(data for _, _, data in entries)])


def unpack_one(value: bytes) -> list[Entry]:
    """The entries of one value."""
    count = int.from_bytes(value[:_COUNT], "big")
    headers = [_ONE.unpack_from(value, _COUNT + i * _ONE.size) for i in range(count)]
    entries, at = [], _COUNT + count * _ONE.size
    for first, second, length in headers:
        entries.append((first, second, value[at : at + length]))
        at += length
    return entries
