"""The methods of key-value, window, session and versioned stores: Kafka's, in Python's spelling.

Record views, which processors use, and users' own stores extend these classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from penstock.errors import StoreError
from penstock.messages import show
from penstock.record import SessionKey, Windowed
from penstock.state.interface import StateStore
from penstock.values.durations import MAX_MS

K = TypeVar("K")
V = TypeVar("V")


def pairs(entries: Iterable[tuple[K, V | None]]) -> Iterator[tuple[K, V | None]]:
    """Yield the pairs of key and value that ``put_all`` takes.

    Raises:
        StoreError: it is a dict, whose keys alone would be iterated over, or one of them is no pair.
    """
    if isinstance(entries, Mapping):
        raise StoreError("put_all takes pairs of key and value; got a dict: give its items()")
    for entry in entries if isinstance(entries, Iterable) else (entries,):
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise StoreError(f"put_all takes pairs of key and value, such as [(key, value)]; got {show(entry)}")
        yield entry[0], entry[1]


class KeyValueStore(StateStore, Generic[K, V]):
    """The latest value of every key.

    Your own class has ``put``, ``get`` and ``range``, and the methods of every store. The other methods use these;
    override them if your medium has something faster.

    >>> class Words(KeyValueStore[bytes, bytes]):
    ...     name, persistent, is_open = "words", False, True
    ...
    ...     def init(self, context, root):
    ...         self.rows = {}
    ...
    ...     def close(self):
    ...         self.rows = {}
    ...
    ...     def commit(self, changelog_offsets):
    ...         pass
    ...
    ...     def put(self, key, value):
    ...         self.rows.pop(key, None) if value is None else self.rows.update({key: value})
    ...
    ...     def get(self, key):
    ...         return self.rows.get(key)
    ...
    ...     def range(self, low=None, high=None):
    ...         for key in sorted(self.rows):
    ...             if (low is None or key >= low) and (high is None or key <= high):
    ...                 yield key, self.rows[key]
    >>> words = Words()
    >>> words.init(None, words)
    >>> words.put_all([(b"bee", b"1"), (b"ant", b"2"), (b"asp", b"3")])
    >>> words.delete(b"ant"), list(words.reverse_all()), list(words.prefix_scan(b"a"))
    (b'2', [(b'bee', b'1'), (b'asp', b'3')], [(b'asp', b'3')])
    """

    store_shape: ClassVar[str] = "key_value"
    """Which of the suppliers and builders take it."""

    @abstractmethod
    def put(self, key: K, value: V | None) -> None:
        """Write a value; None deletes."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a key; None if it has none."""

    @abstractmethod
    def range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, V]]:
        """Keys and values with ``low <= key <= high``, in order of the keys' bytes; None is no bound."""

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Write a value unless the key has one; return the previous value."""
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Write several pairs."""
        for key, value in pairs(entries):
            self.put(key, value)

    def delete(self, key: K) -> V | None:
        """Delete a key; return its value."""
        found = self.get(key)
        self.put(key, None)
        return found

    def all(self) -> Iterator[tuple[K, V]]:
        """All keys and values, in order of the keys' bytes."""
        return self.range()

    def reverse_range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[K, V]]:
        """The rows of ``range``, backwards. Unless the class overrides this, it holds the rows in memory."""
        return reversed(list(self.range(low, high)))

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """All keys and values, backwards."""
        return self.reverse_range()

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[K, V]]:
        """Keys and values where the bytes of the key begin with a prefix. This implementation is for stores of
        bytes."""
        for key, value in self.range(prefix):
            if not key.startswith(prefix):  # type: ignore[attr-defined]
                return
            yield key, value

    def approximate_num_entries(self) -> int:
        """The approximate number of rows."""
        return sum(1 for _ in self.all())


class TimestampedBytesStore:
    """Marks a persistent store class that keeps timestamps with the values of a table, as in Kafka Streams: 8 bytes of
    timestamp, big endian, before the value. Stores that are not persistent receive the same.

    A persistent store without the mark receives only the value, so the timestamps are lost at a restart.

    >>> class Rows(KeyValueStore[bytes, bytes], TimestampedBytesStore):
    ...     "A class of one's own that keeps timestamps."
    """


class WindowStore(StateStore, Generic[K, V]):
    """Values of keys and windows; a window is identified by its start. ``Stores`` lists the available ones.

    Your own class has ``put``, ``fetch`` and ``fetch_range``, and the methods of every store.

    Times are in milliseconds, both ends of a range included.

    >>> from penstock import StreamsBuilder, TimeWindows
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> windows = TimeWindows.of_size_with_no_grace(10)
    >>> _ = builder.stream("in").group_by_key().windowed_by(windows).count("counts")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_record_list("in", [("a", "x", 13), ("a", "y", 14)])
    >>> counts = driver.get_window_store("counts")
    >>> counts.get("a", 10), list(counts.fetch("a", 0, 20))
    (2, [(10, 2)])
    """

    store_shape: ClassVar[str] = "window"
    """Which of the suppliers and builders take it."""

    @abstractmethod
    def put(self, key: K, value: V | None, window_start: int) -> None:
        """Write the value of a key's window; None deletes."""

    @abstractmethod
    def fetch(self, key: K, time_from: int = 0, time_to: int = MAX_MS) -> Iterator[tuple[int, V]]:
        """Start and value of a key's windows that begin in a range of time, in order of time."""

    @abstractmethod
    def fetch_range(
        self, low: K | None = None, high: K | None = None, time_from: int = 0, time_to: int = MAX_MS
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Window and value of all keys with ``low <= key <= high`` (None: no bound) that begin in a range of time."""

    def backward_fetch(self, key: K, time_from: int = 0, time_to: int = MAX_MS) -> Iterator[tuple[int, V]]:
        """The windows of ``fetch``, backwards."""
        return reversed(list(self.fetch(key, time_from, time_to)))

    def backward_fetch_range(
        self, low: K | None = None, high: K | None = None, time_from: int = 0, time_to: int = MAX_MS
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The windows of ``fetch_range``, backwards."""
        return reversed(list(self.fetch_range(low, high, time_from, time_to)))

    def get(self, key: K, window_start: int) -> V | None:
        """The value of one window of a key; None if it has none."""
        return next((value for _, value in self.fetch(key, window_start, window_start)), None)

    def fetch_all(self, time_from: int = 0, time_to: int = MAX_MS) -> Iterator[tuple[Windowed[K], V]]:
        """Windowed keys and values of all windows that begin in a range of time."""
        return self.fetch_range(None, None, time_from, time_to)

    def backward_fetch_all(self, time_from: int = 0, time_to: int = MAX_MS) -> Iterator[tuple[Windowed[K], V]]:
        """The windows of ``fetch_all``, backwards."""
        return self.backward_fetch_range(None, None, time_from, time_to)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """Windowed keys and values of all windows."""
        return self.fetch_all()

    def backward_all(self) -> Iterator[tuple[Windowed[K], V]]:
        """The windows of ``all``, backwards."""
        return self.backward_fetch_all()


class SessionStore(StateStore, Generic[K, V]):
    """Aggregates of sessions; a session is identified by its key and the times of its first and last record.

    Your own class has ``put``, ``find_sessions`` and ``find_sessions_in_range``, and the methods of every store.

    Times are in milliseconds, both ends of a session included.

    >>> from penstock import SessionWindows, StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> gap = SessionWindows.of_inactivity_gap_with_no_grace(10)
    >>> _ = builder.stream("in").group_by_key().windowed_by(gap).count("visits")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_record_list("in", [("a", "x", 3), ("a", "y", 9)])
    >>> list(driver.get_session_store("visits").fetch("a"))
    [(SessionKey(key='a', start=3, end=9), 2)]
    """

    store_shape: ClassVar[str] = "session"
    """Which of the suppliers and builders take it."""

    @abstractmethod
    def put(self, session: SessionKey, aggregate: V | None) -> None:
        """Write the aggregate of a session; None removes it."""

    @abstractmethod
    def find_sessions(
        self, key: K, earliest_end: int = 0, latest_start: int = MAX_MS
    ) -> Iterator[tuple[SessionKey, V]]:
        """The sessions of a key with ``end >= earliest_end`` and ``start <= latest_start``, by end and start."""

    def backward_find_sessions(
        self, key: K, earliest_end: int = 0, latest_start: int = MAX_MS
    ) -> Iterator[tuple[SessionKey, V]]:
        """The sessions of ``find_sessions``, backwards."""
        every: list[tuple[SessionKey, V]] = list(self.find_sessions(key, earliest_end, latest_start))
        return iter(every[::-1])

    @abstractmethod
    def find_sessions_in_range(
        self, low: K | None = None, high: K | None = None, earliest_end: int = 0, latest_start: int = MAX_MS
    ) -> Iterator[tuple[SessionKey, V]]:
        """The sessions of all keys with ``low <= key <= high`` (None: no bound) in the same time range as in
        ``find_sessions``."""

    def backward_find_sessions_in_range(
        self, low: K | None = None, high: K | None = None, earliest_end: int = 0, latest_start: int = MAX_MS
    ) -> Iterator[tuple[SessionKey, V]]:
        """The sessions of ``find_sessions_in_range``, backwards."""
        every: list[tuple[SessionKey, V]] = list(self.find_sessions_in_range(low, high, earliest_end, latest_start))
        return iter(every[::-1])

    def find_sessions_to_merge(
        self, key: K, earliest_session_end_time: int, latest_session_start_time: int
    ) -> Iterator[tuple[SessionKey, V]]:
        """The sessions of ``find_sessions``, under the name that KIP-94 gives them."""
        return self.find_sessions(key, earliest_session_end_time, latest_session_start_time)

    def remove(self, session: SessionKey) -> None:
        """Remove a session."""
        self.put(session, None)

    def fetch_session(self, key: K, start: int, end: int) -> V | None:
        """The aggregate of one session, or None."""
        for session, aggregate in self.find_sessions(key, end, start):
            if (session.start, session.end) == (start, end):
                return aggregate
        return None

    def fetch(self, key: K) -> Iterator[tuple[SessionKey, V]]:
        """All sessions of a key, by end and start."""
        return self.find_sessions(key)

    def backward_fetch(self, key: K) -> Iterator[tuple[SessionKey, V]]:
        """The sessions of ``fetch``, backwards."""
        return self.backward_find_sessions(key)

    def fetch_range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[SessionKey, V]]:
        """All sessions of all keys with ``low <= key <= high``; None is no bound."""
        return self.find_sessions_in_range(low, high)

    def backward_fetch_range(self, low: K | None = None, high: K | None = None) -> Iterator[tuple[SessionKey, V]]:
        """The sessions of ``fetch_range``, backwards."""
        return self.backward_find_sessions_in_range(low, high)


class VersionedRecord(NamedTuple, Generic[V]):
    """A value with the start and the end of its validity; ``valid_to`` is None for the latest.

    >>> VersionedRecord("cheap", 1_000, None).timestamp
    1000
    """

    value: V
    timestamp: int
    valid_to: int | None = None


class VersionedKeyValueStore(StateStore, Generic[K, V]):
    """Every version of every key's value, for as long as the history reaches back (KIP-889).

    >>> from penstock import Materialized, StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> _ = builder.table("prices", str, int, materialized=Materialized.as_versioned("prices", "1 day"))
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_record_list("prices", [("tea", 3, 1_000), ("tea", 4, 2_000)])
    >>> driver.get_versioned_key_value_store("prices").get("tea", 1_500)
    VersionedRecord(value=3, timestamp=1000, valid_to=2000)
    """

    store_shape: ClassVar[str] = "versioned"
    """Which of the suppliers and builders take it."""

    VALID_TO_UNDEFINED = -1
    """The result of ``put`` for the latest version."""
    NOT_PUT = -(2**63)
    """The result of ``put`` for a version that is older than the history."""
    PUT_RETURN_CODE_VALID_TO_UNDEFINED = VALID_TO_UNDEFINED
    """The name of ``VALID_TO_UNDEFINED`` in Kafka Streams."""
    PUT_RETURN_CODE_NOT_PUT = NOT_PUT
    """The name of ``NOT_PUT`` in Kafka Streams."""

    @abstractmethod
    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Write a version, valid from a time on; None is a deletion at this time.

        Returns:
            The end of its validity, in milliseconds; ``VALID_TO_UNDEFINED`` for the latest version, and ``NOT_PUT`` for
            a version that was too old to be written.
        """

    @abstractmethod
    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """The latest version of a key, or the one that was valid at a time, or None."""

    @abstractmethod
    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Delete a key from a time on; return the version that was valid at that time."""


class VersionedBytesStore(KeyValueStore[bytes, bytes], TimestampedBytesStore):
    """A versioned store of bytes, for a supplier of your own (KIP-914). ``VersionedKeyValueStore[bytes, bytes]`` is the
    other form, whose reads return ``VersionedRecord``s.

    Its results have 8 bytes of timestamp, big endian, before the value.

    >>> class Prices(VersionedBytesStore):
    ...     "Has put, get and delete, and the methods of every store."
    """

    store_shape: ClassVar[str] = "versioned"
    """Which of the suppliers and builders take it."""

    @abstractmethod
    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:  # type: ignore[override]
        """Write a version, valid from a time on; None is a deletion at this time. The result is that of
        ``VersionedKeyValueStore.put``."""

    @abstractmethod
    def get(self, key: bytes, as_of: int | None = None) -> bytes | None:
        """The latest version of a key, or the one that was valid at a time, or None."""

    @abstractmethod
    def delete(self, key: bytes, timestamp: int) -> bytes | None:  # type: ignore[override]
        """Delete a key from a time on; return the version that was valid at that time."""

    def range(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Not needed of a versioned store."""
        raise NotImplementedError
