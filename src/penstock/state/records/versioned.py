"""A versioned store record by record."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import binary
from penstock.columns.column import Column
from penstock.record import ValueAndTimestamp
from penstock.serdes import Serde
from penstock.state.columns.rows import Keys
from penstock.state.kinds.versioned.puts import VersionedPuts
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.records.held import HeldValues
from penstock.state.records.view import RecordView
from penstock.state.shapes import VersionedKeyValueStore, VersionedRecord
from penstock.values.times import Time, bound

_log = logging.getLogger(__name__)
_MISSING: Any = object()


class VersionedRecords(RecordView[VersionedStore], VersionedKeyValueStore[Any, Any]):
    """Every version of every key's value, for as long as the history reaches back (KIP-889, KIP-914).

    The history retention is the grace period as well, counted from the store's stream time, which is the latest
    timestamp that was put.

    >>> from penstock.serdes import INT, STR
    >>> from penstock.state.records import record_view
    >>> prices = record_view(VersionedStore("prices", history_retention=100), STR, INT)
    >>> prices.begin()
    >>> prices.put("tea", 1, 10), prices.put("tea", 3, 30), prices.put("tea", 2, 20)
    (-1, -1, 30)
    >>> prices.get("tea", as_of=25)
    VersionedRecord(value=2, timestamp=20, valid_to=30)
    >>> prices.delete("tea", 40), prices.get("tea")
    (VersionedRecord(value=3, timestamp=30, valid_to=None), None)
    >>> prices.end()
    """

    def __init__(self, store: VersionedStore, key: Serde, values: HeldValues):
        super().__init__(store, key, values)
        self._now = -1
        self._has_warned = False
        self._latest: dict[Any, ValueAndTimestamp | None] = {}
        """The known latest values, in held form."""
        self._puts: list[tuple[Any, Any, int]] = []
        """Puts at the end of their key's history: their outcome is known before they are in the store."""

    def get(self, key: Any, as_of: Time | None = None) -> VersionedRecord[Any] | None:
        """The latest version of a key, or the one that was valid at a time; None without such a version, or if the
        history does not reach back so far."""
        self._check(key)
        at = self._keys.hold(key)
        time = None if as_of is None else bound(as_of)
        latest = self._latest_of(at)
        if latest is not None and (time is None or latest.timestamp <= time):
            return VersionedRecord(self._held.show(latest.value), latest.timestamp)
        if time is None:
            return None
        if time < max(oldest := self._now - self._store.retention, 0):
            self._warn_of_history(time, oldest)
            return None
        self._write()
        row = self._store.get_one(self._keys.bytes_of(at), time)
        return None if row is None else VersionedRecord(self._shown(row.value), row.valid_from, row.valid_to)

    def _warn_of_history(self, time: int, oldest: int) -> None:
        """Log the first read behind the history; joins count theirs."""
        if not self._has_warned and time < oldest:
            self._has_warned = True
            _log.warning(
                "the store %r was read as of %d, but its history reaches back to %d: the answer is None, and so are "
                "further ones, which are not logged. Give the store a longer history retention",
                *(self.name, time, oldest),
            )

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Write a version, valid from a time on; None is a deletion at this time.

        Returns:
            until when it is valid, in milliseconds; ``VALID_TO_UNDEFINED`` (-1) for the latest, and ``NOT_PUT``
            (-2**63) for one that is older than the history and was not put.
        """
        self._check(key)
        self._check_time(timestamp, "timestamp of a version")
        at, held = self._keys.hold(key), self._held.hold(value)
        if timestamp < self._now - self._store.retention:
            self.on_refused(self.name, "version")
            return self.NOT_PUT
        latest = self._latest_of(at)
        is_last = held is not None and timestamp >= self._now if latest is None else timestamp >= latest.timestamp
        self._now = max(self._now, timestamp)
        if not is_last:
            return self._put_among(at, held, timestamp)
        self._puts.append((at, held, timestamp))
        self._latest[at] = None if held is None else ValueAndTimestamp(held, timestamp)
        return self.VALID_TO_UNDEFINED

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        """Delete a key from a time on. Return the version that was valid at that time; None if there was none, or if
        the history does not reach back so far and nothing was done."""
        self._check(key)
        self._check_time(timestamp, "timestamp of a deletion")
        if timestamp < self._now - self._store.retention:
            self.on_refused(self.name, "version")
            return None
        found = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return found

    # --- the columns below ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._now = self._store.observed_stream_time

    def _latest_of(self, at: Any) -> ValueAndTimestamp | None:
        latest: ValueAndTimestamp | None = self._latest.get(at, _MISSING)
        if latest is _MISSING:
            found = self._store.latest_one(self._keys.bytes_of(at))
            latest = None if found is None else ValueAndTimestamp(self._held.load_one(*found), found[1])
            self._latest[at] = latest
        return latest

    def _load_keys(self, keys: Column) -> None:
        distinct = pc.unique(keys.encoded()).drop_null()
        if len(distinct):
            found = self._store.get(Keys(distinct))
            rows = zip(self._held.load(found), found.timestamps.tolist(), strict=True)
            latest = [None if row[0] is None else ValueAndTimestamp._make(row) for row in rows]
            self._latest.update(zip(self._keys.load(distinct), latest, strict=True))

    def _put_among(self, at: Any, held: Any, timestamp: int) -> int:
        """Put a version between existing versions of the store."""
        self._write()
        self._latest.pop(at, None)
        data = self._held.columns([held]).data[0].as_py()
        return self._store.put_one(self._keys.bytes_of(at), data, timestamp)

    def _shown(self, data: bytes) -> Any:
        return self._held.show(self._held.load_one(data, -1))

    def pending(self) -> int:
        return len(self._puts)

    def _write(self) -> None:
        if self._puts:
            puts, self._puts = self._puts, []
            rows = binary([self._keys.bytes_of(at) for at, _, _ in puts]).dictionary_encode()
            times = np.array([timestamp for _, _, timestamp in puts], np.int64)
            data = self._held.columns([held for _, held, _ in puts]).data
            codes = rows.indices.to_numpy().astype(np.int64)
            VersionedPuts(self._store, Keys(rows.dictionary.cast(pa.binary())), codes, times, data).apply()

    def _forget(self) -> None:
        self._latest, self._puts = {}, []
