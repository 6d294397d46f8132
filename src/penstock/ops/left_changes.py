"""What a chunk changes in the left table of a foreign-key join: to know which changes one record replaces by others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, concat, null_mask
from penstock.ops.groups import Groups, group_keys


class LeftChanges(NamedTuple):
    """What a chunk changes in the left table, in processing order."""

    key: Binary
    value: Binary
    position: IntArray

    def superseded(self) -> BoolArray:
        """Which changes the same record replaces by another value."""
        if (self.position[1:] > self.position[:-1]).all():
            return np.zeros(len(self.key), np.bool_)
        groups = self._groups(self.key, self.position)
        last = groups.unsort(groups.last_rows[groups.group])
        return _differ(self.value, self.value.take(pa.array(last)))

    def replace(self, key: Binary, value: Binary, position: IntArray) -> BoolArray:
        """Which rows were other values before, of all that records at these positions found."""
        groups = self._groups(concat([self.key, key]), np.concatenate([self.position, position]))
        own = np.where(groups.order < len(self.key), groups.order, -1)
        last = groups.unsort(np.maximum.reduceat(own, groups.starts)[groups.group])[len(self.key) :]
        changed: BoolArray = last >= 0
        changed[changed] = _differ(value.filter(pa.array(changed)), self.value.take(pa.array(last[changed])))
        return changed

    @staticmethod
    def _groups(key: Binary, position: IntArray) -> Groups:
        """Rows of one key and one record."""
        records, record = np.unique(position, return_inverse=True)
        return Groups.by_number(group_keys(key)[1] * len(records) + record)


def _differ(one: Binary, other: Binary) -> BoolArray:
    same: BoolArray = pc.equal(one, other).fill_null(False).to_numpy(zero_copy_only=False)
    same |= missing(one) & missing(other)
    return ~same


def missing(data: Binary) -> BoolArray:
    """Which of them are null."""
    mask = null_mask(data)
    return np.zeros(len(data), np.bool_) if mask is None else mask
