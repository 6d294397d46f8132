"""A versioned store that a user brings (KIP-889, KIP-914).

The user's store receives every version that is put, and is read to see what it lacks. The engine reads the versions
from its own copy, because the interface has no way to find all versions of a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import binary, is_missing, last_numbers, without_last
from penstock.state.columns.rows import Keys
from penstock.state.interface import RestoreCallback
from penstock.state.kinds.own.committing import Committing
from penstock.state.kinds.own.errors import told
from penstock.state.kinds.own.store import Copy, OwnStore
from penstock.state.kinds.own.supplied import supplied
from penstock.state.kinds.versioned.store import LATEST, VersionedStore
from penstock.state.shapes import VersionedBytesStore, VersionedKeyValueStore, VersionedRecord
from penstock.state.transactional import ChangeSet
from penstock.state.wrappers import InTransactions


class _Put(NamedTuple):
    """A version, as it is put; None is a deletion."""

    timestamp: int
    key: bytes
    value: bytes | None


class Versions(Committing):
    """A user's versioned store.

    Args:
        of: the engine's store, which knows all versions.
        store: the user's store, within its transactions.
        restore: receives restored versions in place of ``put``, if given: the value has its timestamp in front.
    """

    is_empty = True  # it cannot be asked

    def __init__(self, of: VersionedStore, store: InTransactions[Any], restore: RestoreCallback | None):
        self._of = of
        self._store = store
        self._restore = restore

    def write(self, changes: ChangeSet, restores: bool = False) -> None:
        """Put the versions of changed rows, by time, and delete what was deleted at the time of its put."""
        puts = sorted({*self._puts(changes)}, key=lambda put: (put.timestamp, put.key))
        for put in puts:
            self._put(put, restores)
        keys, values = changes
        assert keys.times is not None
        for row in np.flatnonzero((keys.times == LATEST) & is_missing(values.data)).tolist():
            key = keys.data[row].as_py()
            latest = self._get(key, None)
            if latest is not None:
                self._put(_Put(latest[0], key, None), restores)

    def _puts(self, changes: ChangeSet) -> Iterator[_Put]:
        keys, values = changes
        assert keys.times is not None
        rows = zip(
            keys.data.to_pylist(), keys.times.tolist(), values.data.to_pylist(), values.timestamps.tolist(), strict=True
        )
        for key, end, value, begin in rows:
            if value is None:
                continue  # what was the latest value is an older one now, or is gone
            if begin < 0:
                yield _Put(~begin, key, None)
            else:
                yield _Put(begin, key, value)
            if end != LATEST and self._of.get_one(key, end) is None:
                yield _Put(end, key, None)

    def _put(self, put: _Put, restores: bool) -> None:
        found = self._get(put.key, put.timestamp)
        if found != (None if put.value is None else (put.timestamp, put.value)):
            if restores and self._restore is not None:
                with told(self._store, "its restore callback"):
                    in_front = put.timestamp.to_bytes(8, "big", signed=True)
                    self._restore(put.key, None if put.value is None else in_front + put.value)
            else:
                with told(self._store, "put"):
                    self._store.transaction.put(put.key, put.value, put.timestamp)

    def _get(self, key: bytes, as_of: int | None) -> tuple[int, bytes] | None:
        """The time and the value of the latest version, or of the one at a time."""
        with told(self._store, "get"):
            get = self._store.transaction.get
            found = get(key) if as_of is None else get(key, as_of)
        if found is None:
            return None
        if isinstance(found, VersionedRecord):
            return found.timestamp, bytes(found.value)
        return int.from_bytes(found[:8], "big", signed=True), bytes(found[8:])

    def become(self, copy: Copy) -> None:
        """Put the versions of the copy that the store lacks, and commit them."""
        for changes in copy.changes():
            self.write(changes, restores=True)
            self.commit({})


class OwnVersionedStore(OwnStore, VersionedStore):
    """The versions of every key, in a user's store, too.

    Args:
        supplier: returns a new object of the user's class from each ``get()``.
        name: the store's name.
        arguments: those of the engine's store, behind its name.
    """

    copied_as = VersionedStore

    def __init__(self, supplier: Any, name: str, *arguments: Any):
        super().__init__(name, *arguments)
        kinds = (VersionedKeyValueStore, VersionedBytesStore)
        named = "penstock.VersionedKeyValueStore or penstock.VersionedBytesStore"
        self._own = InTransactions(supplied(supplier, name, kinds, named))

    def _medium_of(self, restore: RestoreCallback | None) -> Versions:
        return Versions(self, self._own, restore)

    def _keys_of(self, family: str, keys: list[bytes]) -> Keys:
        every = binary(keys)
        if family == self.name:
            return Keys(every, np.full(len(every), LATEST, np.int64))
        return Keys(without_last(every, 8), last_numbers(every))
