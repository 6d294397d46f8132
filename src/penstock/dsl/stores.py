"""Stores by Kafka Streams' names: for tables, by ``Materialized.as_``, and for processors, as store builders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.dsl.store_builder import (
    KeyValueStoreSupplier,
    SessionStoreSupplier,
    StoreBuilder,
    VersionedStoreSupplier,
    WindowStoreSupplier,
    own_shape,
)
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.functions import check_flag
from penstock.plan.names import check_name
from penstock.serdes import of
from penstock.usage.java_names import KafkaNames
from penstock.values.durations import Duration, to_ms


class Stores(KafkaNames):
    """The stores of Kafka Streams, under their names.

    A supplier describes a store; pass it to ``Materialized.as_`` for a table. A supplier with the types of keys and
    values makes a builder, for ``StreamsBuilder.add_state_store``:

    >>> supplier = Stores.persistent_window_store("visits", "1 day", "1 hour")
    >>> Stores.window_store_builder(supplier, str, int).name
    'visits'

    You may also give a supplier of your own: any object with a ``name`` and a ``get`` that returns a new
    ``StateStore``.
    """

    # --- suppliers -----------------------------------------------------------------------------------------------

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueStoreSupplier:
        """A store of the latest value of each key, on disk, with recently used rows in memory.

        >>> Stores.persistent_key_value_store("counts")
        KeyValueStoreSupplier(name='counts', in_memory=False, max_entries=None)
        """
        return KeyValueStoreSupplier(check_name(name))

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> KeyValueStoreSupplier:
        """A store of the latest value of each key with its timestamp, on disk, with recently used rows in memory.

        In Kafka Streams the format differs from that without timestamps; Penstock has a single format.
        """
        return KeyValueStoreSupplier(check_name(name))

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> KeyValueStoreSupplier:
        """A store of the latest value of every key with its timestamp and its headers, on disk (KIP-1271).

        >>> Stores.persistent_timestamped_key_value_store_with_headers("orders").keeps_headers
        True
        """
        return KeyValueStoreSupplier(check_name(name), keeps_headers=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueStoreSupplier:
        """A key-value store with all rows in memory, restored at a start like one on disk."""
        return KeyValueStoreSupplier(check_name(name), in_memory=True)

    @staticmethod
    def lru_map(name: str, max_cache_size: int) -> KeyValueStoreSupplier:
        """A key-value store with at most ``max_cache_size`` entries, which evicts the least recently used one.

        It is in memory. A start restores it together with the order of use.

        Raises:
            ConfigError: the size is not an int, or is negative.

        >>> Stores.lru_map("recent", 1000).max_entries
        1000
        """
        check_name(name)
        if type(max_cache_size) is not int or max_cache_size < 0:
            raise ConfigError(
                f"max_cache_size of store {name!r} must be a number of entries, 0 or more; got {show(max_cache_size)}"
            )
        return KeyValueStoreSupplier(name, in_memory=True, max_entries=max_cache_size)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedStoreSupplier:
        """A store of every version of a key's value, which looks up what was valid at a time (KIP-889, KIP-914).

        Args:
            name: the store's name.
            history_retention: how far back lookups reach. Older records are dropped, so this is also the grace period.
            segment_interval: how much time one segment of the history covers; history expires by whole segments. By
                default it follows from the history retention.

        Raises:
            ConfigError: a duration is negative or cannot be understood, or the segment interval is 0.

        >>> Stores.persistent_versioned_key_value_store("prices", "1 day").history_retention_ms
        86400000
        """
        return _versioned(name, history_retention, segment_interval, in_memory=False)

    @staticmethod
    def in_memory_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedStoreSupplier:
        """A versioned store like the persistent one, with all versions in memory and the same changelog."""
        return _versioned(name, history_retention, segment_interval, in_memory=True)

    @staticmethod
    def persistent_window_store(
        name: str,
        retention_period: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        segment_interval: Duration | None = None,
    ) -> WindowStoreSupplier:
        """A store of values by key and window, identified by its start (KIP-328).

        Args:
            name: the store's name.
            retention_period: how long windows can be read: from their start to the store's stream time, which is the
                latest start so far.
            window_size: the length of a window, from which iterators compute its end.
            retain_duplicates: keep all values of a key and window, in the order of the puts, and not only the last
                value. A put of None then does nothing.
            segment_interval: windows expire by whole segments of this length; by default half the retention period, and
                at least a minute.

        Raises:
            ConfigError: a duration is negative or cannot be understood, the segment interval is 0, or the retention
                period is shorter than a window.

        >>> Stores.persistent_window_store("visits", "1 day", "1 hour").window_size_ms
        3600000
        """
        return _window(name, retention_period, window_size, retain_duplicates, segment_interval, in_memory=False)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str,
        retention_period: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        segment_interval: Duration | None = None,
    ) -> WindowStoreSupplier:
        """A store of a value with its timestamp for every key and window, on disk.

        In Kafka Streams the format differs from that without timestamps; Penstock has a single format.
        """
        return _window(name, retention_period, window_size, retain_duplicates, segment_interval, in_memory=False)

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str,
        retention_period: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        segment_interval: Duration | None = None,
    ) -> WindowStoreSupplier:
        """A store of a value with its timestamp and its headers for every key and window, on disk (KIP-1271).

        >>> Stores.persistent_timestamped_window_store_with_headers("visits", "1 day", "1 hour").keeps_headers
        True
        """
        made = _window(name, retention_period, window_size, retain_duplicates, segment_interval, in_memory=False)
        return replace(made, keeps_headers=True)

    @staticmethod
    def in_memory_window_store(
        name: str, retention_period: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowStoreSupplier:
        """A window store like the persistent one, with all windows in memory; it iterates by time instead of by key."""
        return _window(name, retention_period, window_size, retain_duplicates, None, in_memory=True)

    @staticmethod
    def persistent_session_store(
        name: str, retention_period: Duration, segment_interval: Duration | None = None
    ) -> SessionStoreSupplier:
        """A store of values by key and session, identified by its first and its last time (KIP-94).

        Args:
            name: the store's name.
            retention_period: how long sessions can be read: from their end to the store's stream time.
            segment_interval: sessions expire by whole segments of this length; by default half the retention period,
                and at least a minute.

        Raises:
            ConfigError: a duration is negative or cannot be understood, or the segment interval is 0.

        >>> Stores.persistent_session_store("visits", "1 day").retention_ms
        86400000
        """
        return _session(name, retention_period, segment_interval, in_memory=False)

    @staticmethod
    def persistent_session_store_with_headers(
        name: str, retention_period: Duration, segment_interval: Duration | None = None
    ) -> SessionStoreSupplier:
        """A session store that keeps headers with each aggregate, on disk (KIP-1271).

        >>> Stores.persistent_session_store_with_headers("visits", "1 day").keeps_headers
        True
        """
        made = _session(name, retention_period, segment_interval, in_memory=False)
        return replace(made, keeps_headers=True)

    @staticmethod
    def in_memory_session_store(name: str, retention_period: Duration) -> SessionStoreSupplier:
        """A session store like the persistent one, with all sessions in memory."""
        return _session(name, retention_period, None, in_memory=True)

    # --- builders ------------------------------------------------------------------------------------------------

    @staticmethod
    def key_value_store_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A key-value store for processors.

        Args:
            supplier: a key-value store of ``Stores``, or your own supplier.
            key: the type of keys, such as ``str``, or a serde.
            value: the type of values.

        Raises:
            ConfigError: the supplier is for another kind of store, or a type cannot be written.

        >>> Stores.key_value_store_builder(Stores.lru_map("recent", 100), str, dict).with_logging_disabled().logging
        False
        """
        return _builder(supplier, "key_value", key, value)

    @staticmethod
    def timestamped_key_value_store_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A key-value store for processors with ``ValueAndTimestamp`` values, like those of tables."""
        return _builder(supplier, "timestamped_key_value", key, value)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A key-value store for processors with ``ValueTimestampHeaders`` values (KIP-1271).

        The store keeps the headers in any store that ``Stores`` describes, on disk or in memory.

        >>> orders = Stores.persistent_timestamped_key_value_store_with_headers("orders")
        >>> Stores.timestamped_key_value_store_with_headers_builder(orders, str, int).keeps_headers
        True

        Raises:
            ConfigError: the supplier is for another kind of store, or is one of your own.
        """
        return _builder(supplier, "timestamped_key_value", key, value, with_headers=True)

    @staticmethod
    def versioned_key_value_store_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A versioned store for processors."""
        return _builder(supplier, "versioned", key, value)

    @staticmethod
    def window_store_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A window store for processors."""
        return _builder(supplier, "window", key, value)

    @staticmethod
    def timestamped_window_store_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A window store for processors with ``ValueAndTimestamp`` values, like those of windowed tables."""
        return _builder(supplier, "timestamped_window", key, value)

    @staticmethod
    def timestamped_window_store_with_headers_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A window store for processors with ``ValueTimestampHeaders`` values (KIP-1271)."""
        return _builder(supplier, "timestamped_window", key, value, with_headers=True)

    @staticmethod
    def session_store_with_headers_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A session store for processors with ``AggregationWithHeaders`` values (KIP-1271)."""
        return _builder(supplier, "session", key, value, with_headers=True)

    @staticmethod
    def session_store_builder(supplier: Any, key: Any, value: Any) -> StoreBuilder:
        """A session store for processors."""
        return _builder(supplier, "session", key, value)


_SUPPLIERS: dict[str, tuple[type, str]] = {
    "key_value": (KeyValueStoreSupplier, "Stores.persistent_key_value_store(name)"),
    "timestamped_key_value": (KeyValueStoreSupplier, "Stores.persistent_timestamped_key_value_store(name)"),
    "versioned": (VersionedStoreSupplier, "Stores.persistent_versioned_key_value_store(name, history_retention)"),
    "window": (WindowStoreSupplier, "Stores.persistent_window_store(name, retention_period, window_size)"),
    "timestamped_window": (
        WindowStoreSupplier,
        "Stores.persistent_timestamped_window_store(name, retention_period, window_size)",
    ),
    "session": (SessionStoreSupplier, "Stores.persistent_session_store(name, retention_period)"),
}
"""By store shape: the suppliers that it takes, and an example of one."""


def _builder(supplier: Any, shape: str, key: Any, value: Any, with_headers: bool = False) -> StoreBuilder:
    wanted, example = _SUPPLIERS[shape]
    is_own = not with_headers and own_shape(supplier) == shape.removeprefix("timestamped_")
    if not isinstance(supplier, wanted) and not is_own:
        own = f", or one of your own, with a name and a get() that returns a {_OWN_CLASSES[shape]}"
        raise ConfigError(
            f"{shape}_store_{'with_headers_' if with_headers else ''}builder takes a supplier, such as {example}"
            f"{'' if with_headers else own}; got {show(supplier)} of type {type(supplier).__name__}"
        )
    made = StoreBuilder(supplier, shape, of(key, "key"), of(value, "value"), keeps_headers=with_headers)
    assert made.spec  # which says what is missing
    return made


_OWN_CLASSES = {
    "key_value": "penstock.KeyValueStore",
    "timestamped_key_value": "penstock.KeyValueStore",
    "versioned": "penstock.VersionedKeyValueStore",
    "window": "penstock.WindowStore",
    "timestamped_window": "penstock.WindowStore",
    "session": "penstock.SessionStore",
}
"""By store shape: what a store of one's own extends."""


def _versioned(
    name: str, history_retention: Duration, segment_interval: Duration | None, in_memory: bool
) -> VersionedStoreSupplier:
    check_name(name)
    interval = _interval(name, segment_interval)
    return VersionedStoreSupplier(name, to_ms(history_retention, "the history retention"), interval, in_memory)


def _window(
    name: str,
    retention_period: Duration,
    window_size: Duration,
    retain_duplicates: bool,
    segment_interval: Duration | None,
    in_memory: bool,
) -> WindowStoreSupplier:
    check_name(name)
    check_flag(retain_duplicates, f"retain_duplicates of the window store {name!r}")
    retention, size = to_ms(retention_period, "the retention period"), to_ms(window_size, "the window size")
    if size > retention:
        raise ConfigError(
            f"the retention period of the window store {name!r} must be no smaller than its window size; "
            f"got a size of {size} ms and a retention period of {retention} ms"
        )
    return WindowStoreSupplier(name, retention, size, retain_duplicates, _interval(name, segment_interval), in_memory)


def _session(
    name: str, retention_period: Duration, segment_interval: Duration | None, in_memory: bool
) -> SessionStoreSupplier:
    check_name(name)
    interval = _interval(name, segment_interval)
    return SessionStoreSupplier(name, to_ms(retention_period, "the retention period"), interval, in_memory)


def _interval(name: str, segment_interval: Duration | None) -> int | None:
    interval = None if segment_interval is None else to_ms(segment_interval, "the segment interval")
    if interval == 0:
        raise ConfigError(f"the segment interval of store {name!r} must be positive, got {segment_interval!r}")
    return interval
