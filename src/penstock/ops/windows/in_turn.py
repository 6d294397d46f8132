"""Aggregates by name of windows that begin with aggregates of others, for whole columns of records.

Records that come to a window one after the other are a stretch, and all stretches are computed at once. A stretch that
begins with what another one has come to is computed after that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.columns.batch import Batch
from penstock.columns.fields import FieldsColumn
from penstock.columns.part import Part, joined
from penstock.ops.core.groups import Groups
from penstock.ops.core.named_fold import NamedColumns
from penstock.ops.core.named_kept import Kept
from penstock.ops.core.unfit import Unfit

Known = dict[int, Any]
"""Aggregates by number: the stored ones and, behind these, the ones after puts."""


@dataclass(frozen=True)
class Stretches:
    """The stretches of puts, each of which adds one record to a window."""

    number: IntArray
    """The stretch of each put."""
    waits: IntArray
    """For each put, how many stretches have to be computed before its own one, one after the other."""
    is_asked: BoolArray
    """The puts after which other stretches begin."""


def in_turn(
    columns: NamedColumns,
    stretches: Stretches,
    record: IntArray,
    batch: Batch,
    kept: list[Any],
    before: Callable[[int, Known], Any],
) -> list[Part]:
    """Return the fields after each put.

    Args:
        record: the record of each put.
        kept: the stored aggregates.
        before: returns what the stretch of a put begins with, or None, from the aggregates that are known by then.
    """
    if not len(record):
        raise Unfit
    done: list[tuple[IntArray, list[Part]]] = []
    known: Known = dict(enumerate(kept))
    for wait in range(int(stretches.waits.max()) + 1):
        rows = np.flatnonzero(stretches.waits == wait)
        groups = Groups.by_number(stretches.number[rows])
        first = rows[groups.order[groups.starts]]
        begin = [before(put, known) for put in first.tolist()]
        keys = partial(_keys_of, batch, record[rows])
        parts = columns.parts(groups, Kept.of_values(begin), keys, batch.value.take(record[rows]))
        puts = rows[groups.order]
        done.append((puts, parts))
        ends = np.flatnonzero(stretches.is_asked[puts])
        column = FieldsColumn(tuple(part.take(ends) for part in parts), columns.serde)
        known |= zip((puts[ends] + len(kept)).tolist(), column.decoded(), strict=True)
    return _assembled(done)


def _keys_of(batch: Batch, rows: IntArray) -> list[Any]:
    every = batch.key.decoded()
    return [every[row] for row in rows.tolist()]


def _assembled(done: list[tuple[IntArray, list[Part]]]) -> list[Part]:
    """Return fields in the order of the puts.

    Args:
        done: puts, and their fields.
    """
    place = np.argsort(np.concatenate([puts for puts, _ in done]))
    found = []
    for every in zip(*(parts for _, parts in done), strict=True):
        if len({part.values.dtype for part in every}) > 1:
            raise Unfit
        found.append(joined(list(every)).take(place))
    return found
