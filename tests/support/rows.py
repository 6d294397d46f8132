"""Rows of state stores, written as plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from penstock.state.columns.rows import Keys, Values
from penstock.state.transactional import ChangeSet, TransactionalRows

Given = Mapping[bytes, tuple[bytes | None, int]]
"""Value and timestamp by key; None deletes."""


def binary(*items: bytes | None) -> pa.Array:
    """An Arrow array of bytes."""
    return pa.array(items, pa.binary())


def keys_of(names: Iterable[bytes], times: Iterable[int] | None = None) -> Keys:
    """Keys to look up, with times for window stores."""
    return Keys(binary(*names), None if times is None else np.array(list(times), np.int64))


def values_of(rows: Iterable[tuple[bytes | None, int]]) -> Values:
    """Values with their timestamps."""
    rows = list(rows)
    return Values(binary(*(value for value, _ in rows)), np.array([timestamp for _, timestamp in rows], np.int64))


def as_tuples(values: Values) -> list[tuple[bytes, int] | None]:
    """What a look-up found, None where it found nothing."""
    pairs = zip(values.data.to_pylist(), values.timestamps.tolist(), strict=True)
    return [None if value is None else (value, timestamp) for value, timestamp in pairs]


def put(store: TransactionalRows, rows: Given) -> None:
    """Write rows by key."""
    store.put(store.find(keys_of(rows)), values_of(rows.values()))


def get(store: TransactionalRows, *names: bytes) -> list[tuple[bytes, int] | None]:
    """Look keys up."""
    return as_tuples(store.get(store.find(keys_of(names))))


def changes_of(changes: ChangeSet) -> dict[bytes, tuple[bytes, int] | None]:
    """A change set by key; None where the key was deleted."""
    return dict(zip(changes.keys.data.to_pylist(), as_tuples(changes.values), strict=True))
