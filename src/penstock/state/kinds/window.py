"""The window store: values by key and window start, in segments of time that expire as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.arrays import Binary, IntArray, last_numbers, without_last
from penstock.state.database import Database
from penstock.state.rows import Keys, Values
from penstock.state.store import Located, Part, StateStore
from penstock.state.transactional import TransactionalKeyValueStore

MIN_SEGMENT_INTERVAL = 60_000

WindowRow = tuple[bytes, int, bytes, int]
"""Key, window start, value, timestamp."""


class TransactionalSegment(TransactionalKeyValueStore):
    """The rows of one stretch of time; it meets the disk only if it lives to see a flush."""

    def _logical(self, keys: Binary) -> Keys:
        return Keys(without_last(keys, 8), last_numbers(keys))


class WindowStore(StateStore):
    """Values by key and window start.

    Windows that begin at or before the store's stream time minus the retention are not visible any more. They go
    away with their segment, at the cost of dropping it, however many rows it has.

    Args:
        name: the store's name.
        retention: milliseconds for which windows are kept, by their start.
        in_memory: keep all rows in memory, and iterate by start.
    """

    def __init__(self, name: str, retention: int, in_memory: bool = False):
        self.name = name
        self.retention = retention
        self.in_memory = in_memory
        self.segment_interval = max(retention // 2, MIN_SEGMENT_INTERVAL)
        self.observed_stream_time = -1
        self._committed_stream_time = -1
        self._segments: dict[int, TransactionalSegment] = {}
        self._expired: dict[int, TransactionalSegment] = {}
        self._dropped: list[str] = []

    def pieces(self) -> list[TransactionalKeyValueStore]:
        return list(self._segments.values())

    def open(self, database: Database | None) -> None:
        if database is not None:
            prefix = f"{self.name}/"
            for family in database.families():
                if family.startswith(prefix):
                    segment = TransactionalSegment(database.family(family))
                    self._segments[int(family[len(prefix) :])] = segment
                    if self.in_memory:
                        segment.load_all()

    # --- reading and writing -------------------------------------------------------------------------------------

    def locate(self, keys: Keys) -> Located:
        """Look up distinct pairs of key and window start; windows that are gone stay without a row."""
        assert keys.times is not None
        ids = keys.times // self.segment_interval
        oldest = self._oldest_live_segment()
        if len(ids) and ids[0] == ids[-1] and (ids == ids[0]).all():
            groups = [(int(ids[0]), np.arange(len(ids)))]
        else:
            groups = [(int(i), np.flatnonzero(ids == i)) for i in np.unique(ids)]
        parts = []
        for id_, places in groups:
            if id_ >= oldest:
                segment = self._segments.get(id_) or self._segments.setdefault(id_, TransactionalSegment())
                part = keys if len(places) == len(keys) else keys.take(places)
                parts.append(Part(segment, segment.find(part), places))
        return Located(keys, parts)

    def put(self, located: Located, values: Values) -> None:
        located.put(values)
        times = located.keys.times
        if times is not None and times.size:
            self.advance(int(times.max()))

    def advance(self, stream_time: int) -> None:
        """Move the store's stream time and let go of the segments that lie wholly in the past."""
        if stream_time > self.observed_stream_time:
            self.observed_stream_time = stream_time
            oldest = self._oldest_live_segment()
            for id_ in [id_ for id_ in self._segments if id_ < oldest]:
                self._expired[id_] = self._segments.pop(id_)

    def visible(self, starts: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which windows can still be seen, by their start."""
        return starts > self.observed_stream_time - self.retention

    def _oldest_live_segment(self) -> int:
        return (self.observed_stream_time - self.retention + 1) // self.segment_interval

    def fetch(self, key: bytes, earliest: int, latest: int) -> Iterator[tuple[int, bytes, int]]:
        """The windows of one key that begin in a range of time, ends included: start, value, timestamp."""
        first = max(earliest, self.observed_stream_time - self.retention + 1, 0)
        for id_ in sorted(self._segments):
            for row_key, value, timestamp in self._segments[id_].prefix_scan(key):
                start = int.from_bytes(row_key[-8:], "big")
                if len(row_key) == len(key) + 8 and first <= start <= latest:
                    yield start, value, timestamp

    def rows(self) -> Iterator[WindowRow]:
        rows = (
            (row_key[:-8], int.from_bytes(row_key[-8:], "big"), value, timestamp)
            for id_ in sorted(self._segments)
            for row_key, value, timestamp in self._segments[id_].scan()
        )
        seen = (row for row in rows if row[1] > self.observed_stream_time - self.retention)
        return iter(sorted(seen, key=lambda row: (row[1], row[0]))) if self.in_memory else seen

    # --- transactions and the disk -------------------------------------------------------------------------------

    def commit(self) -> None:
        super().commit()
        self._committed_stream_time = self.observed_stream_time
        self._dropped += [self._family(id_) for id_, segment in self._expired.items() if segment.base is not None]
        self._expired.clear()

    def rollback(self) -> None:
        self._segments.update(self._expired)
        self._expired.clear()
        super().rollback()
        self.observed_stream_time = self._committed_stream_time

    def families(self) -> dict[str, TransactionalKeyValueStore]:
        return {self._family(id_): segment for id_, segment in self._segments.items()}

    def flushed(self, database: Database) -> None:
        super().flushed(database)
        there = set(database.families())
        for id_, segment in self._segments.items():  # one without rows, as a rollback leaves them, gets no family
            if segment.base is None and self._family(id_) in there:
                segment.base = database.family(self._family(id_))
        for family in self._dropped:
            database.drop(family)
        self._dropped.clear()

    def evict(self, everything: bool = False) -> None:
        if not self.in_memory:
            super().evict(everything)

    def state(self) -> dict[str, int]:
        return {"observed_stream_time": self.observed_stream_time}

    def restore_state(self, numbers: dict[str, int]) -> None:
        self.advance(numbers["observed_stream_time"])
        self._committed_stream_time = self.observed_stream_time

    def _family(self, id_: int) -> str:
        return f"{self.name}/{id_}"
