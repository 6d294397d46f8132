"""Rows held as columns: taken, cut, joined and chosen, whatever each column is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray, IntArray
from penstock.columns.column import Column, ValuesColumn
from penstock.columns.rows import Rows, if_absent, joined, joined_column
from penstock.serdes import STR


@dataclass(frozen=True, slots=True)
class Inner(Rows):
    numbers: IntArray
    texts: Any


@dataclass(frozen=True, slots=True)
class Outer(Rows):
    inner: Inner
    column: Column
    scale: int = 1
    marks: BoolArray | None = field(default=None, metadata=if_absent(lambda count: np.zeros(count, np.bool_)))
    notes: IntArray | None = None


@dataclass(frozen=True, slots=True)
class Wider(Outer):
    extra: IntArray | None = field(default=None, metadata=if_absent(lambda count: np.full(count, -1)))


def outer(*names: str, cls: type[Outer] = Outer, **columns: Any) -> Outer:
    inner = Inner(np.arange(len(names)), pa.array([name.upper() for name in names]))
    return cls(inner, ValuesColumn(list(names), STR), **columns)


def shown(rows: Outer) -> list[tuple[int, str, str]]:
    inner = rows.inner
    return list(zip(inner.numbers.tolist(), inner.texts.to_pylist(), rows.column.decoded(), strict=True))


def test_rows_are_taken_kept_and_cut_with_all_their_columns():
    rows = outer("a", "b", "c", scale=5, marks=np.array([True, False, True]))
    taken, kept, cut = rows.take(np.array([2, 0])), rows.keep(np.array([False, True, True])), rows.slice(1, 9)
    assert (shown(taken), taken.marks.tolist(), taken.scale) == ([(2, "C", "c"), (0, "A", "a")], [True, True], 5)
    assert shown(kept) == shown(cut) == [(1, "B", "b"), (2, "C", "c")]
    assert (taken.notes, len(rows), len(cut), len(rows.slice(7, 9))) == (None, 3, 2, 0)


def test_all_rows_in_order_are_the_rows_themselves():
    rows = outer("a", "b")
    assert rows.take(np.array([0, 1])) is rows.keep(np.array([True, True])) is rows.slice(0, 2) is rows
    assert rows.join() is rows


def test_joined_rows_have_what_some_lack_and_what_all_agree_about():
    one = outer("a", scale=5, marks=np.array([True]), notes=np.array([7]))
    both, alike = one.join(outer("b", scale=6)), one.join(outer("b", scale=5))
    assert (shown(both), both.marks.tolist()) == ([(0, "A", "a"), (0, "B", "b")], [True, False])
    assert (both.notes, both.scale, alike.scale) == (None, 1, 5)


def test_rows_of_several_classes_are_joined_as_one_of_them():
    wider = outer("b", cls=Wider, extra=np.array([4]))
    assert joined(Wider, [outer("a"), wider]).extra.tolist() == [-1, 4]
    assert type(joined(Outer, [wider])) is Outer
    assert joined_column("column", [outer("a"), wider]).decoded() == ["a", "b"]


def test_rows_are_chosen_among_two_and_get_other_columns():
    one, other = Inner(np.arange(2), pa.array(["a", "b"])), Inner(np.arange(2) + 5, pa.array(["c", None]))
    chosen = one.where(np.array([False, True]), other)
    assert (chosen.numbers.tolist(), chosen.texts.to_pylist()) == ([5, 1], ["c", "b"])
    assert one.with_columns(numbers=np.array([8, 9])).numbers.tolist() == [8, 9]
