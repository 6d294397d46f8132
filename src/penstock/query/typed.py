"""Typed queries (KIP-796 and its successors) and requests to stores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.query.position import PositionBound
from penstock.state.interface import IsolationLevel
from penstock.values.durations import MAX_MS
from penstock.values.times import Time


@dataclass(frozen=True)
class Query:
    """The base of all queries.

    >>> isinstance(KeyQuery.with_key("JFK"), Query)
    True
    """


@dataclass(frozen=True)
class KeyQuery(Query):
    """The value of a key (KIP-796).

    >>> KeyQuery.with_key("JFK")
    KeyQuery(key='JFK')
    """

    key: Any

    @classmethod
    def with_key(cls, key: Any) -> Self:
        """Ask for this key."""
        if key is None:
            raise ConfigError(f"{cls.__name__}.with_key: the key must not be None")
        return cls(key)

    def skip_cache(self) -> Self:
        """No effect: queries always ask the store, which has every row. Caches only hold records back from later
        steps."""
        return self


class TimestampedKeyQuery(KeyQuery):
    """The value of a key with its timestamp (KIP-992).

    >>> TimestampedKeyQuery.with_key("JFK").key
    'JFK'
    """


@dataclass(frozen=True)
class RangeQuery(Query):
    """Keys and values with ``lower <= key <= upper``, in order of the keys' bytes (KIP-805).

    >>> RangeQuery.with_lower_bound("B").with_descending_keys()
    RangeQuery(lower='B', upper=None, descending=True)
    """

    lower: Any = None
    upper: Any = None
    descending: bool = False

    @classmethod
    def with_range(cls, lower: Any, upper: Any) -> Self:
        """Ask for the keys between two bounds, which belong to the range; None is no bound."""
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: Any) -> Self:
        """Ask for the keys at or above a bound."""
        return cls(lower, None)

    @classmethod
    def with_upper_bound(cls, upper: Any) -> Self:
        """Ask for the keys up to a bound."""
        return cls(None, upper)

    @classmethod
    def with_no_bounds(cls) -> Self:
        """Ask for all keys."""
        return cls()

    def with_ascending_keys(self) -> Self:
        """The lowest key first."""
        return replace(self, descending=False)

    def with_descending_keys(self) -> Self:
        """The highest key first."""
        return replace(self, descending=True)


class TimestampedRangeQuery(RangeQuery):
    """All rows with keys between two bounds, each value with its timestamp (KIP-992).

    >>> TimestampedRangeQuery.with_range("B", "C").upper
    'C'
    """


class TimestampedKeyWithHeadersQuery(KeyQuery):
    """The value of a key with its timestamp and its headers, as a ``Record`` (KIP-1356).

    >>> TimestampedKeyWithHeadersQuery.with_key("JFK").key
    'JFK'
    """


class TimestampedRangeWithHeadersQuery(RangeQuery):
    """All rows with keys between two bounds, as ``Record`` with timestamps and headers (KIP-1356).

    >>> TimestampedRangeWithHeadersQuery.with_lower_bound("B").lower
    'B'
    """


@dataclass(frozen=True)
class WindowKeyQuery(Query):
    """The windows of a key that begin in a range of time, ends included (KIP-806).

    >>> WindowKeyQuery.with_key_and_window_start_range("JFK", 0, 3_600_000)
    WindowKeyQuery(key='JFK', earliest=0, latest=3600000)
    """

    key: Any
    earliest: Time
    latest: Time

    @classmethod
    def with_key_and_window_start_range(cls, key: Any, earliest: Time, latest: Time) -> Self:
        """Ask for the windows of this key that begin between these times."""
        return cls(key, earliest, latest)


@dataclass(frozen=True)
class WindowRangeQuery(Query):
    """The sessions of a key, or the windows of all keys that begin in a range of time (KIP-806).

    >>> WindowRangeQuery.with_window_start_range(0, 10)
    WindowRangeQuery(key=None, earliest=0, latest=10)
    """

    key: Any = None
    earliest: Time | None = None
    latest: Time | None = None

    @classmethod
    def with_key(cls, key: Any) -> Self:
        """Ask for the sessions of this key."""
        return cls(key)

    @classmethod
    def with_window_start_range(cls, earliest: Time, latest: Time) -> Self:
        """Ask for the windows of all keys that begin between these times, ends included."""
        return cls(None, earliest, latest)


class TimestampedWindowKeyWithHeadersQuery(WindowKeyQuery):
    """The windows of a key, as ``Record`` of windowed keys, with timestamps and headers (KIP-1356).

    >>> TimestampedWindowKeyWithHeadersQuery.with_key_and_window_start_range("JFK", 0, 10).latest
    10
    """


class TimestampedWindowRangeWithHeadersQuery(WindowRangeQuery):
    """The windows of all keys, or the sessions of one, as ``Record`` of windowed keys with headers (KIP-1356).

    >>> TimestampedWindowRangeWithHeadersQuery.with_key("JFK").key
    'JFK'
    """


@dataclass(frozen=True)
class VersionedKeyQuery(Query):
    """The latest version of a key, or the one that was valid at a time (KIP-960).

    >>> VersionedKeyQuery.with_key("apple").as_of(1_000)
    VersionedKeyQuery(key='apple', time=1000)
    """

    key: Any
    time: Time | None = None

    @classmethod
    def with_key(cls, key: Any) -> Self:
        """Ask for this key."""
        return cls(key)

    def as_of(self, time: Time) -> Self:
        """Ask for the version that was valid at a time."""
        return replace(self, time=time)


@dataclass(frozen=True)
class MultiVersionedKeyQuery(Query):
    """The versions of a key that were valid in a range of time, ends included (KIP-968); the latest first unless told.

    >>> MultiVersionedKeyQuery.with_key("apple").from_time(1_000).with_ascending_timestamps()
    MultiVersionedKeyQuery(key='apple', earliest=1000, latest=9223372036854775807, ascending=True)
    """

    key: Any
    earliest: Time = 0
    latest: Time = MAX_MS
    ascending: bool = False

    @classmethod
    def with_key(cls, key: Any) -> Self:
        """Ask for this key."""
        return cls(key)

    def from_time(self, time: Time) -> Self:
        """Only versions that were still valid then."""
        return replace(self, earliest=time)

    def to_time(self, time: Time) -> Self:
        """Only versions that were valid by then."""
        return replace(self, latest=time)

    def with_ascending_timestamps(self) -> Self:
        """The oldest first."""
        return replace(self, ascending=True)

    def with_descending_timestamps(self) -> Self:
        """The latest first."""
        return replace(self, ascending=False)


@dataclass(frozen=True)
class QueryConfig:
    """How a query is executed (KIP-796, KIP-892).

    >>> from penstock import IsolationLevel
    >>> QueryConfig(isolation_level=IsolationLevel.READ_COMMITTED).collect_execution_info
    False
    """

    collect_execution_info: bool = False
    isolation_level: IsolationLevel | None = None
    """Whether it sees uncommitted writes; None for the application's level."""


@dataclass(frozen=True)
class StateQueryRequest:
    """A query and the store that it is for.

    >>> request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("JFK")).with_partitions({0})
    >>> request.store, request.partitions
    ('counts', frozenset({0}))
    """

    store: str
    query: Query | None = None
    position_bound: PositionBound = field(default_factory=PositionBound)
    partitions: frozenset[int] | None = None
    """None for all."""
    has_execution_info: bool = False
    isolation_level: IsolationLevel | None = None
    """None for that of the application."""
    is_require_active: bool = False
    """Whether ``require_active`` was said."""

    @classmethod
    def in_store(cls, name: str) -> StateQueryRequest:
        """A request to a store."""
        return cls(name)

    def with_query(self, query: Query) -> StateQueryRequest:
        """Ask this query."""
        if not isinstance(query, Query):
            raise ConfigError(f"with_query takes a query such as KeyQuery.with_key(key); got {show(query)}")
        return replace(self, query=query)

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest:
        """Accept only answers whose position has reached a bound."""
        return replace(self, position_bound=bound)

    def with_partitions(self, partitions: set[int]) -> StateQueryRequest:
        """Ask only these partitions."""
        return replace(self, partitions=frozenset(partitions))

    def with_all_partitions(self) -> StateQueryRequest:
        """Ask all partitions (the default)."""
        return replace(self, partitions=None)

    def require_active(self) -> StateQueryRequest:
        """No effect: the task that processes the partition always answers. Standby copies (``standby_replicas``) never
        answer."""
        return replace(self, is_require_active=True)

    def enable_execution_info(self) -> StateQueryRequest:
        """Include information about the execution in the results."""
        return replace(self, has_execution_info=True)

    def with_isolation_level(self, isolation_level: IsolationLevel) -> StateQueryRequest:
        """Use this isolation level instead of the application's (KIP-892).

        >>> from penstock import IsolationLevel
        >>> request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("JFK"))
        >>> request.with_isolation_level(IsolationLevel.READ_UNCOMMITTED).isolation_level
        <IsolationLevel.READ_UNCOMMITTED: 'read_uncommitted'>
        """
        if not isinstance(isolation_level, IsolationLevel):
            raise ConfigError(f"with_isolation_level takes an IsolationLevel; got {show(isolation_level)}")
        return replace(self, isolation_level=isolation_level)
