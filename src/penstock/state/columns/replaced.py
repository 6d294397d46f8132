"""The values that a transaction has replaced, so that rows can be read as they were when it began."""

from __future__ import annotations

import numpy as np

from penstock.arrays import BoolArray, IntArray

Remembered = tuple[IntArray, IntArray]
"""The result of ``RowTable.remember`` for some rows."""


class Replaced:
    """The contents of rows before they were first written in a transaction.

    >>> replaced = Replaced()
    >>> replaced.note(np.array([2]), (np.array([10]), np.array([5])))
    >>> replaced.note(np.array([2]), (np.array([11]), np.array([6])))
    >>> replaced.before(np.array([1, 2]), (np.array([7, 12]), np.array([4, 7])))
    (array([ 7, 10]), array([4, 5]))
    """

    def __init__(self) -> None:
        self._is_noted: BoolArray = np.zeros(0, np.bool_)
        self._noted = np.zeros((2, 0), np.int64)

    def note(self, rows: IntArray, remembered: Remembered) -> None:
        """Remember what distinct rows hold before they are written, unless that is remembered already."""
        if len(rows):
            self._make_room(int(rows.max()) + 1)
        fresh = ~self._is_noted[rows]
        self._noted[:, rows[fresh]] = np.stack(remembered)[:, fresh]
        self._is_noted[rows] = True

    def before(self, rows: IntArray, now: Remembered) -> Remembered:
        """The contents of rows before the transaction, given their present contents."""
        known = np.flatnonzero(rows < len(self._is_noted))
        known = known[self._is_noted[rows[known]]]
        entries, timestamps = now[0].copy(), now[1].copy()
        entries[known], timestamps[known] = self._noted[:, rows[known]]
        return entries, timestamps

    def clear(self) -> None:
        """Forget everything for the next transaction."""
        self._is_noted[:] = False

    def _make_room(self, count: int) -> None:
        if count > len(self._is_noted):
            more = count + count // 2 + 16 - len(self._is_noted)
            self._is_noted = np.concatenate([self._is_noted, np.zeros(more, np.bool_)])
            self._noted = np.concatenate([self._noted, np.zeros((2, more), np.int64)], axis=1)
