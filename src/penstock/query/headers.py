"""Stores with headers as views read them: values without headers in front, which know them (KIP-1271)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.errors import StoreError
from penstock.messages import show
from penstock.plan.node import ROWS
from penstock.query.versions import Source, Version
from penstock.record import Headers, Record
from penstock.state.columns.headers import row_without_headers, without_headers


def source_of(source: Source, headers: str, kind: str) -> Source:
    """Return the source of a store of a kind, whose rows a view can decode.

    Args:
        headers: whether its rows have headers, as in ``StoreFormat``.
    """
    return HeadedSource(source, kind == "SessionStore") if headers == ROWS else source


class HeadedSource:
    """A source of a store that keeps headers."""

    def __init__(self, source: Source, is_of_sessions: bool):
        self.below = source
        self._is_of_sessions = is_of_sessions

    def now(self) -> Version:
        """The store as it is now."""
        version = self.below.now()
        kind = HeadedSessions if self._is_of_sessions else HeadedRows
        return replace(version, tasks={task: kind(store) for task, store in version.tasks.items()})

    def pinned(self) -> HeadedSource:
        """The store as it is now, which will not change."""
        return HeadedSource(self.below.pinned(), self._is_of_sessions)


class HeadedRows:
    """A key-value or a window store that keeps headers; a row ends with its value and its timestamp."""

    def __init__(self, store: Any):
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_one(self, key: bytes) -> tuple[bytes, int] | None:
        """The value and timestamp of one key; None if it has none."""
        found = self._store.get_one(key)
        return None if found is None else row_without_headers(*found)

    def range(self, *arguments: Any) -> Iterator[Any]:
        """The rows of a range of keys."""
        return map(_apart, self._store.range(*arguments))

    def fetch(self, *arguments: Any) -> Iterator[Any]:
        """The windows of a key."""
        return map(_apart, self._store.fetch(*arguments))

    def scan_windows(self, *arguments: Any) -> Iterator[Any]:
        """The windows of a range of keys."""
        return map(_apart, self._store.scan_windows(*arguments))

    def rows(self) -> Iterator[Any]:
        """All rows."""
        return map(_apart, self._store.rows())


class HeadedSessions:
    """A session store that keeps headers; a row ends with its value."""

    def __init__(self, store: Any):
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def find_sessions(self, *arguments: Any) -> Iterator[Any]:
        """The sessions of a key."""
        return ((session, without_headers(data)) for session, data in self._store.find_sessions(*arguments))

    def scan_sessions(self, *arguments: Any) -> Iterator[Any]:
        """The sessions of a range of keys."""
        return ((session, without_headers(data)) for session, data in self._store.scan_sessions(*arguments))

    def fetch_session(self, *arguments: Any) -> bytes | None:
        """The value of one session."""
        found = self._store.fetch_session(*arguments)
        return None if found is None else without_headers(found)

    def rows(self) -> Iterator[Any]:
        """All sessions."""
        return ((session, without_headers(data)) for session, data in self._store.rows())


def _apart(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row[:-2], *row_without_headers(*row[-2:]))


def record_of(key: Any, value: Any, timestamp: int, headers: Headers) -> Record:
    """Return a row as a record.

    Raises:
        StoreError: it has no timestamp.
    """
    if timestamp < 0:
        raise StoreError(
            f"the row of key {show(key)} has no timestamp ({timestamp}), so it is no record: it was put without one. "
            "Ask for its value alone, with a KeyQuery or a WindowKeyQuery"
        )
    return Record(key, value, timestamp, headers)
