"""An index of rows by group, found by the hash of the group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import HashArray, IntArray


class _HashRun(NamedTuple):
    """Rows sorted by their hashes."""

    hashes: HashArray
    rows: IntArray


class GroupIndex:
    """Finds all rows of some groups.

    Rows are kept in a few sorted runs. New rows form a new run, and runs of similar size are merged, so that adding a
    row and finding a group both take logarithmic time.

    >>> index = GroupIndex()
    >>> index.add(np.array([7, 9, 7], np.uint64), np.array([0, 1, 2]))
    >>> [column.tolist() for column in index.rows_of(np.array([9, 8, 7], np.uint64))]
    [[0, 2, 2], [1, 0, 2]]
    """

    def __init__(self) -> None:
        self._runs: list[_HashRun] = []

    @property
    def nbytes(self) -> int:
        return sum(2 * run.rows.nbytes for run in self._runs)

    def add(self, hashes: HashArray, rows: IntArray) -> None:
        """Add rows that are not in the index yet."""
        if not len(rows):
            return
        self._runs.append(_sorted_run(hashes, rows))
        while len(self._runs) > 1 and len(self._runs[-2].rows) < 2 * len(self._runs[-1].rows):
            last, before = self._runs.pop(), self._runs.pop()
            hashes, rows = np.concatenate([before.hashes, last.hashes]), np.concatenate([before.rows, last.rows])
            self._runs.append(_sorted_run(hashes, rows))

    def rows_of(self, hashes: HashArray) -> tuple[IntArray, IntArray]:
        """Find the rows of these hashes: the index of each row's hash, and the row; sorted by hash within each run."""
        asked, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for run in self._runs:
            begin = np.searchsorted(run.hashes, hashes)
            counts = np.searchsorted(run.hashes, hashes, "right") - begin
            which = np.repeat(np.arange(len(hashes)), counts)
            within = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
            asked.append(which)
            found.append(run.rows[begin[which] + within])
        return np.concatenate(asked), np.concatenate(found)


def _sorted_run(hashes: HashArray, rows: IntArray) -> _HashRun:
    order = np.argsort(hashes, kind="stable")
    return _HashRun(hashes[order], rows[order])
