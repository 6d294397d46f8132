"""Pairs of values packed into one, for the repartition topic of the global ``deduplicate``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, fixed_binary, is_present, items_at, spans
from penstock.errors import SerdeError
from penstock.serdes.base import Serde

_HEAD = np.dtype([("length", ">i4"), ("has_second", "u1")])
_SIZE = _HEAD.itemsize


class PairSerde(Serde):
    """Tuples of two: the length of the first (-1 for None), whether there is a second, then the bytes of both.

    >>> from penstock.serdes.primitives import STR
    >>> serde = PairSerde(STR, STR)
    >>> serde.decode(serde.encode(("a", None))), serde.decode(serde.encode((None, "b")))
    (('a', None), (None, 'b'))
    """

    def __init__(self, first: Serde, second: Serde):
        self.first = first
        self.second = second
        self.name = f"pair[{first.name}, {second.name}]"

    @property
    def gives_none(self) -> bool:
        return False

    def prepare(self, writes: bool) -> None:
        self.first.prepare(writes)
        self.second.prepare(writes)

    def encode(self, value: Any) -> bytes:
        if type(value) is not tuple or len(value) != 2:
            raise self.refuse(value)
        first = None if value[0] is None else self.first.encode(value[0])
        second = None if value[1] is None else self.second.encode(value[1])
        length = -1 if first is None else len(first)
        return length.to_bytes(4, "big", signed=True) + bytes([second is not None]) + (first or b"") + (second or b"")

    def decode(self, data: bytes) -> tuple[Any, Any]:
        length = int.from_bytes(data[:4], "big", signed=True)
        if len(data) < _SIZE + length or data[4] > 1:
            raise SerdeError(f"not a pair: {data!r}")
        end = _SIZE + max(length, 0)
        first = None if length < 0 else self.first.decode(data[_SIZE:end])
        return first, self.second.decode(data[end:]) if data[4] else None


def pack(first: Binary, second: Binary) -> Binary:
    """Pack the bytes of two parts into pairs.

    >>> column = pack(pa.array([b"a", None], pa.binary()), pa.array([None, b""], pa.binary()))
    >>> [part.to_pylist() for part in unpack(column)]
    [[b'a', None], [None, b'']]
    """
    heads = np.zeros(len(first), _HEAD)
    heads["length"] = np.where(is_present(first), spans(first).length, -1)
    heads["has_second"] = is_present(second)
    return pc.binary_join_element_wise(
        fixed_binary(heads.view(np.uint8).reshape(len(first), _SIZE)), first.fill_null(b""), second.fill_null(b""), b""
    )


def unpack(data: Binary) -> tuple[Binary, Binary]:
    """Unpack pairs, none of which is null, into their parts."""
    where = spans(data)
    heads = items_at(where.data, where.start, _HEAD)
    begin = where.start + _SIZE
    middle = begin + np.maximum(heads["length"], 0)
    bounds = np.append(np.stack([where.start, begin, middle], axis=1).ravel(), where.start[-1:] + where.length[-1:])
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), data.buffers()[2]]
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 3 * len(data), buffers)
    rows = 3 * np.arange(len(data))
    first = pieces.take(pa.array(rows + 1, mask=heads["length"] < 0))
    return first, pieces.take(pa.array(rows + 2, mask=heads["has_second"] == 0))
