"""The ready ``DslStoreSuppliers``: stores on disk, and stores in memory."""

from __future__ import annotations

from typing import Any

from penstock.dsl.stores import Stores
from penstock.errors import ConfigError
from penstock.plan.store_suppliers import DslKeyValueParams, DslSessionParams, DslStoreSuppliers, DslWindowParams


class RocksDBDslStoreSuppliers(DslStoreSuppliers):
    """Stores on disk."""

    def key_value_store(self, params: DslKeyValueParams) -> Any:
        return Stores.persistent_key_value_store(params.name)

    def window_store(self, params: DslWindowParams) -> Any:
        times = params.retention_period, params.window_size
        return Stores.persistent_window_store(params.name, *times, params.retain_duplicates)

    def session_store(self, params: DslSessionParams) -> Any:
        return Stores.persistent_session_store(params.name, params.retention_period)


class InMemoryDslStoreSuppliers(DslStoreSuppliers):
    """Stores in memory."""

    def key_value_store(self, params: DslKeyValueParams) -> Any:
        return Stores.in_memory_key_value_store(params.name)

    def window_store(self, params: DslWindowParams) -> Any:
        times = params.retention_period, params.window_size
        return Stores.in_memory_window_store(params.name, *times, params.retain_duplicates)

    def session_store(self, params: DslSessionParams) -> Any:
        return Stores.in_memory_session_store(params.name, params.retention_period)


class BuiltInDslStoreSuppliers:
    """The ready ``DslStoreSuppliers``.

    >>> from penstock import Materialized
    >>> Materialized.as_("counts").with_store_type(BuiltInDslStoreSuppliers.IN_MEMORY).store
    'counts'
    """

    ROCKS_DB: DslStoreSuppliers = RocksDBDslStoreSuppliers()
    IN_MEMORY: DslStoreSuppliers = InMemoryDslStoreSuppliers()


def suppliers_of(given: Any, method: str) -> DslStoreSuppliers:
    """The suppliers that an argument stands for."""
    if isinstance(given, type) and issubclass(given, DslStoreSuppliers):
        return given()
    if isinstance(given, DslStoreSuppliers):
        return given
    ready = {"persistent": BuiltInDslStoreSuppliers.ROCKS_DB, "in_memory": BuiltInDslStoreSuppliers.IN_MEMORY}
    ready["rocksDB"] = ready["persistent"]
    if not isinstance(given, str) or given not in ready:
        raise ConfigError(f"{method} takes DslStoreSuppliers, or one of {', '.join(ready)}; got {given!r}")
    return ready[given]


def check_log_config(config: Any) -> None:
    """Raise ``ConfigError`` if settings of a changelog topic are none."""
    if not isinstance(config, dict | None):
        raise ConfigError(f"the config of with_logging_enabled is a dict of texts; got {config!r}")
