"""JSON objects written from columns, without an object a record."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, spans

_NEWLINE = ord("\n")
_MOST = 2**31 - 1
_ENCODER = msgspec.json.Encoder()


def written(names: list[str], columns: list[Any]) -> Binary | None:
    """Return an object for each row, as ``msgspec`` writes it, with NaN as null; None if they are too long for Arrow.

    Each column is written at once. Its values end with what follows in the object, a comma or the end.

    Args:
        columns: lists, or Arrow arrays of text.

    >>> written(["n", "id"], [[1, 2], ["a", None]]).to_pylist()
    [b'{"n":1,"id":"a"}', b'{"n":2,"id":null}']
    """
    pieces: list[Any] = []
    before, length = b"{", 0
    for number, (name, values) in enumerate(zip(names, columns, strict=True)):
        before += _ENCODER.encode(name) + b":"
        after = b"}" if number == len(names) - 1 else b","
        if isinstance(values, pa.Array) and _is_as_it_is(values):
            pieces += [before + b'"', values.cast(pa.binary())]
            length += values.nbytes
            before = b'"' + after
        else:
            listed = values.to_pylist() if isinstance(values, pa.Array) else values
            lines = _ENCODER.encode_lines(listed)
            pieces += [before, _pieces(lines.replace(b"\n", after), lines, len(listed))]
            length += len(lines)
            before = b""
    pieces.append(before)
    length += sum(len(one) for one in pieces if isinstance(one, bytes)) * len(columns[0])
    if length > _MOST:
        return None
    scalars = [pa.scalar(one, pa.binary()) if isinstance(one, bytes) else one for one in pieces]
    return pc.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def _is_as_it_is(texts: Any) -> bool:
    """Return whether JSON has all texts as they are, in quotes."""
    if texts.null_count:
        return False
    where = spans(texts)
    if not len(texts):
        return True
    text = where.data[where.start[0] : where.start[-1] + where.length[-1]]
    return not _ESCAPED[text].any()


_ESCAPED = np.zeros(256, np.bool_)
"""The bytes that JSON has in another way."""
_ESCAPED[: ord(" ")] = True
_ESCAPED[[ord('"'), ord("\\")]] = True


def _pieces(text: bytes, lines: bytes, count: int) -> Binary:
    """Return a text cut where lines of the same length end."""
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = np.flatnonzero(np.frombuffer(lines, np.uint8) == _NEWLINE) + 1
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
