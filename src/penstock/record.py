"""The values that user code meets: a record, a windowed key, the key of a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from penstock.usage.java_names import missing

K = TypeVar("K")


class Window(NamedTuple):
    """A stretch of time, both ends in milliseconds.

    >>> Window(0, 3_600_000).end
    3600000
    """

    start: int
    end: int


class Windowed(NamedTuple, Generic[K]):
    """A key and its window, with start and end in milliseconds.

    The end is exclusive for time windows and inclusive for sessions and sliding windows, as in Kafka Streams.

    >>> Windowed("JFK", 0, 3_600_000).start, Windowed("JFK", 0, 3_600_000).window
    (0, Window(start=0, end=3600000))
    """

    key: K
    start: int
    end: int

    @property
    def window(self) -> Window:
        """The window alone."""
        return Window(self.start, self.end)


if not TYPE_CHECKING:  # a named tuple cannot inherit it

    def _not_there(self: Windowed, name: str) -> Any:
        raise missing(type(self), name)

    Windowed.__getattr__ = _not_there


class SessionKey(NamedTuple):
    """A session of a key: the times of its first and its last record, which are equal for a single record.

    >>> SessionKey("ann", 5, 9)
    SessionKey(key='ann', start=5, end=9)
    """

    key: Any
    start: int
    end: int


class ValueAndTimestamp(NamedTuple):
    """A value and the timestamp of its record, as in timestamped stores.

    >>> ValueAndTimestamp("late", 1000).timestamp
    1000
    """

    value: Any
    timestamp: int


Headers = tuple[tuple[str, bytes], ...]
"""The headers of a record: pairs of a name and bytes."""


class ValueTimestampHeaders(NamedTuple):
    """A value with the time and the headers of its record, as in stores with headers (KIP-1271).

    >>> ValueTimestampHeaders("late", 1000, (("trace", b"5"),)).headers
    (('trace', b'5'),)
    """

    value: Any
    timestamp: int
    headers: Headers = ()


class AggregationWithHeaders(NamedTuple):
    """The aggregate of a session with headers, as in session stores with headers (KIP-1271).

    >>> AggregationWithHeaders(3, (("trace", b"5"),)).aggregation
    3
    """

    aggregation: Any
    headers: Headers = ()


class ConsumerRecord(NamedTuple):
    """One record of a topic, decoded, with its partition and offset.

    >>> record = ConsumerRecord("JFK", {"delay": 5}, 1000, (), "departures", 0, 17)
    >>> record.value["delay"], record.offset
    (5, 17)
    """

    key: Any
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]
    topic: str
    partition: int
    offset: int


class Record(msgspec.Struct, frozen=True, eq=False):
    """One record of a topic, decoded. It can be unpacked, indexed, compared and copied like a named tuple of its four
    fields.

    >>> record = Record("JFK", {"delay": 5}, 1000)
    >>> record.timestamp
    1000
    >>> key, value, *rest = record
    >>> value, record == ("JFK", {"delay": 5}, 1000, ())
    ({'delay': 5}, True)
    """

    key: Any
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()

    def with_key(self, key: Any) -> Record:
        """This record under another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> Record:
        """This record with another value.

        >>> Record("JFK", 1, 1000).with_value(2)
        Record(key='JFK', value=2, timestamp=1000, headers=())
        """
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record:
        """This record at another time, in milliseconds."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: tuple[tuple[str, bytes], ...]) -> Record:
        """This record with other headers: pairs of a name and bytes."""
        return Record(self.key, self.value, self.timestamp, tuple(headers))

    # The interface of named tuples, which records once were. Creating, reading and copying those took three times as
    # long.

    _fields: ClassVar[tuple[str, ...]] = ("key", "value", "timestamp", "headers")

    def _replace(self, **changes: Any) -> Record:
        return msgspec.structs.replace(self, **changes)

    def _asdict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)

    def _row(self) -> tuple[Any, ...]:
        return self.key, self.value, self.timestamp, self.headers

    def __iter__(self) -> Iterator[Any]:
        return iter(self._row())

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: Any) -> Any:
        return self._row()[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self._row() == other._row()
        return self._row() == other if isinstance(other, tuple) else NotImplemented

    def __lt__(self, other: Record | tuple[Any, ...]) -> bool:
        return self._row() < tuple(other)

    def __hash__(self) -> int:
        return hash(self._row())


def as_row(given: object) -> tuple[Any, ...] | None:
    """Return a record, or a tuple of its first fields, key and value at least, as a tuple; None for anything else."""
    if isinstance(given, Record):
        return given._row()
    return given if isinstance(given, tuple) and 2 <= len(given) <= 4 else None
