"""The versions of one key, put one after the other: exactly the rules of Kafka Streams' versioned store."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

VALID_TO_UNDEFINED = -1
"""The result of a put for the latest version of a key (KIP-914)."""

NOT_PUT = -(2**63)
"""The result of a put that was too late and was not carried out (KIP-914)."""


class Version(NamedTuple):
    """A value, or None for a deletion, and the start of its validity."""

    value: bytes | None
    valid_from: int


class Timeline:
    """The latest value of a key, and its older versions by their ends.

    As in Kafka Streams, deletions are stored as ends of versions, as versions of their own, or, if no version precedes
    them, as versions that end where they begin. A deletion of the latest value at the same time as its put removes the
    value and stores nothing.

    Args:
        latest: the latest value, if there is one.
        remembers_deletions: store that deletion, too, as a version that ends where it begins.

    >>> key = Timeline()
    >>> key.put(b"v10", 10), key.put(b"v30", 30), key.put(b"v20", 20)
    (-1, -1, 30)
    >>> key.get(25)
    Version(value=b'v20', valid_from=20)
    """

    def __init__(self, latest: Version | None = None, remembers_deletions: bool = False) -> None:
        self.latest = latest
        self._remembers_deletions = remembers_deletions
        self.older: dict[int, Version] = {}
        """Older versions by their ends."""
        self.changed: set[int] = set()
        """The ends of the older versions that were written."""
        self._ends: list[int] = []

    def load(self, end: int, version: Version) -> None:
        """Add an older version from the store."""
        if end not in self.older:
            insort(self._ends, end)
            self.older[end] = version

    def put(self, value: bytes | None, timestamp: int) -> int:
        """Put a version, which is not too old, and return the end of its validity."""
        latest = self.latest
        if latest is not None and timestamp >= latest.valid_from:
            if timestamp > latest.valid_from:
                self._write(timestamp, latest)
            elif value is None and self._remembers_deletions and timestamp not in self.older:
                self._write(timestamp, Version(None, timestamp))
            self.latest = None if value is None else Version(value, timestamp)
            return VALID_TO_UNDEFINED
        place = bisect_right(self._ends, timestamp)
        if place < len(self._ends):
            return self._put_before(self._ends[place], value, timestamp)
        if latest is not None:
            self._write(latest.valid_from, Version(value, timestamp))
            return latest.valid_from
        if value is not None:
            self.latest = Version(value, timestamp)
        elif timestamp not in self.older:
            self._write(timestamp, Version(None, timestamp))
        return VALID_TO_UNDEFINED

    def _put_before(self, end: int, value: bytes | None, timestamp: int) -> int:
        """Put a version, given the next older version to end."""
        there = self.older[end]
        if there.valid_from > timestamp:  # after a deletion that reaches up to it
            self._write(there.valid_from, Version(value, timestamp))
            return there.valid_from
        if there.valid_from < timestamp:
            self._write(timestamp, there)
        self._write(end, Version(value, timestamp))
        return end

    def _write(self, end: int, version: Version) -> None:
        self.load(end, version)
        self.older[end] = version
        self.changed.add(end)

    def get(self, as_of: int) -> Version | None:
        """The version that is valid at a time, or None."""
        if self.latest is not None and self.latest.valid_from <= as_of:
            return self.latest
        place = bisect_right(self._ends, as_of)
        if place == len(self._ends):
            return None
        there = self.older[self._ends[place]]
        return there if there.valid_from <= as_of and there.value is not None else None
