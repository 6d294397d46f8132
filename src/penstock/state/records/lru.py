"""A key-value store that evicts the least recently used entry, record by record."""

from __future__ import annotations

from itertools import islice
from typing import Any

from penstock.arrays import binary
from penstock.columns.column import Column
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys
from penstock.state.kinds.lru import LruStore
from penstock.state.records.held import HeldValues
from penstock.state.records.key_value import KeyValueRecords


class LruRecords(KeyValueRecords):
    """The latest values of a limited number of keys: a put of one more evicts the least recently read or put entry.

    ``range``, ``all`` and ``prefix_scan`` do not count as use. The order of use is part of the commit, so that the same
    entries are evicted after a crash as without one.

    >>> from penstock.serdes import INT, STR
    >>> from penstock.state.records import record_view
    >>> recent = record_view(LruStore("recent", max_entries=2), STR, INT, timestamped=False)
    >>> recent.begin()
    >>> recent.put_all([("a", 1), ("b", 2)])
    >>> recent.get("a"), recent.put("c", 3), list(recent.all())
    (1, None, [('a', 1), ('c', 3)])
    >>> recent.end()
    """

    writes = KeyValueRecords.writes | {"get"}  # which counts as use

    def __init__(self, store: LruStore, key: Serde, values: HeldValues):
        super().__init__(store, key, values)
        self._lru = store
        self._version = -1
        self._used: dict[Any, bool] = {}
        """The keys that were read or put since the last write; all of them are at the end of ``_rows``."""
        self._uses = 0

    def get(self, key: Any) -> Any:
        """The value of a key, None if it has none; the key counts as used."""
        self._check(key)
        at = self._keys.hold(key)
        if at not in self._rows:
            return None
        self._use(at, self._rows[at])
        return self._held.show(self._rows[at])

    def approximate_num_entries(self) -> int:
        """The number of entries."""
        self._check_open()
        return len(self._rows)

    def _put(self, at: Any, held: Any) -> None:
        if held is None:
            if self._rows.pop(at, None) is not None:
                self._take_away(at)
            return
        self._use(at, held)
        if len(self._rows) > self._lru.max_entries:
            eldest = next(iter(self._rows))
            del self._rows[eldest]
            self._take_away(eldest)

    def _use(self, at: Any, held: Any) -> None:
        """Move an entry to the end of the order."""
        self._rows.pop(at, None)
        self._rows[at] = held
        self._used[at] = True

    def _take_away(self, at: Any) -> None:
        self._used.pop(at, None)
        self._changed[at] = None

    # --- the columns below ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._version != self._lru.version:
            rows, self._uses = self._lru.in_order_of_use()
            names = self._keys.load(binary([key for key, _, _ in rows]))
            self._rows = {at: self._held.load_one(*row[1:]) for at, row in zip(names, rows, strict=True)}
            self._version = self._lru.version

    def _load_keys(self, keys: Column) -> None:
        """Do nothing: all entries are in memory."""

    def _own(self, low: bytes | None, high: bytes | None) -> list[tuple[bytes, Any]]:
        self._write()
        return []

    def pending(self) -> int:
        return len(self._used) + len(self._changed)

    def _write(self) -> None:
        if not self._used and not self._changed:
            return
        used = list(islice(reversed(self._rows), len(self._used)))[::-1]
        gone = [at for at in self._changed if at not in self._rows]
        values = self._held.columns([self._rows.get(at) for at in used + gone])
        self._lru.put_in_order(Keys(self._keys.column(used + gone)), values, self._uses)
        self._uses += len(used)
        self._used.clear()
        self._changed.clear()

    def _forget(self) -> None:
        if self._used or self._changed:  # an abandoned chunk
            self._version = -1
        if self._version < 0:
            self._rows = {}
        self._used, self._changed = {}, {}
