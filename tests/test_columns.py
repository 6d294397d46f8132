"""Columns of every form give the same bytes, values and nulls, and keep them when rows are taken, hidden or joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Windowed
from penstock.columns.column import (
    BytesColumn,
    Column,
    NumberColumn,
    ValuesColumn,
    WindowedColumn,
    null_column,
    pick,
)
from penstock.columns.returned import from_arrow
from penstock.serdes import FLOAT, INT, JSON, STR, TimeWindowedSerde

HOURS = TimeWindowedSerde(STR, 10)

ints = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=8)


def number_column(values: list[int | None]) -> NumberColumn:
    """Numbers with a mask of those that are there."""
    numbers = np.array([0 if value is None else value for value in values], np.int64)
    return NumberColumn(numbers, INT, np.array([value is not None for value in values], np.bool_))


def forms(values: list[int | None]) -> list[Column]:
    """The same whole numbers in every form of a column."""
    data = INT.encode_all(values)
    looked_at = BytesColumn(data, INT)
    looked_at.decoded()
    written = ValuesColumn(values, INT)
    written.encoded()
    return [BytesColumn(data, INT), looked_at, ValuesColumn(values, INT), written, number_column(values)]


def check(column: Column, values: list[int | None]) -> None:
    """That a column is these values, whichever way it is looked at."""
    mask = column.null_mask()
    assert len(column) == len(values)
    assert ([False] * len(values) if mask is None else mask.tolist()) == [value is None for value in values]
    assert column.decoded() == values
    assert column.encoded().to_pylist() == INT.encode_all(values).to_pylist()
    assert column.arrow().to_pylist() == values
    assert column.routing().to_pylist() == INT.encode_all(values).to_pylist()


@given(ints)
def test_all_forms_show_the_same(values: list[int | None]):
    for column in forms(values):
        check(column, values)


@given(ints, st.data())
def test_rows_are_taken_in_any_order_and_again(values: list[int | None], data: st.DataObject):
    rows = data.draw(st.lists(st.sampled_from(range(len(values))), max_size=8)) if values else []
    for column in forms(values):
        check(column.take(np.array(rows, np.int64)), [values[row] for row in rows])


@given(ints, st.integers(0, 8), st.integers(0, 8))
def test_rows_that_follow_each_other_are_cut_out(values: list[int | None], start: int, length: int):
    start = min(start, len(values))
    stop = min(start + length, len(values))
    for column in forms(values):
        check(column.slice(start, stop), values[start:stop])
        check(column.slice(start, stop).take(np.arange(stop - start)[::-1]), values[start:stop][::-1])


@given(ints, st.data())
def test_rows_are_hidden(values: list[int | None], data: st.DataObject):
    keep = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    expected = [value if kept else None for value, kept in zip(values, keep, strict=True)]
    for column in forms(values):
        check(column.where(np.array(keep, np.bool_)), expected)


@given(st.lists(st.tuples(ints, st.integers(0, 4)), min_size=1, max_size=4))
def test_columns_of_any_forms_are_joined(parts: list[tuple[list[int | None], int]]):
    first, *others = [forms(values)[form] for values, form in parts]
    check(first.join(others), [value for values, _ in parts for value in values])


def test_a_number_column_without_a_mask_has_no_nulls():
    column = NumberColumn(np.array([1.5, -0.0]), FLOAT)
    joined = column.join([NumberColumn(np.array([2.0, 9.0]), FLOAT, np.array([True, False]))])
    assert (column.null_mask(), column.decoded()) == (None, [1.5, -0.0])
    assert joined.decoded() == [1.5, -0.0, 2.0, None]
    assert joined.encoded().to_pylist() == [FLOAT.encode(1.5), FLOAT.encode(-0.0), FLOAT.encode(2.0), None]


def test_nothing_is_decoded_before_somebody_looks_and_nothing_twice():
    column = BytesColumn(JSON.encode_all([{"a": 1}, None, {"b": 2}]), JSON)
    values = column.decoded()
    taken = column.take(np.array([2, 0]))
    assert column.decoded() is values
    assert (taken.decoded()[0] is values[2], taken.decoded()[1] is values[0]) == (True, True)
    broken = BytesColumn(pa.array([b"no JSON"], pa.binary()), JSON)
    assert broken.take(np.array([0, 0])).encoded().to_pylist() == [b"no JSON", b"no JSON"]


def test_windowed_keys_are_a_column_of_keys_and_their_windows():
    starts = np.array([0, 10, 20])
    column = WindowedColumn(ValuesColumn(["a", "b", "a"], STR), starts, starts + 10, HOURS)
    expected = [Windowed("a", 0, 10), Windowed("b", 10, 20), Windowed("a", 20, 30)]

    assert (column.decoded(), column.null_mask()) == (expected, None)
    assert column.encoded().to_pylist() == HOURS.encode_all(expected).to_pylist()
    assert BytesColumn(column.encoded(), HOURS).decoded() == expected
    assert column.slice(1, 3).decoded() == expected[1:]
    assert column.routing().to_pylist() == [b"a", b"b", b"a"]
    assert BytesColumn(column.encoded(), HOURS).routing().to_pylist() == [b"a", b"b", b"a"]
    for arrow in (column.arrow(), BytesColumn(column.encoded(), HOURS).arrow()):
        assert [part.to_pylist() for part in arrow] == [["a", "b", "a"], [0, 10, 20], [10, 20, 30]]
    taken = column.take(np.array([2, 0]))
    assert taken.decoded() == [expected[2], expected[0]]
    assert taken.join([column]).decoded() == [expected[2], expected[0], *expected]
    other_form = BytesColumn(HOURS.encode_all(expected), HOURS)
    assert column.join([other_form]).decoded() == [*expected, *expected]


@pytest.mark.parametrize(
    ("array", "serde", "form", "values"),
    [
        (pa.array([1, None, 3], pa.int32()), INT, NumberColumn, [1, None, 3]),
        (pa.array([1, 2], pa.int64()), FLOAT, NumberColumn, [1.0, 2.0]),
        (pa.array([0.5, None]), FLOAT, NumberColumn, [0.5, None]),
        (pa.chunked_array([[1], [2, None]]), INT, NumberColumn, [1, 2, None]),
        (pa.array(["a", None, "ä"]), STR, BytesColumn, ["a", None, "ä"]),
        (pa.array(["a"], pa.large_string()), STR, BytesColumn, ["a"]),
        (pa.array([b"a", None], pa.binary()), STR, BytesColumn, ["a", None]),
        (pa.array([b'{"a":1}'], pa.large_binary()), JSON, BytesColumn, [{"a": 1}]),
        (pa.array([{"a": 1}, None]), JSON, ValuesColumn, [{"a": 1}, None]),
        (pa.array([True, False]), JSON, ValuesColumn, [True, False]),
        (pa.array([1, None]), JSON, ValuesColumn, [1, None]),
    ],
)
def test_what_a_columnar_function_returns_is_a_column(array: Any, serde: Any, form: type[Column], values: list[Any]):
    column = from_arrow(array, serde)
    assert (type(column), column.decoded(), len(column)) == (form, values, len(values))
    assert column.encoded().to_pylist() == serde.encode_all(values).to_pylist()


def test_a_column_of_nulls_is_null_throughout():
    column = null_column(3)
    assert (len(column), column.decoded(), column.null_mask().tolist()) == (3, [None] * 3, [True] * 3)


@pytest.mark.parametrize("rows", [[], [1], [2, 0], [1, 1, 1]])
def test_values_are_picked_by_their_numbers(rows: list[int]):
    assert pick(["a", "b", "c"], np.array(rows, np.int64)) == ["abc"[row] for row in rows]
