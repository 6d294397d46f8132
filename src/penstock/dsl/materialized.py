"""How a table is kept: its store's name and kind, its types, its caching."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.durations import Duration, to_ms
from penstock.errors import ConfigError
from penstock.plan.functions import check_type
from penstock.plan.names import check_name
from penstock.serdes import Serde, of

KINDS = ("persistent", "in_memory")


@dataclass(frozen=True)
class Materialized:
    """How a table is kept.

    >>> Materialized.as_("counts").with_retention("1 day").with_caching_disabled()
    Materialized(store='counts', kind='persistent', key=None, value=None, retention_ms=86400000, caching=False)
    """

    store: str | None = None
    kind: str = "persistent"
    key: Serde | None = None
    value: Serde | None = None
    retention_ms: int | None = None
    caching: bool = True

    def __post_init__(self) -> None:
        if self.store is not None:
            check_name(self.store)
        if self.kind not in KINDS:
            raise ConfigError(f"the kind of a store must be one of {', '.join(KINDS)}; got {self.kind!r}")

    @classmethod
    def as_(cls, store: str) -> Self:
        """Kept in a store of this name."""
        return cls(store=store)

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

    def with_caching_enabled(self) -> Self:
        """Send on the last update of a key in each commit (the default)."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> Self:
        """Send on every update."""
        return replace(self, caching=False)

    def in_memory(self) -> Self:
        """Keep all rows in memory, with the same changelog."""
        return replace(self, kind="in_memory")


def materialized_of(given: Materialized | None, store: str | None) -> Materialized | None:
    """What a method was given: a ``Materialized``, or just the store's name."""
    if given is not None:
        check_type(given, Materialized, "materialized=", "give a store's name alone as store=")
    if store is not None:
        check_type(store, str, "store=", "give a Materialized as materialized=")
    if given is not None and store is not None:
        raise ConfigError(f"give either materialized= or store=, not both; got {given!r} and {store!r}")
    return Materialized(store=store) if store is not None else given
