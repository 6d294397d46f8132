"""What travels between the tables of a foreign-key join, as changes of which both values are used.

A *subscription* goes to the right table's key. Its value is the left value with its number; in place of the value
before stands what to do, and the left table's key. A *response* goes back to the left table's key. Its value is the
right value; in place of the value before stands the left value with its number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, first_numbers, fixed_binary, spans, without_first
from penstock.ops.left_changes import missing

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

SUPERSEDED = -4
"""In place of its number, for a change that the same record replaces by another one: its response comes too late."""
_OVERTAKES, _IS_NULL, _STEP = 1, 2, 4


def numbers_of(serial: IntArray, overtakes: BoolArray | bool) -> IntArray:
    """The numbers of left values, which grow with every change, and say whether it may overtake one of the same key."""
    return _STEP * serial + np.where(overtakes, _OVERTAKES, 0)


def overtaking(number: IntArray) -> BoolArray:
    """Whether they are numbers of changes that may overtake others."""
    flags: BoolArray = number & _OVERTAKES != 0
    return flags


def numbered(number: IntArray, left: Binary) -> Binary:
    """Left values with their numbers."""
    number = number | np.where(missing(left), _IS_NULL, 0)
    return pc.binary_join_element_wise(fixed_binary(number.astype(">i8")), left.fill_null(b""), b"")


def parts_of(data: Binary) -> tuple[IntArray, Binary]:
    """The reverse of ``numbered``.

    >>> values = numbered(numbers_of(np.array([7, 8]), False), pa.array([b"row", None], pa.binary()))
    >>> [part.tolist() for part in parts_of(values)]
    [[28, 34], [b'row', None]]
    """
    number, left = first_numbers(data), without_first(data, 8)
    is_null = number & _IS_NULL != 0
    return number, pc.if_else(pa.array(~is_null), left, pa.scalar(None, pa.binary())) if is_null.any() else left


def instructed(instruction: IntArray, key: Binary) -> Binary:
    """What to do, for which left keys."""
    return pc.binary_join_element_wise(fixed_binary(instruction.astype(np.uint8).reshape(-1, 1)), key, b"")


def instructions_of(data: Binary) -> tuple[IntArray, Binary]:
    """The reverse of ``instructed``.

    >>> [part.tolist() for part in instructions_of(instructed(np.array([RESPOND]), pa.array([b"key"], pa.binary())))]
    [[2], [b'key']]
    """
    where = spans(data)
    return where.data[where.start].astype(np.int64), without_first(data, 1)
