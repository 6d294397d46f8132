"""What travels between the tables of a foreign-key join, as changes of which both values are used.

A *subscription* goes to the right table's key. Its value is the left value with its number; in place of the value
before stands what to do, and the left table's key. A *response* goes back to the left table's key. Its value is the
right value; in place of the value before stands the left value with its number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, first_numbers, fixed_binary, spans, without_first
from penstock.ops.foreign_key.left_changes import missing

DELETE = 0
"""Forget the subscription, and send nothing."""
DELETE_AND_RESPOND = 1
"""Forget the subscription, and send that there is nothing."""
RESPOND = 2
"""Subscribe, and send what there is, or that there is nothing."""
RESPOND_IF_FOUND = 3
"""Subscribe, and send what there is."""
FORGET = 4
"""If there is a subscription, leave it, but its row is another one now: responses to it come too late."""

SUPERSEDED = -1
"""In place of its serial number, for a change that the same record replaces: its response comes too late."""

_BITS, _IS_NULL, _OVERTAKES = 2, 1, 2
_MARK = 0x80


class Numbered(NamedTuple):
    """Left values, with what is known of the changes that made them."""

    serial: IntArray
    """Grows with every change of the left table."""
    left: Binary
    overtakes: BoolArray
    """Which responses may come before one to an earlier change of the same key."""


def numbered(serial: IntArray, left: Binary, overtakes: BoolArray | bool = False) -> Binary:
    """Left values with their serial numbers."""
    flags = np.where(missing(left), _IS_NULL, 0) | np.where(overtakes, _OVERTAKES, 0)
    number = (serial << _BITS) | flags
    return pc.binary_join_element_wise(fixed_binary(number.astype(">i8")), left.fill_null(b""), b"")


def parts_of(data: Binary) -> Numbered:
    """The reverse of ``numbered``.

    >>> found = parts_of(numbered(np.array([7, SUPERSEDED]), pa.array([b"row", None], pa.binary()), overtakes=True))
    >>> found.serial.tolist(), found.left.to_pylist(), found.overtakes.tolist()
    ([7, -1], [b'row', None], [True, True])
    """
    number, left = first_numbers(data), without_first(data, 8)
    is_null = number & _IS_NULL != 0
    if is_null.any():
        left = pc.if_else(pa.array(~is_null), left, pa.scalar(None, pa.binary()))
    return Numbered(number >> _BITS, left, number & _OVERTAKES != 0)


def instructed(instruction: IntArray, key: Binary, overtakes: BoolArray | bool) -> Binary:
    """What to do, for which left keys, and whether the responses may overtake others."""
    marked = instruction | np.where(overtakes, _MARK, 0)
    return pc.binary_join_element_wise(fixed_binary(marked.astype(np.uint8).reshape(-1, 1)), key, b"")


class Instructions(NamedTuple):
    """What subscriptions say, besides the left values."""

    instruction: IntArray
    key: Binary
    overtakes: BoolArray


def instructions_of(data: Binary) -> Instructions:
    """The reverse of ``instructed``.

    >>> said = instructions_of(instructed(np.array([RESPOND]), pa.array([b"key"], pa.binary()), overtakes=True))
    >>> said.instruction.tolist(), said.key.to_pylist(), said.overtakes.tolist()
    ([2], [b'key'], [True])
    """
    where = spans(data)
    marked = where.data[where.start].astype(np.int64)
    return Instructions(marked & ~_MARK, without_first(data, 1), marked & _MARK != 0)
