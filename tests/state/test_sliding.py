"""The store of sliding windows: windows that begin close together share a row, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.state.columns.packed import Entries
from penstock.state.columns.rows import Keys
from penstock.state.database import Database
from penstock.state.kinds.sliding import SlidingStore


def binary(*items: bytes) -> pa.Array:
    return pa.array(items, pa.binary())


def filled() -> SlidingStore:
    """Windows of ``a`` that begin at 1 and at 3, and one of ``b`` that begins at 3; slots are 10 ms wide."""
    store = SlidingStore("s", retention=1000, slot=10)
    store.advance(20)
    loaded = store.load_range(Keys(binary(b"a", b"b")), np.array([0, 0]), np.array([5, 5]))
    new = Entries(np.array([0, 0, 1]), np.array([1, 3, 3]), np.array([7, 8, 9]), binary(b"a1", b"a3", b"b3"))
    store.write(loaded, np.zeros(0, np.bool_), new)
    store.commit()
    return store


def looked_up(store: SlidingStore) -> list[tuple[bytes | None, int]]:
    keys = Keys(binary(b"a", b"a", b"b", b"a", b"b", b"c"), np.array([3, 1, 3, 2, 1, 3]))
    found = store.look_up(keys)
    return list(zip(found.data.to_pylist(), found.timestamps.tolist(), strict=True))


FOUND = [(b"a3", 8), (b"a1", 7), (b"b3", 9), (None, -1), (None, -1), (None, -1)]


def test_windows_are_looked_up_by_key_and_start():
    assert looked_up(filled()) == FOUND
    assert looked_up(SlidingStore("s", retention=1000, slot=10)) == [(None, -1)] * 6


@pytest.mark.kip("892-13")
def test_windows_of_one_row_that_are_looked_up_on_disk_stay_one_row(tmp_path: Path):
    store, database = filled(), Database(tmp_path / "db")
    database.write({name: piece.dirty_rows() for name, piece in store.families().items()}, {})
    store.flushed(database)
    store.evict(everything=True)
    assert looked_up(store) == FOUND
    assert list(store.rows()) == [(b"a", 1, b"a1", 7), (b"a", 3, b"a3", 8), (b"b", 3, b"b3", 9)]
    database.close()
