"""Rows in order of their keys: whatever came when, a range is what sorting would give."""

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from penstock.state.columns import ordered
from penstock.state.columns.ordered import OrderedRows

names = st.binary(max_size=3)


@pytest.fixture(autouse=True)
def _sorted_often(monkeypatch):
    monkeypatch.setattr(ordered, "_FEW", 3)


@given(
    keys=st.lists(names, unique=True, max_size=40),
    steps=st.lists(st.integers(0, 6), max_size=12),
    bounds=st.lists(st.tuples(st.none() | names, st.none() | names), min_size=1, max_size=3),
)
def test_a_range_is_in_order_whether_its_rows_came_early_or_late(keys, steps, bounds):
    count = 0
    rows = OrderedRows(keys.__getitem__, lambda: pa.array(keys[:count], pa.binary()))
    for step in steps:
        count = min(count + step, len(keys))
        rows.grow(count)
        for low, high in bounds:
            inside = [key for key in keys[:count] if (low is None or key >= low) and (high is None or key < high)]
            assert [keys[row] for row in rows.between(low, high)] == sorted(inside)


def test_new_rows_are_not_sorted_in_one_by_one_when_they_are_many():
    asked = []
    keys = [b"%03d" % number for number in range(500)]
    rows = OrderedRows(lambda row: asked.append(row) or keys[row], lambda: pa.array(keys, pa.binary()))
    rows.grow(500)
    assert rows.between(b"100", b"103").tolist() == [100, 101, 102]
    assert len(asked) < 40
