"""Reading state stores: keys and values as Python values instead of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from operator import itemgetter
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa

from penstock.arrays import without_last
from penstock.durations import MAX_MS
from penstock.errors import StoreError
from penstock.plan import nodes
from penstock.plan.node import Node, StoreSpec
from penstock.record import SessionKey, ValueAndTimestamp, Windowed
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.deduplication import DeduplicationStore
from penstock.state.kinds.held import unpack
from penstock.state.kinds.join_window import JoinWindowStore
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.versioned.store import VersionedStore, VersionRow
from penstock.state.kinds.window import WindowStore
from penstock.state.shapes import VersionedRecord
from penstock.state.store import StateStore
from penstock.times import Time, bound

S = TypeVar("S", bound=StateStore)


class View(Generic[S]):
    """What all views can: be closed, or used in a ``with`` block."""

    def __init__(self, pieces: list[S]) -> None:
        self._pieces = pieces
        self._is_closed = False
        self._closing: list[Callable[[], object]] = []

    @property
    def _stores(self) -> list[S]:
        """What the store is in each of its tasks."""
        if self._is_closed:
            raise StoreError(f"this view of the store {self._pieces[0].name!r} is closed; ask for the store again")
        return self._pieces

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else ""
        tasks = "1 task" if len(self._pieces) == 1 else f"{len(self._pieces)} tasks"
        return f"<{type(self).__name__} of store {self._pieces[0].name!r} in {tasks}{state}>"

    def on_close(self, action: Callable[[], object]) -> None:
        """Have something done when the view is closed."""
        self._closing.append(action)

    def close(self) -> None:
        """Let go of what the view stands on; it cannot be read any more."""
        self._is_closed = True
        while self._closing:
            self._closing.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class KeyValueView(View[KeyValueStore | DeduplicationStore]):
    """A key-value store, read only."""

    def __init__(self, stores: list[KeyValueStore | DeduplicationStore], key: Serde, value: Serde):
        super().__init__(stores)
        self._key = key
        self._value = value

    def get(self, key: Any) -> Any:
        """The value of a key, None when it has none."""
        found = self.get_with_timestamp(key)
        return None if found is None else found.value

    def get_with_timestamp(self, key: Any) -> ValueAndTimestamp | None:
        """The value of a key with its timestamp, None when it has none."""
        for store in self._stores:
            values = store.get(Keys(pa.array([self._key.encode(key)], pa.binary())))
            if values.data[0].is_valid:
                return ValueAndTimestamp(self._value.decode(values.data[0].as_py()), int(values.timestamps[0]))
        return None

    def range(self, low: Any = None, high: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any, int]]:
        """Key, value and timestamp of the rows with ``low <= key <= high``, in order of the keys' bytes."""
        first = None if low is None else self._key.encode(low)
        last = None if high is None else self._key.encode(high) + b"\x00"
        rows = merge(*(store.range(first, last, reverse) for store in self._stores), key=itemgetter(0), reverse=reverse)
        for key, value, timestamp in rows:
            yield self._key.decode(key), self._value.decode(value), timestamp

    def all(self) -> Iterator[tuple[Any, Any, int]]:
        """Key, value and timestamp of all rows."""
        return self.range()

    def approximate_num_entries(self) -> int:
        """How many rows there are."""
        return sum(1 for _ in self.all())


class WindowView(View[Any]):
    """A window store, read only."""

    def __init__(self, stores: list[WindowStore | SlidingStore | JoinWindowStore], key: Serde, value: Serde, size: int):
        super().__init__(stores)
        self._key = key
        self._value = value
        self._size = size

    def fetch(
        self, key: Any, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[tuple[int, Any, int]]:
        """Start, value and timestamp of a key's windows that begin in a range of time, ends included."""
        for store in self._stores:
            for start, value, timestamp in store.fetch(self._key.encode(key), bound(earliest), bound(latest), reverse):
                yield start, self._value.decode(value), timestamp

    def get(self, key: Any, start: Time) -> Any:
        """The value of one window of a key, None when it has none."""
        return next((value for _, value, _ in self.fetch(key, start, start)), None)

    def all(self, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any, int]]:
        """Windowed key, value and timestamp of all rows."""
        for store in reversed(self._stores) if reverse else self._stores:
            for key, start, value, timestamp in store.rows(reverse):
                windowed = Windowed(self._key.decode(key), start, min(start, MAX_MS - self._size) + self._size)
                yield windowed, self._value.decode(value), timestamp


class SessionView(View[SessionStore]):
    """A session store, read only (KIP-94)."""

    def __init__(self, stores: list[SessionStore], key: Serde, value: Serde):
        super().__init__(stores)
        self._key = key
        self._value = value

    def find_sessions(
        self, key: Any, earliest_end: Time = 0, latest_start: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[tuple[SessionKey, Any]]:
        """The sessions of a key with ``end >= earliest_end`` and ``start <= latest_start``, by end and start."""
        earliest, latest = bound(earliest_end), bound(latest_start)
        for store in self._stores:
            for session, value in store.find_sessions(self._key.encode(key), earliest, latest, reverse):
                yield SessionKey(key, session.start, session.end), self._value.decode(value)

    def fetch(self, key: Any) -> Iterator[tuple[SessionKey, Any]]:
        """All sessions of a key, by end and start."""
        return self.find_sessions(key)

    def backward_fetch(self, key: Any) -> Iterator[tuple[SessionKey, Any]]:
        """All sessions of a key, the latest first."""
        return self.find_sessions(key, reverse=True)

    def backward_find_sessions(
        self, key: Any, earliest_end: Time, latest_start: Time
    ) -> Iterator[tuple[SessionKey, Any]]:
        """What ``find_sessions`` finds, the latest first."""
        return self.find_sessions(key, earliest_end, latest_start, reverse=True)

    def fetch_session(self, key: Any, start: Time, end: Time) -> Any:
        """The value of one session, None when there is none."""
        first, last = bound(start), bound(end)
        found = (store.fetch_session(self._key.encode(key), first, last) for store in self._stores)
        return next((self._value.decode(value) for value in found if value is not None), None)

    def all(self, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Windowed key and value of all sessions."""
        for store in reversed(self._stores) if reverse else self._stores:
            for session, value in store.rows(reverse):
                yield Windowed(self._key.decode(session.key), session.start, session.end), self._value.decode(value)


class BufferView(View[TimeOrderedBuffer]):
    """What a suppression, or a join with a grace period, holds back, read only.

    Args:
        numbered: whether there is a number of 8 bytes behind each key; joins have it, to keep all records of a key.
    """

    def __init__(self, stores: list[TimeOrderedBuffer], key: Serde, value: Serde, numbered: bool = False):
        super().__init__(stores)
        self._key = key
        self._value = value
        self._numbered = numbered

    def all(self) -> Iterator[tuple[Any, Any, int]]:
        """Key, new value and timestamp of all updates that are held, in the order in which they will go."""
        for store in self._stores:
            for entries in store.oldest_first(MAX_MS):
                new = unpack(entries.values.data).new
                keys = without_last(entries.keys, 8) if self._numbered else entries.keys
                columns = self._key.decode_all(keys), self._value.decode_all(new)
                yield from zip(*columns, entries.values.timestamps.tolist(), strict=True)

    def approximate_num_entries(self) -> int:
        """How many updates are held."""
        if self._numbered:
            return sum(len(entries.keys) for store in self._stores for entries in store.oldest_first(MAX_MS))
        return sum(store.numbers.get("records", 0) for store in self._stores)


class VersionedView(View[VersionedStore]):
    """A versioned store, read only (KIP-889, KIP-960, KIP-968)."""

    def __init__(self, stores: list[VersionedStore], key: Serde, value: Serde):
        super().__init__(stores)
        self._key = key
        self._value = value

    def get(self, key: Any, as_of: Time | None = None) -> Any:
        """The latest value of a key, or the one that was valid at a time; None when there is none."""
        found = self.get_version(key, as_of)
        return None if found is None else found.value

    def get_version(self, key: Any, as_of: Time | None = None) -> VersionedRecord[Any] | None:
        """The same with the times from and to which it is valid."""
        for store in self._stores:
            row = store.get_one(self._key.encode(key), None if as_of is None else bound(as_of))
            if row is not None:
                return self._record(row)
        return None

    def versions(
        self, key: Any, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[VersionedRecord[Any]]:
        """The versions of a key that were valid in a range of time, ends included, in order of time or backwards."""
        for store in self._stores:
            for row in store.versions(self._key.encode(key), bound(earliest), bound(latest), reverse):
                yield self._record(row)

    def all(self) -> Iterator[tuple[Any, Any, int, int | None]]:
        """Key, value, and the times from and to which it is valid, of all versions."""
        rows = merge(*(store.rows() for store in self._stores), key=itemgetter(0, 2))
        for key, value, valid_from, valid_to in rows:
            yield self._key.decode(key), self._value.decode(value), valid_from, valid_to

    def _record(self, row: VersionRow) -> VersionedRecord[Any]:
        return VersionedRecord(self._value.decode(row.value), row.valid_from, row.valid_to)


AnyView = KeyValueView | WindowView | SessionView | VersionedView | BufferView


def view_of(stores: list[StateStore], spec: StoreSpec, node: Node) -> AnyView:
    """The view of the pieces that a step's store has in different tasks."""
    assert spec.key is not None
    assert spec.value is not None
    pieces: list[Any] = stores
    if isinstance(stores[0], TimeOrderedBuffer):
        return BufferView(pieces, spec.key, spec.value, numbered=isinstance(node, nodes.StreamTableJoin))
    if isinstance(stores[0], SessionStore):
        return SessionView(pieces, spec.key, spec.value)
    if isinstance(stores[0], WindowStore | SlidingStore | JoinWindowStore):
        sized = nodes.WindowAggregate | nodes.SlidingAggregate | nodes.JoinWindow
        return WindowView(pieces, spec.key, spec.value, node.windows.size_ms if isinstance(node, sized) else 0)
    if isinstance(stores[0], VersionedStore):
        return VersionedView(pieces, spec.key, spec.value)
    return KeyValueView(pieces, spec.key, spec.value)


__all__ = [
    "AnyView",
    "BufferView",
    "KeyValueView",
    "SessionView",
    "ValueAndTimestamp",
    "VersionedRecord",
    "VersionedView",
    "WindowView",
    "view_of",
]
