"""Puts the fields of JSON objects together, as machine code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import IntArray
from penstock.columns.compiled import compiled

_NEWLINE = ord("\n")
Bytes = NDArray[np.uint8]


@compiled(
    np.frombuffer(b"1\n", np.uint8),
    np.zeros(1, np.int64),
    np.zeros(1, np.int64),
    np.zeros((1, 1), np.int64),
    np.frombuffer(b"{}", np.uint8),
    np.zeros(1, np.int64),
    np.zeros(1, np.uint8),
    np.zeros(1, np.int32),
)
def join(
    data: Bytes,
    place: IntArray,
    text: IntArray,
    lengths: IntArray,
    constants: Bytes,
    ends: IntArray,
    found: Bytes,
    offsets: NDArray[np.int32],
) -> None:
    """Write an object for each row.

    Args:
        data: the values of all columns, column by column: texts one behind the other, or lines.
        place: where each column begins in ``data``. The function changes it.
        text: the row of ``lengths`` that has how long the texts of a column are; -1 for a column of lines.
        constants: the text before each field and behind the last one; ``ends`` has where each begins, and the end.
        found: room for all objects; ``offsets`` gets where each ends, and has 0 in front.
    """
    end = 0
    for row in range(len(offsets) - 1):
        for column in range(len(place)):
            for i in range(ends[column], ends[column + 1]):
                found[end] = constants[i]
                end += 1
            here = place[column]
            if text[column] < 0:
                while data[here] != _NEWLINE:
                    found[end] = data[here]
                    end += 1
                    here += 1
                place[column] = here + 1
            else:
                place[column] = here + lengths[text[column], row]
                for i in range(here, place[column]):
                    found[end] = data[i]
                    end += 1
        for i in range(ends[len(place)], ends[len(place) + 1]):
            found[end] = constants[i]
            end += 1
        offsets[row + 1] = end
