"""Descriptions of stores from ``Stores``, for ``Materialized.as_`` and, with types, for processors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from penstock.errors import ConfigError, TopologyError
from penstock.plan.functions import caller, refuse_unusable
from penstock.plan.names import check_name
from penstock.plan.node import ROWS, StoreSpec
from penstock.serdes import Serde
from penstock.usage.calls import why_store_unusable
from penstock.values.durations import to_ms


@runtime_checkable
class StoreSupplier(Protocol):
    """A supplier of your own stores: their name, and a new store for each task.

    >>> class Notes:
    ...     name = "notes"
    ...     def get(self):
    ...         return MyStore()
    >>> isinstance(Notes(), StoreSupplier)
    True
    """

    @property
    def name(self) -> str:
        """The store's name."""

    def get(self) -> Any:
        """A new ``StateStore``, for one task alone."""


class Supplier(ABC):
    """A description of a store, as ``Stores`` returns it."""

    name: str
    in_memory: bool

    @property
    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Its fields of a ``StoreSpec``."""


@dataclass(frozen=True)
class KeyValueStoreSupplier(Supplier):
    """A description of a key-value store; with ``max_entries`` it evicts the least recently used entries.

    >>> from penstock import Stores
    >>> Stores.lru_map("recent", 100)
    KeyValueStoreSupplier(name='recent', in_memory=True, max_entries=100)
    """

    name: str
    in_memory: bool = False
    max_entries: int | None = None
    keeps_headers: bool = field(default=False, repr=False)

    @property
    def spec(self) -> dict[str, Any]:
        """Its fields of a ``StoreSpec``."""
        return {"kind": _kind(self.in_memory), "max_entries": self.max_entries}


@dataclass(frozen=True)
class VersionedStoreSupplier(Supplier):
    """A description of a versioned store: its name, how far its history reaches back, and the length of a segment.

    >>> from penstock import Stores
    >>> Stores.persistent_versioned_key_value_store("prices", "1 day").history_retention_ms
    86400000
    """

    name: str
    history_retention_ms: int
    segment_interval_ms: int | None = None
    in_memory: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        """Its fields of a ``StoreSpec``."""
        return {
            "kind": "versioned_in_memory" if self.in_memory else "versioned",
            "history_retention": self.history_retention_ms,
            "segment_interval": self.segment_interval_ms,
        }


@dataclass(frozen=True)
class WindowStoreSupplier(Supplier):
    """A description of a window store: how long it keeps windows, by their start, and the length of a window.

    >>> from penstock import Stores
    >>> Stores.persistent_window_store("counts", retention_period="1 day", window_size="1 hour").window_size_ms
    3600000
    """

    name: str
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    segment_interval_ms: int | None = None
    in_memory: bool = False
    keeps_headers: bool = field(default=False, repr=False)

    @property
    def spec(self) -> dict[str, Any]:
        """Its fields of a ``StoreSpec``."""
        return {
            "kind": _kind(self.in_memory),
            "retention": self.retention_ms,
            "window_size": self.window_size_ms,
            "retain_duplicates": self.retain_duplicates,
            "segment_interval": self.segment_interval_ms,
        }


@dataclass(frozen=True)
class SessionStoreSupplier(Supplier):
    """A description of a session store: how long it keeps sessions, by their end, and the length of a segment.

    >>> from penstock import Stores
    >>> Stores.persistent_session_store("visits", "1 day").retention_ms
    86400000
    """

    name: str
    retention_ms: int
    segment_interval_ms: int | None = None
    in_memory: bool = False
    keeps_headers: bool = field(default=False, repr=False)

    @property
    def spec(self) -> dict[str, Any]:
        """Its fields of a ``StoreSpec``."""
        return {
            "kind": _kind(self.in_memory),
            "retention": self.retention_ms,
            "segment_interval": self.segment_interval_ms,
        }


@dataclass(frozen=True)
class StoreBuilder:
    """A description of a store for processors, for ``StreamsBuilder.add_state_store`` and ``ProcessorSupplier.stores``.

    ``Stores`` makes builders. A builder does not change: its methods return another builder.

    >>> from penstock import Stores
    >>> counts = Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), str, int)
    >>> counts.with_caching_enabled().name
    'counts'
    """

    supplier: Supplier | StoreSupplier
    shape: str
    """The kind of the store, as in ``StoreSpec``."""
    key: Serde
    value: Serde
    caching: bool = False
    logging: bool = True
    log_config: dict[str, str] = field(default_factory=dict)
    keeps_headers: bool = False

    @property
    def name(self) -> str:
        """The store's name."""
        return self.supplier.name

    def with_caching_enabled(self) -> StoreBuilder:
        """Gather writes before they go to the store.

        Penstock gathers the writes of a chunk in any case, and a processor's store emits nothing, so this has no
        visible effect.
        """
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder:
        """The default."""
        return replace(self, caching=False)

    def with_logging_enabled(self, config: dict[str, str] | None = None) -> StoreBuilder:
        """Keep the store's changes with each commit, so that it can be restored (the default).

        Args:
            config: settings of a changelog topic. Penstock uses delta files instead and ignores them.
        """
        return replace(self, logging=True, log_config=dict(config or {}))

    def with_logging_disabled(self) -> StoreBuilder:
        """Ask for no changelog.

        In Kafka Streams, such a store may lose its rows. Penstock keeps its changes with the commit in any case,
        because exactly-once processing needs them. So this has no effect.
        """
        return replace(self, logging=False, log_config={})

    @property
    def _own_spec(self) -> dict[str, Any]:
        return own_spec(self.supplier, self.shape.removeprefix("timestamped_"))

    @cached_property
    def spec(self) -> StoreSpec:
        """The store as the topology describes it."""
        return StoreSpec(
            name=self.name,
            named_by_user=True,
            caching=self.caching,
            logging=self.logging,
            key=self.key,
            value=self.value,
            shape=self.shape,
            is_chosen=True,
            supplier=None if isinstance(self.supplier, Supplier) else self.supplier,
            headers=ROWS if self.keeps_headers else None,
            **(self.supplier.spec if isinstance(self.supplier, Supplier) else self._own_spec),
        )


def own_shape(supplier: Any) -> str | None:
    """The shape of the stores that a user's own supplier creates; None if it is no such supplier.

    Raises:
        ConfigError: these cannot have its name.
        TopologyError: a method of them has to be awaited or iterated over, and nobody does.
    """
    if isinstance(supplier, Supplier) or not isinstance(supplier, StoreSupplier) or not callable(supplier.get):
        return None
    refuse_unusable(supplier.get, "a supplier of stores", caller())
    check_name(supplier.name)
    made = supplier.get()
    if why := why_store_unusable(made):
        raise TopologyError(f"the store {supplier.name!r} at {caller()}: of {type(made).__name__} {why}")
    return str(getattr(made, "store_shape", "key_value"))


def facts_of(supplier: Supplier | StoreSupplier) -> dict[str, Any]:
    """The fields of a ``StoreSpec`` that a supplier tells."""
    if isinstance(supplier, Supplier):
        return supplier.spec
    return own_spec(supplier, own_shape(supplier) or "key_value")


def own_spec(supplier: Any, shape: str) -> dict[str, Any]:
    """The fields of a ``StoreSpec`` that a user's own supplier tells, under the names that Kafka Streams gives them.

    Raises:
        ConfigError: one of them is missing or has a wrong type.
    """
    if shape == "versioned":
        return {
            "kind": "versioned",
            "history_retention": to_ms(_told(supplier, "history_retention_ms"), "the history retention"),
            "segment_interval": _told_ms(supplier, "segment_interval_ms"),
        }
    if shape not in ("window", "session"):
        return {}
    found = {
        "retention": to_ms(_told(supplier, "retention_period"), "the retention period"),
        "segment_interval": _told_ms(supplier, "segment_interval_ms"),
    }
    if shape == "window":
        found["window_size"] = to_ms(_told(supplier, "window_size"), "the window size")
        found["retain_duplicates"] = bool(_told(supplier, "retain_duplicates", False))
    return found


def _told_ms(supplier: Any, fact: str) -> int | None:
    given = _told(supplier, fact, None)
    return None if given is None else to_ms(given, fact)


def _told(supplier: Any, fact: str, default: Any = ...) -> Any:
    """A fact of a supplier: an attribute, or a method as in Kafka Streams."""
    given = getattr(supplier, fact, default)
    given = given() if callable(given) else given
    if given is ...:
        raise ConfigError(
            f"the store {supplier.name!r}: its supplier {type(supplier).__name__} does not tell its {fact}. Give the "
            f"class an attribute {fact}, such as {fact} = 86_400_000 or '1 day'. Nothing was started"
        )
    return given


def _kind(in_memory: bool) -> str:
    return "in_memory" if in_memory else "persistent"
