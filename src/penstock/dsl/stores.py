"""Stores to keep tables in, for ``Materialized.as_``."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.durations import Duration, to_ms
from penstock.errors import ConfigError
from penstock.plan.names import check_name


@dataclass(frozen=True)
class VersionedStoreSupplier:
    """A versioned store to be: its name, how long its history reaches back, and how much time a segment covers."""

    name: str
    history_retention_ms: int
    segment_interval_ms: int | None = None
    in_memory: bool = False


class Stores:
    """Stores by Kafka Streams' names."""

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedStoreSupplier:
        """A store of every version of a key's value, which looks up what was valid at a time (KIP-889, KIP-914).

        Args:
            name: the store's name.
            history_retention: how far back lookups reach; records older than that are dropped, so it is the grace
                period as well.
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
        """A versioned store, as the persistent one, with all versions in memory and the same changelog."""
        return _versioned(name, history_retention, segment_interval, in_memory=True)


def _versioned(
    name: str, history_retention: Duration, segment_interval: Duration | None, in_memory: bool
) -> VersionedStoreSupplier:
    check_name(name)
    interval = None if segment_interval is None else to_ms(segment_interval, "the segment interval")
    if interval == 0:
        raise ConfigError(f"the segment interval of store {name!r} must be positive, got {segment_interval!r}")
    return VersionedStoreSupplier(name, to_ms(history_retention, "the history retention"), interval, in_memory)
