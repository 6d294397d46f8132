"""How a table is kept: its store's name and kind, its types, its caching."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from penstock.dsl.stores import Stores, VersionedStoreSupplier
from penstock.durations import Duration, to_ms
from penstock.errors import ConfigError
from penstock.plan.functions import check_type
from penstock.plan.names import check_name
from penstock.serdes import Serde, of

VERSIONED = ("versioned", "versioned_in_memory")
KINDS = ("persistent", "in_memory", *VERSIONED)


@dataclass(frozen=True)
class Materialized:
    """How a table is kept.

    >>> Materialized.as_("counts").with_retention("1 day").with_caching_disabled()
    Materialized(store='counts', kind='persistent', key=None, value=None, retention_ms=86400000, caching=False)
    >>> Materialized.as_versioned("prices", history_retention="1 day").kind
    'versioned'
    """

    store: str | None = None
    kind: str = "persistent"
    key: Serde | None = None
    value: Serde | None = None
    retention_ms: int | None = None
    caching: bool = True
    history_retention_ms: int | None = field(default=None, repr=False)
    segment_interval_ms: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.store is not None:
            check_name(self.store)
        if self.kind not in KINDS:
            raise ConfigError(f"the kind of a store must be one of {', '.join(KINDS)}; got {self.kind!r}")
        if (self.kind in VERSIONED) != (self.history_retention_ms is not None):
            raise ConfigError(
                f"the store {self.store!r}: a history retention belongs to versioned stores and to no others; "
                "use Materialized.as_versioned(name, history_retention=...)"
            )

    @classmethod
    def as_(cls, store: str | VersionedStoreSupplier) -> Self:
        """Kept in a store of this name, or in one that ``Stores`` describes."""
        if isinstance(store, str):
            return cls(store=store)
        check_type(store, VersionedStoreSupplier, "a store", "give its name, or one that Stores describes")
        return cls(
            store=store.name,
            kind="versioned_in_memory" if store.in_memory else "versioned",
            history_retention_ms=store.history_retention_ms,
            segment_interval_ms=store.segment_interval_ms,
        )

    @classmethod
    def as_versioned(cls, store: str, history_retention: Duration, segment_interval: Duration | None = None) -> Self:
        """Kept in a versioned store: joins look up what was valid at a record's time (KIP-914).

        Short for ``as_(Stores.persistent_versioned_key_value_store(...))``; see there for the arguments. Versioned
        stores do not cache: every update is sent on.
        """
        return cls.as_(Stores.persistent_versioned_key_value_store(store, history_retention, segment_interval))

    @classmethod
    def with_(cls, key: Any = None, value: Any = None) -> Self:
        """Kept with these types of keys and values."""
        return cls(key=None if key is None else of(key), value=None if value is None else of(value))

    def with_key(self, key: Any) -> Self:
        """With this type of keys."""
        return replace(self, key=of(key, "key"))

    def with_value(self, value: Any) -> Self:
        """With this type of values."""
        return replace(self, value=of(value, "value"))

    def with_retention(self, retention: Duration) -> Self:
        """Windows are kept for this long, counted from their start (KIP-328)."""
        return replace(self, retention_ms=to_ms(retention, "retention"))

    def with_segment_interval(self, segment_interval: Duration) -> Self:
        """Windows, or sessions by their end, expire by whole segments, and one covers this long (KIP-94).

        By default it is half the retention, and at least a minute. Shorter segments let go of expired rows earlier,
        longer ones are fewer column families on disk.

        Raises:
            ConfigError: the duration is not positive or cannot be understood.

        >>> Materialized.as_("visits").with_retention("1 day").with_segment_interval("1 hour").segment_interval_ms
        3600000
        """
        interval = to_ms(segment_interval, "the segment interval")
        if interval == 0:
            raise ConfigError(
                f"the segment interval of store {self.store!r} must be positive, got {segment_interval!r}"
            )
        return replace(self, segment_interval_ms=interval)

    def with_caching_enabled(self) -> Self:
        """Send on the last update of a key in each commit (the default)."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> Self:
        """Send on every update."""
        return replace(self, caching=False)

    def in_memory(self) -> Self:
        """Keep all rows in memory, with the same changelog."""
        return replace(self, kind="versioned_in_memory" if self.kind in VERSIONED else "in_memory")


def materialized_of(given: Materialized | None, store: str | None) -> Materialized | None:
    """What a method was given: a ``Materialized``, or just the store's name."""
    if given is not None:
        check_type(given, Materialized, "materialized=", "give a store's name alone as store=")
    if store is not None:
        check_type(store, str, "store=", "give a Materialized as materialized=")
    if given is not None and store is not None:
        raise ConfigError(f"give either materialized= or store=, not both; got {given!r} and {store!r}")
    return Materialized(store=store) if store is not None else given
