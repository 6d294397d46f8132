"""Joins of tables by their keys: each change of one side is joined with the other side's value."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.arrays import BoolArray
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import Column
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.joins.joiner import Joiner
from penstock.ops.tables.lookup import UNKNOWN, Found, Lookup
from penstock.ops.tables.table import StoredTable, TableWriter, row_numbers_of
from penstock.plan.nodes import INNER, LEFT, OUTER


class Needs(NamedTuple):
    """The values that a result requires."""

    own: bool
    """The value of the side that changed."""
    other: bool

    def swapped(self) -> Needs:
        """The requirements of the join, seen from the other side."""
        return Needs(self.other, self.own)


NEEDS = {INNER: Needs(own=True, other=True), LEFT: Needs(own=True, other=False), OUTER: Needs(own=False, other=False)}
"""The requirements of each kind of join, seen from its left side."""


class TableJoinSide(Operator):
    """Turns changes of one side of a join into changes of the result.

    Changes of a versioned table count only if they are the latest of their keys; others are dropped (KIP-914).
    """

    def __init__(
        self,
        node: str,
        context: Context,
        joiner: Joiner,
        other: Lookup,
        needs: Needs,
        sends_old: bool,
        is_versioned: bool,
    ):
        self._node = node
        self._context = context
        self._is_versioned = is_versioned
        self._joiner = joiner
        self._other = other
        self._needs = needs
        self._sends_old = sends_old

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        if batch.latest is not None and self._is_versioned:
            self._context.drop(self._node, batch.position[~batch.latest], "out-of-order")
            batch = batch.only_latest()
        found = self._other.find(batch)
        changes = found.batch
        assert isinstance(changes, Changes)
        if self._needs.other:
            matters = ~found.missing()
        else:
            matters = ~(found.missing() & _missing(changes, changes.value) & _missing(changes, changes.old))
        found = found.keep(matters)
        if len(found.batch):
            out.emit(self._joined(found))

    def _joined(self, found: Found) -> Changes:
        changes = found.batch
        assert isinstance(changes, Changes)
        new, fine = self._joiner.join_where(self._has_result(found, changes.value), changes, changes.value, found.value)
        old = None
        if self._sends_old and changes.old is not None:
            had_result = self._has_result(found, changes.old)
            old, _ = self._joiner.of_old_values().join_where(had_result, changes, changes.old, found.value)
            fine = np.ones(len(changes), np.bool_)  # failed rows are deleted: no old result later
        timestamp = np.maximum(changes.timestamp, found.timestamp)
        return replace(changes, value=new, old=old, timestamp=timestamp).keep(fine)

    def _has_result(self, found: Found, own: Column) -> BoolArray:
        """True for the changes that have a result, given the values of the own side."""
        absent = _missing(found.batch, own)
        return ~absent if self._needs.own else ~(absent & found.missing())


class TableJoinMerge(StoredTable):
    """The results of both sides of a join, as one table.

    Args:
        is_complete: True if one change may cause several results of a key; their old values then come from the store.
    """

    def __init__(self, store: TableWriter | None, sends_old: bool, is_complete: bool):
        super().__init__(store)
        self._sends_old = sends_old
        self._is_complete = is_complete

    def step(self, batch: Batch, out: Collector) -> None:
        assert isinstance(batch, Changes)
        if self._store is not None:
            out.emit(self._store.write(batch.as_stream(), old=None if self._is_complete else batch.old))
        else:
            out.emit(batch if self._sends_old else replace(batch, old=None))


class JoinLookup(Lookup):
    """Looks up values of a joined table that has no store."""

    def __init__(self, joiner: Joiner, left: Lookup, right: Lookup, needs: Needs):
        self._joiner = joiner
        self._left = left
        self._right = right
        self._needs = needs

    def find(self, batch: Batch) -> Found:
        numbered = replace(batch, order=(*batch.order, np.arange(len(batch))))
        left = self._left.find(numbered)
        right = self._right.find(left.batch)
        left = left.keep(np.isin(row_numbers_of(left.batch), row_numbers_of(right.batch)))
        none_left, none_right = left.missing(), right.missing()
        nothing = none_left & none_right
        if self._needs.own:
            nothing |= none_left
        if self._needs.other:
            nothing |= none_right
        value, fine = self._joiner.join_where(~nothing, right.batch, left.value, right.value)
        absent = nothing | _missing(right.batch, value)
        timestamp = np.where(absent, UNKNOWN, np.maximum(left.timestamp, right.timestamp))
        kept = replace(right.batch, order=right.batch.order[:-1])
        return Found(kept, value, timestamp).keep(fine)


def _missing(batch: Batch, column: Column | None) -> BoolArray:
    """True where a value is null; True everywhere if there is no column."""
    if column is None:
        return np.ones(len(batch), np.bool_)
    mask = column.null_mask()
    return np.zeros(len(batch), np.bool_) if mask is None else mask
