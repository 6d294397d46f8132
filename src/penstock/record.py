"""The values that user code meets: a record, a windowed key, the key of a session."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

K = TypeVar("K")

_record = tuple.__new__
"""What a call of ``Record`` ends in; processors make one for each record that they forward."""


class Windowed(NamedTuple, Generic[K]):
    """A key together with its window, both ends in milliseconds.

    The end is exclusive for time windows and inclusive for sessions and sliding windows, as in Kafka Streams.

    >>> Windowed("JFK", 0, 3_600_000).start
    0
    """

    key: K
    start: int
    end: int


class SessionKey(NamedTuple):
    """A session of a key: the times of its first and its last record, which are equal for a single record.

    >>> SessionKey("ann", 5, 9)
    SessionKey(key='ann', start=5, end=9)
    """

    key: Any
    start: int
    end: int


class ValueAndTimestamp(NamedTuple):
    """A value and the time of the record that gave it: what timestamped stores have for a key.

    >>> ValueAndTimestamp("late", 1000).timestamp
    1000
    """

    value: Any
    timestamp: int


class ConsumerRecord(NamedTuple):
    """One record of a topic, decoded, and where it stands."""

    key: Any
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]
    topic: str
    partition: int
    offset: int


class Record(NamedTuple):
    """One record of a topic, decoded.

    >>> Record("JFK", {"delay": 5}, 1000).timestamp
    1000
    """

    key: Any
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()

    def with_key(self, key: Any) -> Record:
        """This record under another key."""
        return _record(Record, (key, self.value, self.timestamp, self.headers))

    def with_value(self, value: Any) -> Record:
        """This record with another value.

        >>> Record("JFK", 1, 1000).with_value(2)
        Record(key='JFK', value=2, timestamp=1000, headers=())
        """
        key, _, timestamp, headers = self
        return _record(Record, (key, value, timestamp, headers))

    def with_timestamp(self, timestamp: int) -> Record:
        """This record at another time, in milliseconds."""
        return _record(Record, (self.key, self.value, timestamp, self.headers))

    def with_headers(self, headers: tuple[tuple[str, bytes], ...]) -> Record:
        """This record with other headers: pairs of a name and bytes."""
        return _record(Record, (self.key, self.value, self.timestamp, tuple(headers)))
