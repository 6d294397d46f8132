"""What a step with windows does with each record, for those who watch it: ``driver.timeline`` and ``penstock why``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.batch import Batch

TAKEN, CLOSED, GONE, DUPLICATE = 0, 1, 2, 3
"""The fates of a record in a window: the record changes the window's result; the window has closed; the window, a
session, is joined to another one that takes its place; the record's id went on before."""


class Seen(NamedTuple):
    """What a step did with a batch of records: a row for each record and window."""

    step: str
    batch: Batch
    times: IntArray
    """The step's stream time at each record of the batch, that record included."""
    row: IntArray
    """The record's row in the batch."""
    start: IntArray
    """Of the window; a step without windows has the record's time here."""
    end: IntArray
    fate: IntArray


def by_fate(*fates: tuple[int, IntArray, IntArray, IntArray]) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Rows, starts, ends and fates of a ``Seen``, from rows, starts and ends for each fate."""
    rows, starts, ends = (np.concatenate([fate[column] for fate in fates]) for column in (1, 2, 3))
    return rows, starts, ends, np.repeat([fate[0] for fate in fates], [len(fate[1]) for fate in fates])
