"""A key-value store record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from operator import itemgetter
from typing import Any

import pyarrow.compute as pc

from penstock.columns.column import Column
from penstock.record import ValueAndTimestamp
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys
from penstock.state.kinds import key_value as engine
from penstock.state.records.changes import SortedChanges
from penstock.state.records.held import HIGHEST, LOWEST, HeldValues, TimestampedValues
from penstock.state.records.view import KeyValueIterator, RecordView
from penstock.state.shapes import KeyValueStore, pairs
from penstock.state.transactional import Row, after_prefix

_MISSING: Any = object()


class KeyValueRecords(RecordView[engine.KeyValueStore], KeyValueStore[Any, Any]):
    """The latest value of every key.

    >>> from penstock.serdes import INT, STR
    >>> from penstock.state.records import record_view
    >>> from penstock.state.kinds.key_value import KeyValueStore
    >>> counts = record_view(KeyValueStore("counts"), STR, INT, timestamped=False)
    >>> counts.begin()
    >>> counts.put("JFK", 1), counts.put("LAX", 7), counts.get("JFK")
    (None, None, 1)
    >>> counts.delete("JFK"), list(counts.all())
    (1, [('LAX', 7)])
    >>> counts.end()
    """

    def __init__(self, store: engine.KeyValueStore, key: Serde, values: HeldValues):
        super().__init__(store, key, values)
        self._rows: dict[Any, Any] = {}
        """The known values of keys; None for keys without a value."""
        self._changed: dict[Any, Any] = {}
        """The puts since a range was last read; they take precedence over ``_rows``."""
        self._sorted = SortedChanges()
        """The changes from before a range was last read."""

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """The value of a key; None if it has none."""
        return self._held.show(self._find(key))

    def range(self, low: Any = None, high: Any = None) -> KeyValueIterator[tuple[Any, Any]]:
        """Key and value of the rows with ``low <= key <= high``, in order of the keys' bytes; None for no bound.

        The rows are those at the time of the call; later writes do not affect them.
        """
        return self._range(low, high, reverse=False)

    def reverse_range(self, low: Any = None, high: Any = None) -> KeyValueIterator[tuple[Any, Any]]:
        """The rows of ``range`` backwards: from ``high`` down to ``low``."""
        return self._range(low, high, reverse=True)

    def all(self) -> KeyValueIterator[tuple[Any, Any]]:
        """Key and value of all rows, in order of the keys' bytes."""
        return self._range(None, None, reverse=False)

    def reverse_all(self) -> KeyValueIterator[tuple[Any, Any]]:
        """The rows of ``all``, backwards."""
        return self._range(None, None, reverse=True)

    def prefix_scan(self, prefix: Any, prefix_serde: Serde | None = None) -> KeyValueIterator[tuple[Any, Any]]:
        """Key and value of the rows whose keys' bytes begin with those of a prefix.

        Args:
            prefix: the prefix.
            prefix_serde: encodes the prefix; by default the serde of the keys.
        """
        self._check(prefix, "prefix")
        low = (prefix_serde or self._keys.serde).encode_to_bytes(prefix)
        return self._scanned(low, after_prefix(low), reverse=False)

    def approximate_num_entries(self) -> int:
        """The number of rows; approximate if some of them are only on disk."""
        self._check_open()
        self._write()
        return self._store.approximate_num_entries()

    # --- writing -------------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any) -> None:
        """Give a key a value; None deletes it."""
        self._check(key)
        self._put(self._keys.hold(key), self._held.hold(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Give a key a value if it has none, and return the one that it has."""
        there = self.get(key)
        if there is None:
            self.put(key, value)
        return there

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Put pairs of key and value, in order; if one does not fit, none of them is put."""
        self._check_open()
        rows = []
        for key, value in pairs(entries):
            self._check(key)
            rows.append((self._keys.hold(key), self._held.hold(value)))
        for at, held in rows:
            self._put(at, held)

    def delete(self, key: Any) -> Any:
        """Delete a key's value, and return it; None if it has none."""
        there = self.get(key)
        if there is not None:
            self.put(key, None)
        return there

    def _put(self, at: Any, held: Any) -> None:
        self._changed[at] = held

    # --- the columns below ---------------------------------------------------------------------------------------

    def _find(self, key: Any) -> Any:
        self._check(key)
        at = self._keys.hold(key)
        held = self._changed.get(at, _MISSING)
        if held is _MISSING:
            held = self._rows.get(at, _MISSING)
        return self._load(at) if held is _MISSING else held

    def _load(self, at: Any) -> Any:
        """Load a single key from the store."""
        found = self._store.get_one(self._keys.bytes_of(at))
        self._rows[at] = held = None if found is None else self._held.load_one(*found)
        return held

    def _load_keys(self, keys: Column) -> None:
        distinct = pc.unique(keys.encoded()).drop_null()
        if len(distinct):
            found = self._store.get(Keys(distinct))
            self._rows.update(zip(self._keys.load(distinct), self._held.load(found), strict=True))

    def _range(self, lowest: Any, highest: Any, reverse: bool) -> KeyValueIterator[tuple[Any, Any]]:
        encode = self._keys.serde.encode_to_bytes
        low = None if lowest is None else encode(lowest)
        high = None if highest is None else encode(highest) + b"\x00"
        return self._scanned(low, high, reverse)

    def _scanned(self, low: bytes | None, high: bytes | None, reverse: bool) -> KeyValueIterator[tuple[Any, Any]]:
        self._check_open()
        if low is not None and high is not None and low >= high:
            return self._scan(iter(()))
        own = self._own(low, high)
        return self._scan(self._shown(self._store.range(low, high, reverse), own, reverse))

    def _own(self, low: bytes | None, high: bytes | None) -> list[tuple[bytes, Any]]:
        """The chunk's changes in a range that are not in the columns yet, in held form."""
        self._sort_changes()
        return [(data, self._rows[at]) for data, at in self._sorted.between(low, high)]

    def _sort_changes(self) -> None:
        for at in self._changed:
            self._sorted.add(self._keys.bytes_of(at), at)
        self._rows.update(self._changed)
        self._changed.clear()

    def _shown(self, rows: Iterator[Row], own: list[tuple[bytes, Any]], reverse: bool) -> Iterator[tuple[Any, Any]]:
        """Yield the rows of the store, merged with the chunk's changes, as the user sees them."""
        decode, held, changed = self._keys.serde.decode, self._held, dict(own)
        theirs = ((row[0], held.load_one(row[1], row[2])) for row in rows if row[0] not in changed)
        ours = ((key, value) for key, value in (reversed(own) if reverse else own) if value is not None)
        for key, value in merge(theirs, ours, key=itemgetter(0), reverse=reverse) if own else theirs:
            yield decode(key), held.show(value)

    def pending(self) -> int:
        return len(self._changed) + len(self._sorted.rows)

    def _write(self) -> None:
        if self._changed or self._sorted.rows:
            changed = {at: self._rows[at] for at in self._sorted.rows.values()} | self._changed
            self._rows.update(self._changed)
            self._changed.clear()
            self._sorted.clear()
            located = self._store.locate(Keys(self._keys.column([*changed])))
            self._store.put(located, self._held.columns([*changed.values()]))

    def _forget(self) -> None:
        self._rows, self._changed = {}, {}
        self._sorted.clear()


class PlainKeyValueRecords(KeyValueRecords):
    """Rows whose keys and values the dictionaries hold unchanged: most calls cost little more than a dictionary's."""

    def __init__(self, store: engine.KeyValueStore, key: Serde, values: HeldValues):
        super().__init__(store, key, values)
        self._key_type = self._keys.plain
        self._set_value_type(values.plain)

    def _set_value_type(self, kind: Any) -> None:
        self._value_type = kind
        self._is_int, self._is_text = kind is int, kind is str

    def get(self, key: Any) -> Any:
        """The value of a key; None if it has none."""
        if type(key) is self._key_type:  # both are empty while it is closed
            if key in self._changed:
                return self._changed[key]
            if key in self._rows:
                return self._rows[key]
        return self._find(key)

    def put(self, key: Any, value: Any) -> None:
        """Give a key a value; None deletes it."""
        if (
            type(value) is self._value_type
            and type(key) is self._key_type
            and (key in self._changed or key in self._rows)
            and (LOWEST <= value <= HIGHEST if self._is_int else not self._is_text or value.isascii())
        ):
            self._changed[key] = value
        else:
            super().put(key, value)


class PlainTimestampedRecords(PlainKeyValueRecords):
    """Rows whose keys and values the dictionaries hold unchanged, with timestamps."""

    def __init__(self, store: engine.KeyValueStore, key: Serde, values: TimestampedValues):
        super().__init__(store, key, values)
        self._set_value_type(values.inner_plain)

    def put(self, key: Any, value: Any) -> None:
        """Give a key a value with its timestamp; None deletes it."""
        is_known = type(key) is self._key_type and (key in self._changed or key in self._rows)
        if is_known and type(value) is ValueAndTimestamp:
            plain, timestamp = value
            if (
                type(plain) is self._value_type
                and type(timestamp) is int
                and -1 <= timestamp <= HIGHEST
                and (LOWEST <= plain <= HIGHEST if self._is_int else not self._is_text or plain.isascii())
            ):
                self._changed[key] = value
                return
        KeyValueRecords.put(self, key, value)
