"""``pipe``: a few steps tried out on a few records."""

from __future__ import annotations

import pytest

from penstock import TimeWindows, Windowed
from penstock.errors import ProcessingError
from penstock.testing import pipe


def test_a_stream_comes_out_as_pairs():
    assert pipe(lambda stream: stream.filter(lambda key, value: value > 1), [("a", 1), ("b", 2)]) == [("b", 2)]


def test_of_a_table_its_changes_come_out():
    rows = [("a", 1), ("a", 2), ("b", 3), ("a", None)]
    assert pipe(lambda stream: stream.to_table(), rows) == rows


def test_a_record_without_a_timestamp_has_its_number():
    def count(stream):
        return stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(2)).count()

    assert pipe(count, [("a", "x"), ("a", "x"), ("a", "x")]) == [
        (Windowed("a", 0, 2), 1),
        (Windowed("a", 0, 2), 2),
        (Windowed("a", 2, 4), 1),
    ]
    assert pipe(count, [("a", "x", 100), ("a", "x", 101)]) == [
        (Windowed("a", 100, 102), 1),
        (Windowed("a", 100, 102), 2),
    ]


def test_keys_and_values_of_other_types():
    doubled = pipe(lambda s: s.map_values(lambda v: v * 2, value=float), [(1, 1.5)], key=int, value=float)
    assert doubled == [(1, 3.0)]


def test_a_function_that_raises_shows():
    with pytest.raises(ProcessingError, match="ZeroDivisionError"):
        pipe(lambda stream: stream.map_values(lambda value: 1 // value), [("a", 0)])
