"""Reads the numbers of plain JSON objects straight from their bytes, as machine code.

Only what everybody reads the same is read here, and the rest is left to ``msgspec``: nested and unknown fields,
escapes, floats of many digits, whatever is no JSON.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import BoolArray, IntArray
from penstock.columns.compiled import compiled, inlined

TEXT, WHOLE, FLOAT, TRUTH, OR_NONE = 0, 1, 2, 3, 4
"""Kinds of fields; ``OR_NONE`` is added where None may be."""

_BLANK, _QUOTE, _COMMA, _MINUS, _DOT, _ZERO, _NINE = (ord(one) for one in ' ",-.09')
_BEGIN, _END, _ESCAPE, _COLON, _ASCII = ord("{"), ord("}"), ord("\\"), ord(":"), 128
_NULL, _TRUE, _FALSE = (np.frombuffer(one, np.uint8) for one in (b"null", b"true", b"false"))
_MOST_DIGITS = 15
"""So many digits are a float exactly."""
_POWERS = 10.0 ** np.arange(_MOST_DIGITS + 1)
Bytes = NDArray[np.uint8]


@inlined
def _is(data: Bytes, place: int, end: int, word: Bytes) -> bool:
    """Whether a word stands at a place."""
    if place + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110 - Numba knows no generators
        if data[place + i] != word[i]:
            return False
    return True


@inlined
def _after_blanks(data: Bytes, place: int, end: int) -> int:
    while place < end and data[place] == _BLANK:
        place += 1
    return place


@inlined
def _after_text(data: Bytes, place: int, end: int) -> int:
    """The place behind a text that begins here; -1 if it has to be looked at more closely."""
    if place >= end or data[place] != _QUOTE:
        return -1
    place += 1
    while place < end and data[place] != _QUOTE:
        if data[place] < _BLANK or data[place] == _ESCAPE:
            return -1
        place += 1
    return place + 1 if place < end else -1


@inlined
def _number(data: Bytes, place: int, end: int, is_float: bool) -> tuple[int, int, int]:
    """The digits of a number without its sign, how many of them are behind the point, and the place behind it; -1 as
    the place for other numbers."""
    first, digits, behind = place, 0, 0
    while place < end and _ZERO <= data[place] <= _NINE and place - first <= _MOST_DIGITS:
        digits = digits * 10 + (data[place] - _ZERO)
        place += 1
    if place == first or (data[first] == _ZERO and place - first > 1):
        return 0, 0, -1
    if is_float and place < end and data[place] == _DOT:
        place += 1
        begin = place
        while place < end and _ZERO <= data[place] <= _NINE and place - first <= _MOST_DIGITS + 1:
            digits = digits * 10 + (data[place] - _ZERO)
            place += 1
        behind = place - begin
        if behind == 0 or place - first > _MOST_DIGITS + 1:
            return 0, 0, -1
    elif place - first > _MOST_DIGITS:
        return 0, 0, -1
    return digits, behind, place


@inlined
def _field(data: Bytes, place: int, end: int, names: Bytes, ends: IntArray, likely: int) -> int:
    """The number of the field whose name in quotes stands at a place; -1 for none."""
    for turn in range(len(ends) - 1):
        field = (likely + turn) % (len(ends) - 1)
        if _is(data, place, end, names[ends[field] : ends[field + 1]]):
            return field
    return -1


@inlined
def _value(
    data: Bytes,
    place: int,
    end: int,
    kind: int,
    field: int,
    row: int,
    whole: IntArray,
    floats: NDArray[np.float64],
    present: BoolArray,
) -> int:
    """Read a value; the place behind it, or -1 if it has to be looked at more closely."""
    if kind >= OR_NONE:
        if _is(data, place, end, _NULL):
            present[field, row] = False
            return place + len(_NULL)
        kind -= OR_NONE
    if kind == TEXT:
        return _after_text(data, place, end)
    if kind == TRUTH:
        if _is(data, place, end, _TRUE):
            return place + len(_TRUE)
        return place + len(_FALSE) if _is(data, place, end, _FALSE) else -1
    is_negative = place < end and data[place] == _MINUS
    digits, behind, place = _number(data, place + 1 if is_negative else place, end, kind == FLOAT)
    if is_negative and digits == 0:
        return -1
    number = -digits if is_negative else digits
    if place >= 0 and kind == FLOAT:
        floats[field, row] = number / _POWERS[behind]
    elif place >= 0:
        whole[field, row] = number
    return place


_ROOM = np.zeros((1, 1), np.int64)


@compiled(
    np.frombuffer(b"{}", np.uint8),
    np.zeros(1, np.int64),
    np.zeros(1, np.int64),
    np.frombuffer(b'""', np.uint8),
    np.zeros(2, np.int64),
    np.zeros(1, np.int64),
    _ROOM,
    np.zeros((1, 1)),
    np.zeros((1, 1), np.bool_),
)
def scan(
    data: Bytes,
    start: IntArray,
    length: IntArray,
    names: Bytes,
    ends: IntArray,
    kinds: IntArray,
    whole: IntArray,
    floats: NDArray[np.float64],
    present: BoolArray,
) -> bool:
    """Read all objects; False if one of them has to be looked at more closely.

    Args:
        start, length: of each object in the bytes.
        names: those of the fields, in quotes, one behind the other; ``ends`` has where each begins, and the end.
        kinds: those of the fields.
        whole, floats, present: room for each field of each object.
    """
    count = len(kinds)
    for row in range(len(start)):
        place, end = start[row], start[row] + length[row]
        if place >= end or data[place] != _BEGIN:
            return False
        place += 1
        seen = 0
        for turn in range(count):
            place = _after_blanks(data, place, end)
            field = _field(data, place, end, names, ends, turn)
            if field < 0 or seen >> field & 1:
                return False
            seen |= 1 << field
            place += ends[field + 1] - ends[field]
            if place >= end or data[place] != _COLON:
                return False
            place = _after_blanks(data, place + 1, end)
            place = _value(data, place, end, kinds[field], field, row, whole, floats, present)
            if place < 0 or place >= end or data[place] != (_END if turn == count - 1 else _COMMA):
                return False
            place += 1
        if place != end:
            return False
    return True
