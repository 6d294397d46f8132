"""Views of session stores (KIP-94)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.query.answers import Answer, Answers
from penstock.query.arrow import TableShape
from penstock.query.dicts import ALL_ROWS, Choice, row
from penstock.query.typed import Query, TimestampedWindowRangeWithHeadersQuery, WindowRangeQuery
from penstock.query.versions import Version
from penstock.query.view import View
from penstock.record import AggregationWithHeaders, Record, SessionKey, Windowed
from penstock.state.columns.headers import headers_of
from penstock.values.durations import MAX_MS
from penstock.values.times import Time, bound

_TABLE = TableShape(("key", "window_start", "window_end"), ("value",))

Session = tuple[SessionKey, Any]
"""A session and its value."""


class SessionView(View):
    """A session store, read only (KIP-94)."""

    def find_sessions(
        self, key: Any, earliest_end: Time = 0, latest_start: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[Session]:
        """The sessions of a key with ``end >= earliest_end`` and ``start <= latest_start``, by end and start."""
        data, earliest, latest = self._key.encode_to_bytes(key), bound(earliest_end), bound(latest_start)
        rows = self._in_turn(lambda store: store.find_sessions(data, earliest, latest, reverse))
        decode = self._value.decode
        return ((SessionKey(key, session.start, session.end), decode(value)) for session, value in rows)

    def backward_find_sessions(
        self, key: Any, earliest_end: Time = 0, latest_start: Time = MAX_MS
    ) -> Iterator[Session]:
        """The sessions of ``find_sessions``, the latest first."""
        return self.find_sessions(key, earliest_end, latest_start, reverse=True)

    def find_sessions_in_range(
        self, low: Any, high: Any, earliest_end: Time = 0, latest_start: Time = MAX_MS, reverse: bool = False
    ) -> Iterator[Session]:
        """The sessions of all keys from ``low`` to ``high``, None for no bound, with ``end >= earliest_end`` and
        ``start <= latest_start``: by segment, key, end and start; from a store in memory by end, key and start."""
        bounds = self._encoded(low), self._encoded(high), bound(earliest_end), bound(latest_start)
        rows = self._in_turn(lambda store: store.scan_sessions(*bounds, reverse), reverse)
        key, value = self._key.decode, self._value.decode
        return ((SessionKey(key(session.key), session.start, session.end), value(data)) for session, data in rows)

    def backward_find_sessions_in_range(
        self, low: Any, high: Any, earliest_end: Time = 0, latest_start: Time = MAX_MS
    ) -> Iterator[Session]:
        """The sessions of ``find_sessions_in_range``, in reverse order."""
        return self.find_sessions_in_range(low, high, earliest_end, latest_start, reverse=True)

    def fetch(self, key: Any, high: Any = ..., reverse: bool = False) -> Iterator[Session]:
        """All sessions of a key, by end and start; ``fetch(low, high)`` those of a range of keys."""
        if high is not ...:
            return self.find_sessions_in_range(key, high, reverse=reverse)
        return self.find_sessions(key, reverse=reverse)

    def backward_fetch(self, key: Any, high: Any = ...) -> Iterator[Session]:
        """All sessions of a key, or of a range of keys, the latest first."""
        return self.fetch(key, high, reverse=True)

    def fetch_session(self, key: Any, start: Time, end: Time) -> Any:
        """The value of one session, or None."""
        data, first, last = self._key.encode_to_bytes(key), bound(start), bound(end)
        found = self._first(lambda store: store.fetch_session(data, first, last))
        return None if found is None else self._value.decode(found)

    def fetch_with_headers(
        self, key: Any, reverse: bool = False
    ) -> Iterator[tuple[SessionKey, AggregationWithHeaders]]:
        """All sessions of a key with their headers, by end and start (KIP-1271).

        Raises:
            ConfigError: the store has no headers.
        """
        self._check_headers()
        data = self._key.encode_to_bytes(key)
        rows = self._in_turn(lambda store: store.find_sessions(data, 0, MAX_MS, reverse))
        return ((SessionKey(key, session.start, session.end), self._headed(value)) for session, value in rows)

    def fetch_session_with_headers(self, key: Any, start: Time, end: Time) -> AggregationWithHeaders | None:
        """The value of one session with its headers, or None (KIP-1271).

        Raises:
            ConfigError: the store has no headers.
        """
        self._check_headers()
        data, first, last = self._key.encode_to_bytes(key), bound(start), bound(end)
        found = self._first(lambda store: store.fetch_session(data, first, last))
        return None if found is None else self._headed(found)

    def all_with_headers(self, reverse: bool = False) -> Iterator[tuple[Windowed[Any], AggregationWithHeaders]]:
        """Windowed key and ``AggregationWithHeaders`` of all sessions (KIP-1271).

        Raises:
            ConfigError: the store has no headers.
        """
        self._check_headers()
        rows = self._in_turn(lambda store: store.scan_sessions(None, None, 0, MAX_MS, reverse), reverse)
        return ((Windowed(self._key.decode(one.key), one.start, one.end), self._headed(data)) for one, data in rows)

    def _headed(self, data: bytes) -> AggregationWithHeaders:
        return AggregationWithHeaders(self._value.decode(data), headers_of(data))

    def all(self, reverse: bool = False) -> Iterator[tuple[Windowed[Any], Any]]:
        """Windowed key and value of all sessions."""
        rows = self.find_sessions_in_range(None, None, reverse=reverse)
        return ((Windowed(*session), value) for session, value in rows)

    def approximate_num_entries(self) -> int:
        """The number of sessions."""
        return sum(1 for store in self._stores for _ in store.rows())

    def _dicts(self, choice: Choice = ALL_ROWS) -> Iterator[dict[str, Any]]:
        self._refuse_prefix(choice)
        bounds = *map(self._encoded, choice.bounds), 0, MAX_MS
        found = self._in_turn(lambda store: store.scan_sessions(*bounds, choice.reverse), choice.reverse)
        return (self._dict(*one) for one in found)

    def _dict(self, session: SessionKey, data: bytes) -> dict[str, Any]:
        key, value = self._key.decode(session.key), self._value.decode(data)
        return self._with_headers(row(key, value, window_start=session.start, window_end=session.end), data)

    def _answers(self) -> Answers:
        with_headers: Answers = {
            TimestampedWindowRangeWithHeadersQuery: lambda query: (
                Record(Windowed(*session), value, session.end, headers)
                for session, (value, headers) in self.fetch_with_headers(query.key)
            )
        }
        return (with_headers if self.has_headers else {}) | {WindowRangeQuery: lambda query: self.fetch(query.key)}

    def _answer_to(self, query: Query) -> Answer | None:
        is_of_windows = isinstance(query, WindowRangeQuery) and query.key is None
        return None if is_of_windows else super()._answer_to(query)

    def _table_shape(self) -> TableShape:
        return _TABLE.of(self._key, self._value, self.has_headers)

    def _raw_rows(self, version: Version) -> Iterator[tuple[Any, ...]]:
        for store in version.stores:
            for session, value in store.rows():
                yield session.key, session.start, session.end, value
