"""Finds records that a task has read by their positions: where they came from, and what caused them."""

from __future__ import annotations

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.columns.batch import pairs_of
from penstock.log.records import Records
from penstock.ops.core.failures import Origin


class Piece:
    """Records that were read, with their positions. A run of positions is stored as its ends."""

    def __init__(self, topic: str, partition: int, positions: IntArray, records: Records, first_cause: int):
        self.first_cause = first_cause
        self.topic = topic
        self.partition = partition
        self.first = int(positions[0])
        self.last = int(positions[-1])
        self.records = records
        self._positions = None if (np.diff(positions) == 1).all() else positions

    def row(self, position: int) -> int | None:
        if self._positions is None:
            return position - self.first
        row = int(np.searchsorted(self._positions, position))
        return row if row < len(self._positions) and self._positions[row] == position else None

    def rows(self, positions: IntArray) -> tuple[IntArray, BoolArray]:
        """Return the rows of the positions that are in this piece, and a mask of these positions."""
        if self._positions is None:
            return positions - self.first, np.ones(len(positions), np.bool_)
        rows = np.minimum(np.searchsorted(self._positions, positions), len(self._positions) - 1)
        found = self._positions[rows] == positions
        return rows[found], found

    def origin(self, row: int) -> Origin:
        key, value = self.records.key[row].as_py(), self.records.value[row].as_py()
        timestamp = int(self.records.timestamp[row])
        offset = int(self.records.offsets[row])
        headers = self.records.headers
        own = () if headers is None else pairs_of(headers[row].as_py())
        return Origin(self.topic, self.partition, offset, key, value, timestamp, own)


def causes_of(records: Records, rows: IntArray, first: int) -> IntArray:
    """Return the causes of some records. Records of a log topic are their own cause."""
    return first + records.offsets[rows] if records.cause is None else records.cause[rows]
