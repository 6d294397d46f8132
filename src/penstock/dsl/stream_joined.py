"""How to join two streams: names, types, and the stores of their records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.dsl.built_in_suppliers import check_log_config, suppliers_of
from penstock.dsl.store_builder import StoreSupplier, Supplier, WindowStoreSupplier, facts_of, own_shape
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.names import check_name
from penstock.plan.options import Options, option, types_given
from penstock.plan.store_suppliers import DslStoreSuppliers
from penstock.serdes import Serde, of

KINDS = ("persistent", "in_memory")


@dataclass(frozen=True)
class StreamJoined(Options):
    """The options of a join of two streams.

    >>> StreamJoined.as_("clicks-and-views").with_name("matched").in_memory().kind
    'in_memory'
    """

    store: str | None = None
    name: str | None = None
    kind: str = "persistent"
    key: Serde | None = None
    value: Serde | None = None
    other_value: Serde | None = None
    this_supplier: Supplier | StoreSupplier | None = field(default=None, repr=False)
    other_supplier: Supplier | StoreSupplier | None = field(default=None, repr=False)
    suppliers: DslStoreSuppliers | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"the stores of a join must be one of {', '.join(KINDS)}; got {self.kind!r}")
        for name in (self.store, self.name):
            if name is not None:
                check_name(name)

    @option
    def as_(self, store: str) -> StreamJoined:
        """With a name from which those of the stores are made."""
        return self._but(store=check_name(store))

    @option
    def with_(self, key: Any = None, value: Any = None, other_value: Any = None) -> StreamJoined:
        """With these types of the keys, and of the values of both sides."""
        return self._but(**types_given(key=key, value=value, other_value=other_value))

    @option
    def with_key_serde(self, key: Any) -> StreamJoined:
        """With this type of the keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value_serde(self, value: Any) -> StreamJoined:
        """With this type of the left side's values."""
        return self._but(value=of(value, "value"))

    @option
    def with_other_value_serde(self, other_value: Any) -> StreamJoined:
        """With this type of the right side's values."""
        return self._but(other_value=of(other_value, "other_value"))

    @option
    def with_name(self, name: str) -> StreamJoined:
        """With a name for the steps, and for repartition topics in front of them."""
        return self._but(name=check_name(name))

    @option
    def with_store_name(self, store: str) -> StreamJoined:
        """With a name from which those of the stores are made."""
        return self._but(store=check_name(store))

    @option
    def with_this_store_supplier(self, supplier: WindowStoreSupplier | StoreSupplier) -> StreamJoined:
        """Keep the left side's records in this window store: one of ``Stores`` with ``retain_duplicates``, or one of
        your own (docs/stores.md). Its window size and retention must be those of the join.

        Raises:
            ConfigError: it is no window store, or does not retain duplicates.

        >>> from penstock import Stores
        >>> clicks = Stores.in_memory_window_store("clicks", "1 hour", "10 minutes", retain_duplicates=True)
        >>> StreamJoined().with_this_store_supplier(clicks).this_supplier.name
        'clicks'
        """
        return self._but(this_supplier=_checked(supplier))

    @option
    def with_other_store_supplier(self, supplier: WindowStoreSupplier | StoreSupplier) -> StreamJoined:
        """Keep the right side's records in this window store; see ``with_this_store_supplier``."""
        return self._but(other_supplier=_checked(supplier))

    @option
    def with_dsl_store_suppliers(self, suppliers: DslStoreSuppliers | str) -> StreamJoined:
        """Have these suppliers choose the stores (KIP-954)."""
        return self._but(suppliers=suppliers_of(suppliers, "with_dsl_store_suppliers"))

    @option
    def with_logging_enabled(self, config: dict[str, str] | None = None) -> StreamJoined:
        """Keep the changes of the stores with each commit, as always; ``config`` is ignored, as there are no topics."""
        check_log_config(config)
        return self

    @option
    def with_logging_disabled(self) -> StreamJoined:
        """Without effect: Penstock keeps the changes of the stores with the commit in any case."""
        return self

    @option
    def in_memory(self) -> StreamJoined:
        """Keep the records of both sides in memory, with the same changelog."""
        return self._but(kind="in_memory")


def _checked(supplier: Any) -> Any:
    if not isinstance(supplier, WindowStoreSupplier) and own_shape(supplier) != "window":
        raise ConfigError(
            "a stream-stream join keeps its records in window stores: give Stores.persistent_window_store(name, "
            "retention_period, window_size, retain_duplicates=True), or a supplier of your own whose get() returns a "
            f"penstock.WindowStore; got {show(supplier)} of type {type(supplier).__name__}"
        )
    if not facts_of(supplier)["retain_duplicates"]:
        raise ConfigError(
            f"the store {supplier.name!r} of a stream-stream join must keep every record of a key and time: let its "
            "supplier say retain_duplicates=True"
        )
    return supplier
