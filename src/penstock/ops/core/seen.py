"""The decisions of a windowed step about each record, for ``driver.timeline`` and ``penstock why``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import Batch

TAKEN, CLOSED, GONE, DUPLICATE = 0, 1, 2, 3
"""The fates of a record in a window: it changes the window's result; the window has closed; the window is a session
that was merged into another; the record's id has been emitted already."""


class Seen(NamedTuple):
    """The decisions of a step about a batch: one row for each record and window."""

    step: str
    batch: Batch
    times: IntArray
    """The step's stream time at each record of the batch, including that record."""
    row: IntArray
    """The record's row in the batch."""
    start: IntArray
    """The window's start; the record's time for a step without windows."""
    end: IntArray
    fate: IntArray


def by_fate(*fates: tuple[int, IntArray, IntArray, IntArray]) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Build the row, start, end and fate columns of a ``Seen`` from rows, starts and ends by fate."""
    rows, starts, ends = (np.concatenate([fate[column] for fate in fates]) for column in (1, 2, 3))
    return rows, starts, ends, np.repeat([fate[0] for fate in fates], [len(fate[1]) for fate in fates])
