"""Which aggregate each put into sliding windows begins with, and which puts follow each other in one stretch.

The aggregates after puts are a tree: a put continues the aggregate of its window, or a new window begins with the
aggregate of another window. Of the puts after one, that with the most puts behind it is in the same stretch. So the
longest row of stretches that wait for each other is as long as the logarithm of the number of puts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.columns.compiled import compiled, constant
from penstock.ops.windows.sliding.rules import BEGIN, COPY, GO_ON, NONE, PUT

_NUMBERS, _FLAGS = np.zeros(1, np.int64), np.zeros(1, np.bool_)


@compiled(np.zeros(1, PUT), _NUMBERS, _NUMBERS, _NUMBERS, constant(0))
def follow(puts: Any, current: IntArray, before: IntArray, after: IntArray, stored: int) -> None:
    """Find the aggregates before and after each put: numbers of stored windows and, behind these, of puts; -1 for none.

    Args:
        current: the aggregate of each window, the last place for windows that the store does not take.
        before, after: room for what is found.
        stored: the number of stored windows.
    """
    for j in range(len(puts)):
        put = puts[j]
        if put.kind == COPY:  # of a window as it was before the record
            before[j] = before[put.source] if put.source >= 0 else current[-1 - put.source]
            after[j] = before[j]
        else:
            before[j] = NONE
            if put.kind == GO_ON:
                before[j] = current[put.source]
            elif put.kind != BEGIN:
                before[j] = current[put.window]
            after[j] = stored + j
        current[put.window] = after[j]


@compiled(_NUMBERS, _FLAGS, constant(0), _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _FLAGS)
def stretch(
    before: IntArray,
    adds: BoolArray,
    stored: int,
    size: IntArray,
    next_: IntArray,
    number: IntArray,
    waits: IntArray,
    is_asked: BoolArray,
) -> None:
    """Find the stretch of each put, how many others it waits for, and the puts after which others begin.

    Args:
        adds: the puts that add a record.
        size: room, ones.
        next_: room, -1.
    """
    for j in range(len(before) - 1, -1, -1):
        if adds[j] and before[j] >= stored:
            size[before[j] - stored] += size[j]
    for j in range(len(before)):
        if adds[j] and before[j] >= stored:
            parent = before[j] - stored
            if next_[parent] == NONE or size[j] > size[next_[parent]]:
                next_[parent] = j
    for j in range(len(before)):
        number[j] = j
        if adds[j] and before[j] >= stored:
            parent = before[j] - stored
            if next_[parent] == j:
                number[j], waits[j] = number[parent], waits[parent]
            else:
                waits[j] = waits[parent] + 1
                is_asked[parent] = True
