"""Views of stores by key, and of held-back updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from operator import itemgetter
from typing import Any

from penstock.arrays import without_last
from penstock.query.answers import Answers
from penstock.query.arrow import TableShape
from penstock.query.dicts import ALL_ROWS, Choice, row
from penstock.query.headers import record_of
from penstock.query.typed import (
    KeyQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedKeyWithHeadersQuery,
    TimestampedRangeQuery,
    TimestampedRangeWithHeadersQuery,
)
from penstock.query.versions import Version
from penstock.query.view import View
from penstock.record import Record, ValueAndTimestamp, ValueTimestampHeaders
from penstock.serdes import Serde
from penstock.state.columns.headers import headers_of
from penstock.state.kinds.held import unpack
from penstock.state.transactional import after_prefix
from penstock.values.durations import MAX_MS

_TABLE = TableShape(("key",), ("value", "timestamp"))


class KeyValueView(View):
    """A key-value store, read only."""

    def get(self, key: Any) -> Any:
        """The value of a key, None when it has none."""
        data = self._key.encode_to_bytes(key)
        for store in self._stores:
            row = store.get_one(data)
            if row is not None:
                return self._value.decode(row[0])
        return None

    def get_with_timestamp(self, key: Any) -> ValueAndTimestamp | None:
        """The value of a key with its timestamp, None when it has none."""
        data = self._key.encode_to_bytes(key)
        row = self._first(lambda store: store.get_one(data))
        return None if row is None else ValueAndTimestamp(self._value.decode(row[0]), row[1])

    def get_with_headers(self, key: Any) -> ValueTimestampHeaders | None:
        """The value of a key with its timestamp and its headers, None when it has none (KIP-1271).

        Raises:
            ConfigError: the store has no headers.
        """
        self._check_headers()
        data = self._key.encode_to_bytes(key)
        row = self._first(lambda store: store.get_one(data))
        return None if row is None else self._headed(*row)

    def range_with_headers(
        self, low: Any = None, high: Any = None, reverse: bool = False
    ) -> Iterator[tuple[Any, ValueTimestampHeaders]]:
        """Key and ``ValueTimestampHeaders`` of the rows of ``range``.

        Raises:
            ConfigError: the store has no headers.
        """
        self._check_headers()
        first, last = self._encoded(low), self._encoded(high)
        rows = self._scanned(self._now(), first, None if last is None else last + b"\x00", reverse)
        return ((self._key.decode(key), self._headed(data, timestamp)) for key, data, timestamp in rows)

    def _headed(self, data: bytes, timestamp: int) -> ValueTimestampHeaders:
        return ValueTimestampHeaders(self._value.decode(data), timestamp, headers_of(data))

    def multi_get(self, keys: Iterable[Any]) -> list[Any]:
        """The values of several keys, in their order and all of one commit; None for a key without a value."""
        stores, decode = self._stores, self._value.decode
        rows: list[Any] = []
        for data in [self._key.encode_to_bytes(key) for key in keys]:
            found = (store.get_one(data) for store in stores)
            rows.append(next((row[0] for row in found if row is not None), None))
        return [None if row is None else decode(row) for row in rows]

    def range(self, low: Any = None, high: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any, int]]:
        """Key, value and timestamp of the rows with ``low <= key <= high``, in order of the keys' bytes."""
        first, last = self._encoded(low), self._encoded(high)
        return self._rows(self._now(), first, None if last is None else last + b"\x00", reverse)

    def reverse_range(self, low: Any = None, high: Any = None) -> Iterator[tuple[Any, Any, int]]:
        """The rows of ``range``, the highest key first."""
        return self.range(low, high, reverse=True)

    def prefix_scan(
        self, prefix: Any, reverse: bool = False, serde: Serde | None = None
    ) -> Iterator[tuple[Any, Any, int]]:
        """Key, value and timestamp of the rows whose keys' bytes begin with a prefix, in order of the keys' bytes.

        Args:
            prefix: bytes are taken as they are; anything else is encoded as a key is.
            serde: encodes the prefix, in place of the keys' serde.
        """
        as_it_is = serde is None and isinstance(prefix, bytes | bytearray)
        first = bytes(prefix) if as_it_is else (serde or self._key).encode_to_bytes(prefix)
        return self._rows(self._now(), first, after_prefix(first), reverse)

    def all(self) -> Iterator[tuple[Any, Any, int]]:
        """Key, value and timestamp of all rows, in order of the keys' bytes."""
        return self.range()

    def reverse_all(self) -> Iterator[tuple[Any, Any, int]]:
        """The rows of ``all``, the highest key first."""
        return self.range(reverse=True)

    def approximate_num_entries(self) -> int:
        """The number of rows."""
        return sum(1 for store in self._stores for _ in store.rows())

    def _dicts(self, choice: Choice = ALL_ROWS) -> Iterator[dict[str, Any]]:
        key, within, prefix, reverse = choice
        if key is not None:
            data = self._key.encode_to_bytes(key)
            found = self._first(lambda store: store.get_one(data))
            return iter([] if found is None else [self._dict(key, *found)])
        if prefix is None:
            low, high = self._encoded(within.low), self._encoded(within.high)
            bounds = low, None if high is None else high + b"\x00"
        else:
            bounds = prefix, after_prefix(prefix)
        rows = self._scanned(self._now(), *bounds, reverse)
        return (self._dict(self._key.decode(key), data, timestamp) for key, data, timestamp in rows)

    def _dict(self, key: Any, data: bytes, timestamp: int) -> dict[str, Any]:
        return self._with_headers(row(key, self._value.decode(data), timestamp=timestamp), data)

    def _answers(self) -> Answers:
        with_headers: Answers = {
            TimestampedKeyWithHeadersQuery: self._record_of,
            TimestampedRangeWithHeadersQuery: lambda query: (
                record_of(key, *found)
                for key, found in self.range_with_headers(query.lower, query.upper, query.descending)
            ),
        }
        return (with_headers if self.has_headers else {}) | {
            KeyQuery: lambda query: self.get(query.key),
            TimestampedKeyQuery: lambda query: self.get_with_timestamp(query.key),
            RangeQuery: lambda query: ((key, value) for key, value, _ in self._ranged(query)),
            TimestampedRangeQuery: lambda query: (
                (key, ValueAndTimestamp(value, timestamp)) for key, value, timestamp in self._ranged(query)
            ),
        }

    def _record_of(self, query: KeyQuery) -> Record | None:
        found = self.get_with_headers(query.key)
        return None if found is None else record_of(query.key, *found)

    def _ranged(self, query: RangeQuery) -> Iterator[tuple[Any, Any, int]]:
        return self.range(query.lower, query.upper, query.descending)

    def _rows(
        self, version: Version, low: bytes | None, high: bytes | None, reverse: bool
    ) -> Iterator[tuple[Any, Any, int]]:
        key, value = self._key.decode, self._value.decode
        for row_key, data, timestamp in self._scanned(version, low, high, reverse):
            yield key(row_key), value(data), timestamp

    def _scanned(
        self, version: Version, low: bytes | None, high: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, bytes, int]]:
        """The rows of all tasks as bytes, in order of the keys'."""
        every = (store.range(low, high, reverse) for store in version.stores)
        return merge(*every, key=itemgetter(0), reverse=reverse)

    def _table_shape(self) -> TableShape:
        return _TABLE.of(self._key, self._value, self.has_headers)

    def _raw_rows(self, version: Version) -> Iterator[tuple[Any, ...]]:
        return ((key, timestamp, value) for store in version.stores for key, value, timestamp in store.rows())


class BufferView(View):
    """The entries that a suppression, or a join with a grace period, holds back, read only."""

    def all(self) -> Iterator[tuple[Any, Any, int]]:
        """Key, new value and timestamp of all updates that are held, in the order in which they will go."""
        return self._decoded(self._now())

    def _decoded(self, version: Version) -> Iterator[tuple[Any, Any, int]]:
        for keys, new, timestamps in self._held(version):
            yield from zip(self._key.decode_all(keys), self._value.decode_all(new), timestamps, strict=True)

    def _held(self, version: Version) -> Iterator[tuple[Any, Any, list[int]]]:
        """The held keys, new values and timestamps of each task, some at a time."""
        for store in version.stores:
            for entries in store.oldest_first(MAX_MS):
                keys = without_last(entries.keys, 8) if self._shape.format.is_numbered else entries.keys
                yield keys, unpack(entries.values.data).new, entries.values.timestamps.tolist()

    def approximate_num_entries(self) -> int:
        """The number of held updates."""
        if self._shape.format.is_numbered:
            return sum(len(keys) for keys, _, _ in self._held(self._now()))
        return sum(store.numbers.get("records", 0) for store in self._stores)

    def _dicts(self, choice: Choice = ALL_ROWS) -> Iterator[dict[str, Any]]:
        self._refuse_prefix(choice)
        rows = (row(key, value, timestamp=timestamp) for key, value, timestamp in self.all())
        return choice.filtered(rows, self._key)

    def _table_shape(self) -> TableShape:
        return _TABLE.of(self._key, self._value)

    def _raw_rows(self, version: Version) -> Iterator[tuple[Any, ...]]:
        for keys, new, timestamps in self._held(version):
            yield from zip(keys.to_pylist(), timestamps, new.to_pylist(), strict=True)
