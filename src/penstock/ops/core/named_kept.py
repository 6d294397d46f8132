"""The stored aggregates by name of a chunk's groups, field by field."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from penstock.arrays import Binary, BoolArray, IntArray
from penstock.columns.part import Part
from penstock.columns.scanned import fields_of
from penstock.ops.core.named_columns import objects
from penstock.serdes.json import JsonSerde


class Kept:
    """Aggregates; None for a group that has none.

    Args:
        existed: the groups that have one.
        part: returns a field by its name, without a value where there is no aggregate.
    """

    def __init__(self, existed: BoolArray, part: Callable[[str], Part]):
        self.existed = existed
        self.part = part

    @classmethod
    def of_data(cls, data: Binary, serde: JsonSerde) -> Kept:
        """Return stored aggregates, read from their bytes as columns where they go so."""
        fields = fields_of(data, serde)
        if fields is None:
            return cls.of_values(serde.decode_all(data))
        return cls(data.is_valid().to_numpy(zero_copy_only=False), fields.part)

    @classmethod
    def of_values(cls, values: list[Any]) -> Kept:
        @cache
        def part(name: str) -> Part:
            return Part(objects([None if one is None else getattr(one, name) for one in values]))

        return cls(np.array([one is not None for one in values], np.bool_), part)

    def __len__(self) -> int:
        return len(self.existed)

    def take(self, groups: IntArray) -> Kept:
        """Return the aggregates of these groups."""
        return Kept(self.existed[groups], lambda name: self.part(name).take(groups))
