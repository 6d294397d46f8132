"""Reads the fields of plain JSON objects straight from their bytes, as machine code.

Only what everybody reads the same is read here. A record with anything else is left to ``msgspec``: nested values,
escapes in names, escapes like ``\\u0061``, exponents, fields that come twice, whatever is no JSON.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import BoolArray, IntArray
from penstock.columns.compiled import compiled, inlined

TEXT, WHOLE, FLOAT, TRUTH, OR_NONE, OR_ABSENT, OR_DEFAULT = 0, 1, 2, 3, 4, 8, 16
"""Kinds of fields; ``OR_NONE`` is added where None may be, ``OR_ABSENT`` where the field may be missing, for None, and
``OR_DEFAULT`` where it may be missing for another value."""
ABSENT = -(2**31)
"""In place of an extent: the field is missing, for another value than None."""

_BLANK, _QUOTE, _COMMA, _MINUS, _DOT, _ZERO, _NINE = (ord(one) for one in ' ",-.09')
_BEGIN, _END, _ESCAPE, _COLON = (ord(one) for one in "{}\\:")
_NULL, _TRUE, _FALSE = (np.frombuffer(one, np.uint8) for one in (b"null", b"true", b"false"))
_ESCAPED = np.frombuffer(b'"\\/bfnrt', np.uint8)
_EXACT_DIGITS = 15
"""So many digits are a float exactly."""
_MOST_DIGITS = 18
"""So many digits are in 64 bits."""
_LONGEST = 40
_POWERS = 10.0 ** np.arange(_EXACT_DIGITS + 1)
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
def _is_escape(letter: int) -> bool:
    for i in range(len(_ESCAPED)):  # noqa: SIM110 - Numba knows no generators
        if letter == _ESCAPED[i]:
            return True
    return False


@inlined
def _after_text(data: Bytes, place: int, end: int) -> tuple[int, bool]:
    """The place behind a text that begins here, and whether it has escapes; -1 if it has to be looked at more
    closely."""
    has_escapes = False
    if place >= end or data[place] != _QUOTE:
        return -1, False
    place += 1
    while place < end and data[place] != _QUOTE:
        if data[place] < _BLANK:
            return -1, False
        if data[place] == _ESCAPE:
            if place + 1 >= end or not _is_escape(data[place + 1]):
                return -1, False
            has_escapes = True
            place += 1
        place += 1
    return (place + 1 if place < end else -1), has_escapes


@inlined
def _after_digits(data: Bytes, place: int, end: int) -> int:
    while place < end and _ZERO <= data[place] <= _NINE:
        place += 1
    return place


@inlined
def _after_number(data: Bytes, place: int, end: int) -> int:
    """The place behind a number without an exponent; -1 for other ones."""
    begin = place
    if place < end and data[place] == _MINUS:
        place += 1
    first = place
    place = _after_digits(data, place, end)
    if place == first or (data[first] == _ZERO and place - first > 1):
        return -1
    if place < end and data[place] == _DOT:
        after = _after_digits(data, place + 1, end)
        if after == place + 1:
            return -1
        place = after
    return place if place - begin <= _LONGEST else -1


@inlined
def _digits(data: Bytes, place: int, end: int) -> tuple[int, int, int]:
    """The digits from one place to another as a number, how many there are, and how many are behind the point."""
    number, count, behind, is_behind = 0, 0, 0, 0
    while place < end:
        if data[place] == _DOT:
            is_behind = 1
        elif data[place] != _MINUS:
            number = number * 10 + (data[place] - _ZERO)
            count += 1
            behind += is_behind
        place += 1
    return number, count, behind


@inlined
def _field(data: Bytes, place: int, end: int, names: Bytes, ends: IntArray, likely: int) -> int:
    """The number of the field whose name in quotes stands at a place; -1 for none."""
    for turn in range(len(ends) - 1):
        field = (likely + turn) % (len(ends) - 1)
        if _is(data, place, end, names[ends[field] : ends[field + 1]]):
            return field
    return -1


@inlined
def _number(
    data: Bytes,
    place: int,
    end: int,
    kind: int,
    field: int,
    row: int,
    whole: IntArray,
    floats: NDArray[np.float64],
    extent: NDArray[np.int32],
) -> int:
    """Read a number; the place behind it, or -1 if it has to be looked at more closely. Of a float with many digits its
    text is noted."""
    after = _after_number(data, place, end)
    if after < 0 or after - place > (_LONGEST if kind == FLOAT else _MOST_DIGITS):
        return -1
    is_negative = data[place] == _MINUS
    digits, count, behind = _digits(data, place, after) if after - place <= _MOST_DIGITS else (1, _LONGEST, 0)
    if kind == WHOLE:
        if behind or (is_negative and digits == 0):
            return -1
        whole[field, row] = -digits if is_negative else digits
    elif is_negative and digits == 0 and behind == 0:  # a whole number, which has no sign
        return -1
    elif count > _EXACT_DIGITS or (is_negative and digits == 0):
        whole[field, row] = place
        extent[field, row] = after - place
    else:
        number = digits / _POWERS[behind]
        floats[field, row] = -number if is_negative else number
    return after


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
    extent: NDArray[np.int32],
    present: BoolArray,
) -> int:
    """Read a value; the place behind it, or -1 if it has to be looked at more closely."""
    if kind & OR_NONE and _is(data, place, end, _NULL):
        present[field, row] = False
        return place + len(_NULL)
    kind = kind & TRUTH
    if kind == TEXT:
        after, has_escapes = _after_text(data, place, end)
        whole[field, row] = place + 1
        extent[field, row] = place + 1 - after if has_escapes else after - place - 2
        return after
    if kind == TRUTH:
        is_true = _is(data, place, end, _TRUE)
        whole[field, row] = is_true
        if is_true:
            return place + len(_TRUE)
        return place + len(_FALSE) if _is(data, place, end, _FALSE) else -1
    return _number(data, place, end, kind, field, row, whole, floats, extent)


@inlined
def _after_unknown(data: Bytes, place: int, end: int) -> int:
    """The place behind a value of a field that the type does not have; -1 if it has to be looked at more closely."""
    if place >= end:
        return -1
    if data[place] == _QUOTE:
        after, _ = _after_text(data, place, end)
        return after
    if _is(data, place, end, _NULL) or _is(data, place, end, _TRUE):
        return place + len(_NULL)
    if _is(data, place, end, _FALSE):
        return place + len(_FALSE)
    return _after_number(data, place, end)


@inlined
def _object(
    data: Bytes,
    place: int,
    end: int,
    names: Bytes,
    ends: IntArray,
    kinds: IntArray,
    row: int,
    whole: IntArray,
    floats: NDArray[np.float64],
    extent: NDArray[np.int32],
    present: BoolArray,
) -> bool:
    """Read one object; False if it has to be looked at more closely."""
    if place >= end or data[place] != _BEGIN:
        return False
    seen, known = 0, 0
    while place < end and data[place] != _END:
        place = _after_blanks(data, place + 1, end)
        field = _field(data, place, end, names, ends, known)
        if field >= 0:
            if seen >> field & 1:
                return False
            seen |= 1 << field
            known += 1
            place += ends[field + 1] - ends[field]
        else:
            place, has_escapes = _after_text(data, place, end)
            if has_escapes:
                return False
        if place < 0 or place >= end or data[place] != _COLON:
            return False
        place = _after_blanks(data, place + 1, end)
        if field >= 0:
            place = _value(data, place, end, kinds[field], field, row, whole, floats, extent, present)
        else:
            place = _after_unknown(data, place, end)
        if place < 0:
            return False
        place = _after_blanks(data, place, end)
        if place >= end or (data[place] != _COMMA and data[place] != _END):
            return False
    if place + 1 != end:
        return False
    for field in range(len(kinds)):
        if not seen >> field & 1:
            if kinds[field] & OR_DEFAULT:
                extent[field, row] = ABSENT
            elif kinds[field] & OR_ABSENT:
                present[field, row] = False
            else:
                return False
    return True


@compiled(
    np.frombuffer(b"{}", np.uint8),
    np.zeros(1, np.int64),
    np.zeros(1, np.int64),
    np.zeros(1, np.bool_),
    np.frombuffer(b'""', np.uint8),
    np.zeros(2, np.int64),
    np.zeros(1, np.int64),
    np.zeros((1, 1), np.int64),
    np.zeros((1, 1)),
    np.zeros((1, 1), np.int32),
    np.zeros((1, 1), np.bool_),
    np.zeros(1, np.bool_),
    0,
)
def scan(
    data: Bytes,
    start: IntArray,
    length: IntArray,
    there: BoolArray,
    names: Bytes,
    ends: IntArray,
    kinds: IntArray,
    whole: IntArray,
    floats: NDArray[np.float64],
    extent: NDArray[np.int32],
    present: BoolArray,
    fit: BoolArray,
    most: int,
) -> bool:
    """Read all objects and mark the odd ones, which ``msgspec`` reads; False if there are more than ``most`` of them.

    Args:
        start, length: of each object in the bytes.
        there: whether there is one; all fields of others are None.
        names: those of the fields, in quotes, one behind the other; ``ends`` has where each begins, and the end.
        kinds: those of the fields.
        whole, floats, extent, present: room for each field of each object. Of texts, ``whole`` has where they begin in
            the bytes and ``extent`` how long they are: less than 0 for texts with escapes. Floats of many digits are
            such texts, too.
        fit: false for odd objects.
    """
    unfit = 0
    for row in range(len(start)):
        if not there[row]:
            for field in range(len(kinds)):
                present[field, row] = False
        elif not _object(
            data, start[row], start[row] + length[row], names, ends, kinds, row, whole, floats, extent, present
        ):
            fit[row] = False
            unfit += 1
            if unfit > most:
                return False
    return True


@compiled(
    np.frombuffer(b"{}", np.uint8),
    np.zeros(1, np.int64),
    np.zeros(1, np.int32),
    np.zeros(1, np.uint8),
)
def gather(data: Bytes, start: IntArray, offsets: NDArray[np.int32], found: Bytes) -> None:
    """Copy texts from where they begin in the bytes to where they belong."""
    for row in range(len(start)):
        place = start[row]
        for i in range(offsets[row], offsets[row + 1]):
            found[i] = data[place]
            place += 1
