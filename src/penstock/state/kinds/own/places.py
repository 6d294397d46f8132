"""A user's store by time as the layer below the segments that the engine has in memory.

A row of the engine, a *place*, is a key and a number: a window's start, or a slot that holds all entries of the key in
a stretch of time. ``Places`` reads such a row from the user's store, and makes the store have it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.errors import StoreError
from penstock.state.interface import RestoreCallback
from penstock.state.kinds.own.committing import Committing
from penstock.state.kinds.own.errors import named, told
from penstock.state.kinds.own.store import AT_ONCE, Copy
from penstock.state.transactional import ChangeSet, pack_all
from penstock.state.wrappers import InTransactions

NO_TIMESTAMP = (-1).to_bytes(8, "big", signed=True)
_HOLDS = bytes | bytearray | memoryview


class Place(NamedTuple):
    """A row's key, and its number."""

    key: bytes
    number: int

    @property
    def physical(self) -> bytes:
        """Its form on disk."""
        return self.key + self.number.to_bytes(8, "big")


class Places(Committing):
    """The rows of a user's store by time.

    Args:
        store: the user's store, within its transactions.
        restore: receives restored rows in place of ``put``, if given.
    """

    def __init__(self, store: InTransactions[Any], restore: RestoreCallback | None = None):
        self._store = store
        self._restore = restore
        self.is_empty = not self.between(None, None, None, None)

    @abstractmethod
    def row(self, place: Place) -> bytes | None:
        """The engine's row of a place, as it is on disk."""

    @abstractmethod
    def bring(self, place: Place, row: bytes | None, restores: bool) -> None:
        """Make the user's store have a row, by writing what differs."""

    @abstractmethod
    def between(self, low: bytes | None, high: bytes | None, first: int | None, last: int | None) -> set[Place]:
        """The places of the user's store with ``low <= key <= high`` and ``first <= number <= last``; None is no
        bound."""

    # --- a medium ------------------------------------------------------------------------------------------------

    def write(self, changes: ChangeSet, restores: bool = False) -> None:
        for place, row in _rows(changes):
            self.bring(place, row, restores)

    def become(self, copy: Copy) -> None:
        there = {place.physical: place for place in self.between(None, None, None, None)}
        for key in copy.without(list(there)):
            self.bring(there[key], None, True)
        for changes in copy.changes():
            self.write(changes, restores=True)
            self.commit({})

    # --- calls of the user's class -------------------------------------------------------------------------------

    def _ask(self, method: str, *arguments: Any) -> Any:
        with told(self._store, method):
            return getattr(self._store.transaction, method)(*arguments)

    def _asked(self, method: str, *arguments: Any) -> list[Any]:
        with told(self._store, method):
            return list(getattr(self._store.transaction, method)(*arguments))

    def _bytes(self, value: Any, of: object) -> bytes:
        if not isinstance(value, _HOLDS):
            raise StoreError(
                f"{named(self._store)} gave {value!r} for {of!r}: values are bytes, as they were put, or None for no "
                "value. Committed data is safe"
            )
        return bytes(value)

    def _hand(self, restores: bool, restored: bytes, value: bytes | None, *arguments: Any) -> None:
        """Give one row to the user's class: to its restore callback, under its key of a changelog, or to ``put``."""
        if restores and self._restore is not None:
            with told(self._store, "its restore callback"):
                self._restore(restored, value)
        else:
            self._ask("put", *arguments)


def _rows(changes: ChangeSet) -> Iterator[tuple[Place, bytes | None]]:
    """Places and rows as Python objects, which exist only for a moment."""
    for first in range(0, len(changes.keys), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        assert changes.keys.times is not None
        rows = pack_all(type(changes.values)(changes.values.data[some], changes.values.timestamps[some])).to_pylist()
        keys, numbers = changes.keys.data[some].to_pylist(), changes.keys.times[some].tolist()
        for key, number, row in zip(keys, numbers, rows, strict=True):
            yield Place(key, number), row
