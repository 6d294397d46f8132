"""The changes that a chunk makes in the left table of a foreign-key join, to tell which of them the same record
replaces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, concat, is_missing, nulls
from penstock.ops.core.groups import Groups, group_keys


class LeftChanges(NamedTuple):
    """The changes of a chunk in the left table; changes of one record are in their order."""

    key: Binary
    value: Binary
    position: IntArray
    serial: IntArray
    """Grows with every change that is sent."""

    @classmethod
    def none(cls) -> LeftChanges:
        """No changes."""
        return cls(nulls(0), nulls(0), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def superseded(self) -> BoolArray:
        """True for each change that the same record replaces with another value."""
        if (self.position[1:] > self.position[:-1]).all():
            return np.zeros(len(self.key), np.bool_)
        groups = self._groups(self.key, self.position)
        last = groups.unsort(groups.last_rows[groups.group])
        return differ(self.value, self.value.take(pa.array(last)))

    def last(self, key: Binary, position: IntArray) -> IntArray:
        """For each row, the last change that the record at its position makes to its key; -1 for none."""
        if not len(key) or not len(self.key):
            return np.full(len(key), -1)
        groups = self._groups(concat([self.key, key]), np.concatenate([self.position, position]))
        own = np.where(groups.order < len(self.key), groups.order, -1)
        last: IntArray = groups.unsort(np.maximum.reduceat(own, groups.starts)[groups.group])[len(self.key) :]
        return last

    def followed_by(self, more: LeftChanges) -> LeftChanges:
        """These changes, followed by others."""
        return LeftChanges(
            concat([self.key, more.key]),
            concat([self.value, more.value]),
            np.concatenate([self.position, more.position]),
            np.concatenate([self.serial, more.serial]),
        )

    def of_last_record(self) -> LeftChanges:
        """The changes of the record with the highest position."""
        rows = np.flatnonzero(self.position == self.position.max(initial=-1))
        key, value = self.key.take(pa.array(rows)), self.value.take(pa.array(rows))
        return LeftChanges(key, value, self.position[rows], self.serial[rows])

    @staticmethod
    def _groups(key: Binary, position: IntArray) -> Groups:
        """Group the changes of one key by one record."""
        records, record = np.unique(position, return_inverse=True)
        return Groups.by_number(group_keys(key)[1] * len(records) + record)


def differ(one: Binary, other: Binary) -> BoolArray:
    """True where two values differ; null equals null."""
    same: BoolArray = pc.equal(one, other).fill_null(False).to_numpy(zero_copy_only=False)
    same |= is_missing(one) & is_missing(other)
    return ~same
