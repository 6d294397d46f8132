"""The changes of a chunk in a store, sorted, so that a range can be read before they are in the columns."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any


class SortedChanges:
    """Changed rows, sorted by the bytes of their keys as on disk.

    >>> changes = SortedChanges()
    >>> changes.add(b"b", "b"), changes.add(b"a", "a"), changes.add(b"b", "b")
    (None, None, None)
    >>> changes.between(b"a", b"b"), list(changes.rows.values())
    ([(b'a', 'a')], ['b', 'a'])
    """

    __slots__ = ("_order", "rows")

    def __init__(self) -> None:
        self._order: list[bytes] = []
        self.rows: dict[bytes, Any] = {}
        """The place of each row in the view."""

    def add(self, key: bytes, place: Any) -> None:
        """Note a row."""
        if key not in self.rows:
            insort(self._order, key)
            self.rows[key] = place

    def between(self, low: bytes | None, high: bytes | None) -> list[tuple[bytes, Any]]:
        """The rows with ``low <= key < high``, in order."""
        order, rows = self._order, self.rows
        first = 0 if low is None else bisect_left(order, low)
        end = len(order) if high is None else bisect_left(order, high)
        return [(key, rows[key]) for key in order[first:end]]

    def clear(self) -> None:
        self._order.clear()
        self.rows.clear()
