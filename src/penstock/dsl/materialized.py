"""How a table is kept: its store's name and kind, its types, its caching."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from penstock.dsl.built_in_suppliers import check_log_config, suppliers_of
from penstock.dsl.store_builder import (
    KeyValueStoreSupplier,
    SessionStoreSupplier,
    StoreSupplier,
    Supplier,
    WindowStoreSupplier,
    own_shape,
    own_spec,
)
from penstock.dsl.stores import Stores
from penstock.errors import ConfigError
from penstock.plan.functions import UserFunction, check_type
from penstock.plan.names import check_name
from penstock.plan.node import NONE_KEPT
from penstock.plan.options import Options, in_place_of, option, types_given
from penstock.plan.store_suppliers import DslStoreSuppliers
from penstock.serdes import Serde, of
from penstock.values.durations import Duration, to_ms

VERSIONED = ("versioned", "versioned_in_memory")
KINDS = ("persistent", "in_memory", *VERSIONED)


@dataclass(frozen=True)
class Materialized(Options):
    """The options of a table's store. Pass them as ``materialized=``, or in the same place as in Kafka Streams: after
    the functions of a step, or after a topic.

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
    shape: str | None = field(default=None, repr=False)
    """The kind of store that was described, which must be the table's; None if only a name was given."""
    supplier: StoreSupplier | None = field(default=None, repr=False)
    """Creates stores of a user's own kind."""
    headers: str | None = field(default=None, repr=False)
    """``NONE_KEPT`` if the store that was described has headers."""
    suppliers: DslStoreSuppliers | None = field(default=None, repr=False)
    """Chooses the store; None for the settings."""

    def __post_init__(self) -> None:
        if self.store is not None:
            check_name(self.store)
        if self.kind not in KINDS:
            raise ConfigError(f"the kind of a store must be one of {', '.join(KINDS)}; got {self.kind!r}")
        if self.retention_ms is not None:
            to_ms(self.retention_ms, "the retention")
        if (self.kind in VERSIONED) != (self.history_retention_ms is not None):
            raise ConfigError(
                f"the store {self.store!r}: a history retention belongs to versioned stores and to no others; "
                "use Materialized.as_versioned(name, history_retention=...)"
            )
        if self.supplier is not None and self.kind not in ("persistent", "versioned"):
            raise ConfigError(
                f"the store {self.store!r} is one of your own, and cannot be made {self.kind.replace('_', ' ')}: its "
                "class determines its kind"
            )

    @option
    def as_(self, store: str | Supplier | StoreSupplier) -> Materialized:
        """Kept in a store of this name, in one that ``Stores`` describes, or in one of your own.

        Give a store of your own (docs/stores.md) by its supplier: an object with a ``name`` and a method ``get()``. For
        each task, ``get()`` returns a new object of a class that extends ``KeyValueStore``, ``WindowStore``,
        ``SessionStore``, ``VersionedKeyValueStore`` or ``VersionedBytesStore`` of bytes (KIP-892). The class must be
        the one for the table's kind.

        A description from ``Stores`` decides whether the store is in memory, its retention and its segments.

        Raises:
            ConfigError: only processors can use the store: it evicts entries, or keeps duplicates.

        >>> from penstock import Stores
        >>> Materialized.as_(Stores.persistent_window_store("visits", "1 day", "1 hour")).retention_ms
        86400000
        """
        if isinstance(store, str):
            return self._but(store=store, supplier=None, headers=None)
        shape = own_shape(store)
        if shape is not None:
            return self._as_own(store, shape)
        check_type(store, Supplier, "a store", "give its name, one that Stores describes, or a supplier of your own")
        assert isinstance(store, Supplier)
        _check_for_tables(store)
        spec = store.spec
        return self._but(
            store=store.name,
            kind=spec["kind"],
            shape=_SHAPES.get(type(store)),
            supplier=None,
            headers=NONE_KEPT if getattr(store, "keeps_headers", False) else None,
            retention_ms=spec.get("retention", self.retention_ms),
            history_retention_ms=spec.get("history_retention"),
            segment_interval_ms=spec.get("segment_interval") or self.segment_interval_ms,
        )

    def _as_own(self, supplier: Any, shape: str) -> Materialized:
        spec = own_spec(supplier, shape)
        if spec.get("retain_duplicates"):
            raise _keeps_duplicates(supplier.name)
        return self._but(
            store=supplier.name,
            supplier=supplier,
            kind=spec.get("kind", "persistent"),
            shape=_OWN_SHAPES[shape],
            headers=None,
            retention_ms=spec.get("retention", self.retention_ms),
            history_retention_ms=spec.get("history_retention"),
            segment_interval_ms=spec.get("segment_interval") or self.segment_interval_ms,
        )

    @option
    def as_versioned(
        self, store: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> Materialized:
        """Kept in a versioned store: joins look up what was valid at a record's time (KIP-914).

        Short for ``as_(Stores.persistent_versioned_key_value_store(...))``; see there for the arguments. Versioned
        stores do not cache: every update is sent on.
        """
        in_memory, on_disk = Stores.in_memory_versioned_key_value_store, Stores.persistent_versioned_key_value_store
        made = in_memory if self._is_in_memory else on_disk
        return self.as_(made(store, history_retention, segment_interval))

    @option
    def with_(self, key: Any = None, value: Any = None) -> Materialized:
        """Kept with these types of keys and values."""
        return self._but(**types_given(key=key, value=value))

    @option
    def with_key(self, key: Any) -> Materialized:
        """With this type of keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value(self, value: Any) -> Materialized:
        """With this type of values."""
        return self._but(value=of(value, "value"))

    with_key_serde = with_key
    with_value_serde = with_value

    @option
    def with_retention(self, retention: Duration) -> Materialized:
        """Windows are kept for this long, counted from their start (KIP-328). Other tables are kept forever.

        A store that ``Stores`` describes has a retention of its own, which holds in whatever order both are given.

        >>> from penstock import Stores
        >>> visits = Stores.persistent_window_store("visits", "1 day", "1 hour")
        >>> Materialized.as_(visits).with_retention("2 hours").retention_ms
        86400000
        """
        given = to_ms(retention, "retention")
        return self if self.shape in _SHAPES_OF_WINDOWS else self._but(retention_ms=given)

    retention = with_retention

    @option
    def with_segment_interval(self, segment_interval: Duration) -> Materialized:
        """Windows, or sessions by their end, expire by whole segments, and one covers this long (KIP-94).

        By default it is half the retention, and at least a minute. Shorter segments drop expired rows earlier,
        longer ones are fewer column families on disk. Without effect for tables without windows.

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
        return self._but(segment_interval_ms=interval)

    @option
    def with_store_type(self, suppliers: DslStoreSuppliers | str) -> Materialized:
        """In a store that these suppliers choose, or of this type: ``"persistent"`` or ``"in_memory"`` (KIP-591).

        Raises:
            ConfigError: it is neither, or the store is described already.

        >>> from penstock import BuiltInDslStoreSuppliers
        >>> Materialized.as_("counts").with_store_type(BuiltInDslStoreSuppliers.IN_MEMORY).store
        'counts'
        """
        if self.shape is not None or self.supplier is not None:
            raise ConfigError(
                f"with_store_type of the store {self.store!r}: the store is described already, which says its type; "
                "give its name alone, or leave with_store_type out"
            )
        return self._but(suppliers=suppliers_of(suppliers, "with_store_type"))

    @option
    def with_logging_enabled(self, config: dict[str, str] | None = None) -> Materialized:
        """Keep the changes of the store with each commit, as always.

        Args:
            config: settings of a changelog topic. Penstock uses delta files instead and ignores them.
        """
        check_log_config(config)
        return self

    @option
    def with_logging_disabled(self) -> Materialized:
        """Without effect: Penstock keeps the changes of a table's store with the commit in any case."""
        return self

    @option
    def with_caching_enabled(self) -> Materialized:
        """Send on the last update of a key in each commit (the default); versioned stores do not."""
        return self._but(caching=True)

    @option
    def with_caching_disabled(self) -> Materialized:
        """Send on every update."""
        return self._but(caching=False)

    @option
    def in_memory(self) -> Materialized:
        """Keep all rows in memory, with the same changelog."""
        return self._but(kind="versioned_in_memory" if self.kind in VERSIONED else "in_memory")

    @property
    def _is_in_memory(self) -> bool:
        return self.kind in ("in_memory", "versioned_in_memory")


_SHAPES: dict[type, str] = {
    KeyValueStoreSupplier: "timestamped_key_value",
    WindowStoreSupplier: "timestamped_window",
    SessionStoreSupplier: "session",
}
_OWN_SHAPES = {
    "key_value": "timestamped_key_value",
    "window": "timestamped_window",
    "session": "session",
    "versioned": None,
}
_SHAPES_OF_WINDOWS = (_SHAPES[WindowStoreSupplier], _SHAPES[SessionStoreSupplier])


def _check_for_tables(store: Supplier) -> None:
    if isinstance(store, KeyValueStoreSupplier) and store.max_entries is not None:
        raise ConfigError(
            f"the store {store.name!r} forgets entries (lru_map), and a table keeps all of its rows; keep the table in "
            "Stores.in_memory_key_value_store(name), or read and write the map in a processor"
        )
    if isinstance(store, WindowStoreSupplier) and store.retain_duplicates:
        raise _keeps_duplicates(store.name)


def _keeps_duplicates(store: str) -> ConfigError:
    return ConfigError(
        f"the store {store!r} keeps duplicates, and a windowed table has one row for a key and window; describe it "
        "without retain_duplicates"
    )


def materialized_of(given: Materialized | None, store: str | Materialized | None) -> Materialized | None:
    """Return the ``Materialized`` of a method's arguments; a name, or a ``Materialized`` in its place, may be given,
    too."""
    if given is None and isinstance(store, Materialized):
        return store
    if given is not None:
        check_type(given, Materialized, "materialized=", "give a store's name alone as store=")
    if store is not None:
        check_type(store, str, "store=", "it is the name of the store; give a Materialized as materialized=")
    if given is not None and store is not None:
        raise ConfigError(f"give either materialized= or store=, not both; got {given!r} and {store!r}")
    return Materialized(store=cast(str, store)) if store is not None else given


def kept_as(
    method: str, value: Any, given: Materialized | None, store: str | Materialized | None
) -> tuple[Any, Materialized | None]:
    """Return the type of a method's results, and how they are kept. A ``Materialized`` may also take the type's
    position, after the functions, where Kafka Streams has it."""
    given, value = in_place_of(Materialized, value, given, method, "materialized")
    return value, materialized_of(given, store)


def kept_with_context(given: Materialized | None, function: UserFunction | None) -> Materialized | None:
    """Return the ``Materialized`` of a step on a table, adding a store if its function asks for a record's context.

    The result of such a function cannot be recomputed later, when another record is the current one.
    """
    if given is None and function is not None and function.wants_context:
        return Materialized(caching=False)
    return given
