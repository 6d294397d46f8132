"""JSON objects written from columns, without an object a record."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary

_NEWLINE = ord("\n")
_MOST = 2**31 - 1
_ENCODER = msgspec.json.Encoder()


def written(names: list[str], columns: list[list[Any]]) -> Binary | None:
    """Return an object for each row, as ``msgspec`` writes it, with NaN as null; None if they are too long for Arrow.

    Each column is written at once. Its values end with what follows in the object, a comma or the end.

    >>> written(["n", "id"], [[1, 2], ["a", None]]).to_pylist()
    [b'{"n":1,"id":"a"}', b'{"n":2,"id":null}']
    """
    pieces: list[Any] = []
    length = 0
    for number, (name, values) in enumerate(zip(names, columns, strict=True)):
        text = _ENCODER.encode_lines(values)
        begin = (b"," if number else b"{") + _ENCODER.encode(name) + b":"
        length += len(text) + len(begin) * len(values)
        if length > _MOST:
            return None
        last = number == len(names) - 1
        found = _pieces(text.replace(b"\n", b"}" if last else b","), text, len(values))
        pieces += [pa.scalar(begin[1:] if number else begin, pa.binary()), found]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))


def _pieces(text: bytes, lines: bytes, count: int) -> Binary:
    """Return a text cut where lines of the same length end."""
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = np.flatnonzero(np.frombuffer(lines, np.uint8) == _NEWLINE) + 1
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
