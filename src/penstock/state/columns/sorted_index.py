"""An index of rows by key and time that finds a key's next row after a given time.

Rows are kept in a few sorted runs. New rows form a new run, and runs of similar size are merged, so that adding a row
and finding one both take logarithmic time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray, HashArray, IntArray

FOREVER = 2**63 - 1
"""A time after all others."""


class _Run(NamedTuple):
    """Rows sorted by ``places``: the upper bits of the key's hash, then the time since ``base``."""

    places: HashArray
    hashes: HashArray
    times: IntArray
    rows: IntArray
    base: int
    bits: int


class SortedIndex:
    """Finds rows by the hash of their key and the next time after a given one.

    >>> index = SortedIndex()
    >>> index.add(np.array([7, 7, 9], np.uint64), np.array([10, 20, 15]), np.array([0, 1, 2]))
    >>> index.after(np.array([7, 7, 7, 9], np.uint64), np.array([5, 10, 20, 0])).tolist()
    [0, 1, -1, 2]
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    @property
    def nbytes(self) -> int:
        return sum(4 * run.rows.nbytes for run in self._runs)

    def add(self, hashes: HashArray, times: IntArray, rows: IntArray) -> None:
        """Add rows that are not in the index yet."""
        if not len(rows):
            return
        self._runs.append(_sorted_run(hashes, times, rows))
        while len(self._runs) > 1 and len(self._runs[-2].rows) < 2 * len(self._runs[-1].rows):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(
                _sorted_run(
                    np.concatenate([before.hashes, last.hashes]),
                    np.concatenate([before.times, last.times]),
                    np.concatenate([before.rows, last.rows]),
                )
            )

    def after(self, hashes: HashArray, times: IntArray) -> IntArray:
        """For each hash, the row with the lowest time after the given one, or -1."""
        found = np.full(len(hashes), -1, np.int64)
        ends = np.full(len(hashes), FOREVER, np.int64)
        for run in self._runs:
            place, there = _find(run, hashes, times)
            better = np.flatnonzero(there)
            better = better[run.times[place[better]] < ends[better]]
            found[better] = run.rows[place[better]]
            ends[better] = run.times[place[better]]
        return found

    def rows_of(self, hash_: int) -> IntArray:
        """All rows with a hash."""
        return np.concatenate([run.rows[run.hashes == np.uint64(hash_)] for run in self._runs])


def _sorted_run(hashes: HashArray, times: IntArray, rows: IntArray) -> _Run:
    base = int(times.min())
    bits = (int(times.max()) - base).bit_length()
    places = (hashes & _upper(bits)) | (times - base).astype(np.uint64)
    order = np.argsort(places, kind="stable")
    return _Run(places[order], hashes[order], times[order], rows[order], base, bits)


def _upper(bits: int) -> np.uint64:
    """A mask of all but the lowest bits."""
    return np.uint64(2**64 - 2**bits)


def _find(run: _Run, hashes: HashArray, times: IntArray) -> tuple[IntArray, BoolArray]:
    """For each hash, the place of its next row, and True if there is one."""
    size, upper = len(run.rows), _upper(run.bits)
    since = np.maximum(times - run.base + 1, 0)
    beyond = since >> run.bits > 0
    since[beyond] = 2**run.bits - 1
    wanted = hashes & upper
    place = np.searchsorted(run.places, wanted | since.astype(np.uint64)).astype(np.int64)
    asked = np.flatnonzero(~beyond)
    there = np.zeros(len(hashes), np.bool_)
    while asked.size:  # skip rows of other keys whose hashes begin alike; usually runs once
        at = place[asked]
        inside = at < size
        asked, at = asked[inside], at[inside]
        alike = run.places[at] & upper == wanted[asked]
        asked, at = asked[alike], at[alike]
        same = run.hashes[at] == hashes[asked]
        there[asked[same]] = True
        asked = asked[~same]
        place[asked] += 1
    return np.minimum(place, size - 1), there
