"""Delta files carry the changes of several stores and give them back."""

import io

import numpy as np
import pyarrow as pa
import pytest

from penstock.state.delta import read_delta, write_delta
from penstock.state.transactional import ChangeSet
from support.rows import as_tuples, keys_of, values_of


def round_trip(*changes: tuple[str, ChangeSet]) -> list[tuple[str, ChangeSet]]:
    file = io.BytesIO()
    write_delta(file, changes)
    return list(read_delta(pa.py_buffer(file.getvalue()), "delta"))


def test_changes_of_key_value_and_window_stores_come_back_in_order():
    first = ChangeSet(keys_of([b"", b"a", b"gone"]), values_of([(b"1", 10), (b"", -1), (None, 12)]))
    second = ChangeSet(keys_of([b"a", b"a"], [0, 2**62]), values_of([(b"x" * 100_000, 1), (None, 2)]))
    back = round_trip(("counts", first), ("Fenster ä/b", second), ("counts-2", first))
    assert [name for name, _ in back] == ["counts", "Fenster ä/b", "counts-2"]
    (_, plain), (_, windowed), _ = back
    assert (plain.keys.data.to_pylist(), plain.keys.times) == ([b"", b"a", b"gone"], None)
    assert as_tuples(plain.values) == [(b"1", 10), (b"", -1), None]
    assert windowed.keys.times.tolist() == [0, 2**62]
    assert as_tuples(windowed.values) == [(b"x" * 100_000, 1), None]


def test_slices_are_written_as_what_they_show():
    changes = ChangeSet(keys_of([b"a", b"b", b"c"]), values_of([(b"1", 1), (b"2", 2), (b"3", 3)]))
    values = changes.values.with_columns(data=changes.values.data.slice(1), timestamps=changes.values.timestamps[1:])
    [(_, back)] = round_trip(("s", ChangeSet(changes.keys.take(np.array([1, 2])), values)))
    assert (back.keys.data.to_pylist(), as_tuples(back.values)) == ([b"b", b"c"], [(b"2", 2), (b"3", 3)])


def test_many_changes_come_back_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.state.delta._AT_ONCE", 2)
    changes = ChangeSet(keys_of([b"a", b"b", b"c"]), values_of([(b"1", 1), (None, 2), (b"3", 3)]))
    back = round_trip(("s", changes), ("t", changes))
    assert [(name, piece.keys.data.to_pylist(), as_tuples(piece.values)) for name, piece in back] == [
        ("s", [b"a", b"b"], [(b"1", 1), None]),
        ("s", [b"c"], [(b"3", 3)]),
        ("t", [b"a", b"b"], [(b"1", 1), None]),
        ("t", [b"c"], [(b"3", 3)]),
    ]


def test_a_delta_of_nothing_holds_nothing():
    assert round_trip() == []
