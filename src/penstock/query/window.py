"""Views of window stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.errors import ConfigError
from penstock.query.answers import Answer, Answers
from penstock.query.arrow import TableShape
from penstock.query.dicts import ALL_ROWS, Choice, row
from penstock.query.headers import record_of
from penstock.query.typed import (
    Query,
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from penstock.query.versions import Version
from penstock.query.view import View, at_most
from penstock.record import ValueTimestampHeaders, Windowed
from penstock.state.columns.headers import headers_of
from penstock.values.durations import MAX_MS
from penstock.values.times import Time, bound

_TABLE = TableShape(("key", "window_start", "window_end"), ("value", "timestamp"))

_FETCH = "(key), (key, time), (key, from, to) or (low, high, from, to)"

KeyWindow = tuple[int, Any, int]
"""A window of a given key: its start, its value and its timestamp."""
AnyWindow = tuple[Windowed[Any], Any, int]
"""A windowed key, its value and its timestamp."""


class WindowView(View):
    """A window store, read only. Windows are found by their starts; both ends of a range belong to it."""

    def fetch(self, key: Any, *bounds: Any, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False) -> Any:
        """Windows of a key, or of a range of keys, that begin in a range of time, as in Kafka Streams:

        - ``fetch(key, time)``: the value of the window that begins then, or None.
        - ``fetch(key, from, to)``, or ``fetch(key, earliest=..., latest=...)``: start, value and timestamp of a key's
          windows, by their starts.
        - ``fetch(low, high, from, to)``: windowed key, value and timestamp of the windows of all keys from ``low`` to
          ``high``, None for no bound: by segment, key and start; from a store in memory by start and key.

        Raises:
            ConfigError: there are more bounds than that.
        """
        if len(bounds) == 1:
            return self.get(key, bounds[0])
        if len(bounds) == 3:
            return self.fetch_range(key, *bounds, reverse=reverse)
        if len(bounds) not in (0, 2):
            raise ConfigError(f"fetch takes {_FETCH}; got {1 + len(bounds)} values")
        first, last = bounds or (earliest, latest)
        return self._windows_of(key, bound(first), at_most(last), reverse)

    def backward_fetch(self, key: Any, *bounds: Any, earliest: Time = 0, latest: Time = MAX_MS) -> Iterator[Any]:
        """The windows of ``fetch`` for a key, or for a range of keys, the latest window first.

        Raises:
            ConfigError: one time alone is one window, which has no order.
        """
        if len(bounds) == 1:
            raise ConfigError(f"backward_fetch takes {_FETCH}, but not (key, time), which is one window")
        found: Iterator[Any] = self.fetch(key, *bounds, earliest=earliest, latest=latest, reverse=True)
        return found

    def fetch_range(
        self, low: Any, high: Any, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[AnyWindow]:
        """Windowed key, value and timestamp of the windows of a range of keys that begin in a range of time."""
        bounds = self._encoded(low), self._encoded(high), bound(earliest), at_most(latest)
        return self._decoded(self._in_turn(lambda store: store.scan_windows(*bounds, reverse), reverse))

    def fetch_all(self, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False) -> Iterator[AnyWindow]:
        """The windows of all keys that begin in a range of time."""
        return self.fetch_range(None, None, earliest, latest, reverse)

    def backward_fetch_all(self, earliest: Time = 0, latest: Time = MAX_MS) -> Iterator[AnyWindow]:
        """The windows of ``fetch_all``, the latest first."""
        return self.fetch_all(earliest, latest, reverse=True)

    def get(self, key: Any, start: Time) -> Any:
        """The value of one window of a key, None when it has none."""
        data, at = self._key.encode_to_bytes(key), bound(start)
        row = self._first(lambda store: next(iter(store.fetch(data, at, at)), None))
        return None if row is None else self._value.decode(row[1])

    def get_with_headers(self, key: Any, start: Time) -> ValueTimestampHeaders | None:
        """The value of one window of a key with its timestamp and its headers, None when it has none (KIP-1271).

        Raises:
            ConfigError: the store has no headers.
        """
        return next((found for _, found in self.fetch_with_headers(key, start, start)), None)

    def fetch_with_headers(
        self, key: Any, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[tuple[int, ValueTimestampHeaders]]:
        """Start and ``ValueTimestampHeaders`` of a key's windows that begin in a range of time.

        Raises:
            ConfigError: the store has no headers.
        """
        self._check_headers()
        data, first, last = self._key.encode_to_bytes(key), bound(earliest), at_most(latest)
        rows = self._in_turn(lambda store: store.fetch(data, first, last, reverse))
        return ((start, self._headed(value, timestamp)) for start, value, timestamp in rows)

    def fetch_all_with_headers(
        self, earliest: Time = 0, latest: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[tuple[Windowed[Any], ValueTimestampHeaders]]:
        """Windowed key and ``ValueTimestampHeaders`` of the windows of ``fetch_all``.

        Raises:
            ConfigError: the store has no headers.
        """
        self._check_headers()
        bounds = None, None, bound(earliest), at_most(latest)
        rows = self._in_turn(lambda store: store.scan_windows(*bounds, reverse), reverse)
        return (
            (Windowed(self._key.decode(key), start, self._end(start)), self._headed(value, timestamp))
            for key, start, value, timestamp in rows
        )

    def _headed(self, data: bytes, timestamp: int) -> ValueTimestampHeaders:
        return ValueTimestampHeaders(self._value.decode(data), timestamp, headers_of(data))

    def all(self, reverse: bool = False) -> Iterator[AnyWindow]:
        """Windowed key, value and timestamp of all windows."""
        return self.fetch_range(None, None, reverse=reverse)

    def backward_all(self) -> Iterator[AnyWindow]:
        """The windows of ``all``, the latest first."""
        return self.all(reverse=True)

    def approximate_num_entries(self) -> int:
        """The number of windows."""
        return sum(1 for store in self._stores for _ in store.rows())

    def _dicts(self, choice: Choice = ALL_ROWS) -> Iterator[dict[str, Any]]:
        self._refuse_prefix(choice)
        bounds = *map(self._encoded, choice.bounds), 0, MAX_MS
        rows = self._in_turn(lambda store: store.scan_windows(*bounds, choice.reverse), choice.reverse)
        return (self._dict(*found) for found in rows)

    def _dict(self, key: bytes, start: int, data: bytes, timestamp: int) -> dict[str, Any]:
        times = {"window_start": start, "window_end": self._end(start), "timestamp": timestamp}
        return self._with_headers(row(self._key.decode(key), self._value.decode(data), **times), data)

    def _answers(self) -> Answers:
        with_headers: Answers = {
            TimestampedWindowKeyWithHeadersQuery: lambda query: (
                record_of(Windowed(query.key, start, self._end(start)), *found)
                for start, found in self.fetch_with_headers(query.key, query.earliest, query.latest)
            ),
            TimestampedWindowRangeWithHeadersQuery: lambda query: (
                record_of(window, *found) for window, found in self.fetch_all_with_headers(query.earliest, query.latest)
            ),
        }
        return (with_headers if self.has_headers else {}) | {
            WindowKeyQuery: lambda query: self.fetch(query.key, query.earliest, query.latest),
            WindowRangeQuery: lambda query: self.fetch_all(query.earliest, query.latest),
        }

    def _answer_to(self, query: Query) -> Answer | None:
        is_of_sessions = isinstance(query, WindowRangeQuery) and query.key is not None
        return None if is_of_sessions else super()._answer_to(query)

    def _windows_of(self, key: Any, earliest: int, latest: int, reverse: bool) -> Iterator[KeyWindow]:
        data, decode = self._key.encode_to_bytes(key), self._value.decode
        rows = self._in_turn(lambda store: store.fetch(data, earliest, latest, reverse))
        return ((start, decode(value), timestamp) for start, value, timestamp in rows)

    def _decoded(self, rows: Iterator[tuple[bytes, int, bytes, int]]) -> Iterator[AnyWindow]:
        for key, start, value, timestamp in rows:
            yield Windowed(self._key.decode(key), start, self._end(start)), self._value.decode(value), timestamp

    def _end(self, start: int) -> int:
        return self._shape.format.ends.of(start)

    def _table_shape(self) -> TableShape:
        return _TABLE.of(self._key, self._value, self.has_headers)

    def _raw_rows(self, version: Version) -> Iterator[tuple[Any, ...]]:
        for store in version.stores:
            for key, start, value, timestamp in store.rows():
                yield key, start, self._end(start), timestamp, value
