"""JSON objects written from columns, without an object a record."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, spans

_NEWLINE = b"\n"
_MOST = 2**31 - 1
_ENCODER = msgspec.json.Encoder()


def written(names: list[str], columns: list[Any]) -> Binary | None:
    """Return an object for each row, as ``msgspec`` writes it, with NaN as null; None if they are too long for Arrow.

    Each column is written at once, a line for each value. Texts without escapes are taken as they are.

    Args:
        columns: lists, or Arrow arrays of text.

    >>> written(["n", "id"], [[1, 2], ["a", None]]).to_pylist()
    [b'{"n":1,"id":"a"}', b'{"n":2,"id":null}']
    """
    count = len(columns[0])
    constants: list[bytes] = []
    """The text before each value, and behind the last one."""
    values: list[Any] = []
    before = b"{"
    for name, column in zip(names, columns, strict=True):
        quote = b'"' if isinstance(column, pa.Array) and _is_as_it_is(column) else b""
        constants.append(before + _ENCODER.encode(name) + b":" + quote)
        listed = column.to_pylist() if isinstance(column, pa.Array) and not quote else column
        values.append(column.cast(pa.binary()) if quote else _ENCODER.encode_lines(listed))
        before = quote + b","
    constants.append(before[:-1] + b"}")
    length = count * sum(map(len, constants))
    length += sum(len(one) - count if isinstance(one, bytes) else _text(one).size for one in values)
    if length > _MOST:
        return None
    return _compiled(constants, values, count, length) or _with_arrow(constants, values, count)


def _compiled(constants: list[bytes], values: list[Any], count: int, length: int) -> Binary | None:
    """Return the objects, put together by machine code; None if this process has not loaded Numba for other rules."""
    if "numba" not in sys.modules:
        return None
    from penstock.columns import compiled, json_join

    if not compiled.IS_COMPILED:
        return None
    data = [one if isinstance(one, bytes) else _text(one) for one in values]
    texts = [one for one in values if not isinstance(one, bytes)]
    place = np.cumsum([0, *map(len, data[:-1])])
    is_text = np.array([not isinstance(one, bytes) for one in values])
    text = np.where(is_text, np.cumsum(is_text) - 1, -1)
    lengths = np.array([spans(one).length for one in texts], np.int64).reshape(len(texts), count)
    found, offsets = np.empty(length, np.uint8), np.zeros(count + 1, np.int32)
    json_join.join(
        *(np.frombuffer(b"".join(data), np.uint8), place, text, lengths),
        *(np.frombuffer(b"".join(constants), np.uint8), np.cumsum([0, *map(len, constants)])),
        *(found, offsets),
    )
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(found)])


def _with_arrow(constants: list[bytes], values: list[Any], count: int) -> Binary:
    pieces: list[Any] = []
    for constant, one in zip(constants, values, strict=False):
        pieces += [_scalar(constant), _cut(one, count) if isinstance(one, bytes) else one]
    return pc.binary_join_element_wise(*pieces, _scalar(constants[-1]), _scalar(b""))


def _scalar(text: bytes) -> Any:
    return pa.scalar(text, pa.binary())


def _text(texts: Any) -> Any:
    """Return the bytes of all texts."""
    where = spans(texts)
    return where.data[where.start[0] : where.start[-1] + where.length[-1]] if len(texts) else where.data[:0]


def _is_as_it_is(texts: Any) -> bool:
    """Return whether JSON has all texts as they are, in quotes."""
    return not texts.null_count and not _ESCAPED[_text(texts)].any()


_ESCAPED = np.zeros(256, np.bool_)
"""The bytes that JSON has in another way."""
_ESCAPED[: ord(" ")] = True
_ESCAPED[[ord('"'), ord("\\")]] = True


def _cut(lines: bytes, count: int) -> Binary:
    """Return lines, without their ends."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _NEWLINE[0]).astype(np.int32)
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = ends - np.arange(count, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(lines.replace(_NEWLINE, b""))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
