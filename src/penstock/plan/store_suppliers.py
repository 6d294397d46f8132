"""Which stores the DSL makes where a program names none: ``DslStoreSuppliers`` (KIP-591, KIP-954)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.kept import (
    Kept,
    KeptSessions,
    KeptSide,
    KeptSlidingWindows,
    KeptSubscriptions,
    KeptWaiting,
    KeptWindows,
)
from penstock.plan.node import Node, StoreSpec


class DslKeyValueParams(NamedTuple):
    """A key-value store that the DSL needs.

    >>> DslKeyValueParams("counts").is_timestamped
    True
    """

    name: str
    is_timestamped: bool = True


class DslWindowParams(NamedTuple):
    """A window store that the DSL needs; durations are milliseconds.

    >>> DslWindowParams("visits", retention_period=86_400_000, window_size=3_600_000).retain_duplicates
    False
    """

    name: str
    retention_period: int
    window_size: int
    retain_duplicates: bool = False
    emits_on_close: bool = False
    """Whether windows send their results when they close (``EmitStrategy.on_window_close``)."""
    is_sliding_window: bool = False
    is_timestamped: bool = True


class DslSessionParams(NamedTuple):
    """A session store that the DSL needs; the retention period is in milliseconds.

    >>> DslSessionParams("visits", 86_400_000).emits_on_close
    False
    """

    name: str
    retention_period: int
    emits_on_close: bool = False


class DslStoreSuppliers(ABC):
    """Chooses the kind of store for all steps that name none (KIP-954).

    Give the class as the setting ``dsl_store_suppliers_class``, or an object of it to ``Materialized.with_store_type``
    and ``StreamJoined.with_dsl_store_suppliers``. Each method gets the needs of a step and the name of its store, and
    returns a supplier of ``Stores`` with this name.

    >>> from penstock import Stores, StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> class InMemory(DslStoreSuppliers):
    ...     def key_value_store(self, params):
    ...         return Stores.in_memory_key_value_store(params.name)
    ...     def window_store(self, params):
    ...         name, retention, size, duplicates, *_ = params
    ...         return Stores.in_memory_window_store(name, retention, size, duplicates)
    ...     def session_store(self, params):
    ...         return Stores.in_memory_session_store(params.name, params.retention_period)
    >>> builder = StreamsBuilder()
    >>> _ = builder.table("prices", value=float, store="prices")
    >>> driver = TopologyTestDriver(builder.build(), dsl_store_suppliers_class=InMemory)
    >>> driver.topology.nodes[0].store.kind
    'in_memory'
    """

    @abstractmethod
    def key_value_store(self, params: DslKeyValueParams) -> Any:
        """The supplier of a key-value store."""

    @abstractmethod
    def window_store(self, params: DslWindowParams) -> Any:
        """The supplier of a window store."""

    @abstractmethod
    def session_store(self, params: DslSessionParams) -> Any:
        """The supplier of a session store."""


def chosen_store(node: Node, spec: StoreSpec, suppliers: DslStoreSuppliers) -> dict[str, Any]:
    """Return the fields of a step's store that its suppliers decide.

    Raises:
        ConfigError: they return no store of ``Stores`` that fits.
    """
    params, made = _asked(node.keeps, spec, suppliers)
    if params is None:
        return {}
    fields = getattr(made, "spec", None)
    method = f"{type(suppliers).__name__} for the store {spec.name!r} of {node.name} at {node.where}"
    if not isinstance(fields, dict):
        raise ConfigError(f"{method} must return one of Stores, such as Stores.in_memory_...; got {show(made)}")
    if made.name != params.name:
        raise ConfigError(f"{method} must return a store under the name that it got; got {made.name!r}")
    if fields.get("history_retention") is not None or fields.get("max_entries") is not None:
        raise ConfigError(f"{method} returns a store that forgets rows or keeps versions; got {show(made)}")
    segment = spec.segment_interval if spec.segment_interval is not None else fields.get("segment_interval")
    found = {"kind": fields["kind"], "segment_interval": segment}
    if not isinstance(params, DslKeyValueParams):
        if "retention" not in fields:
            raise ConfigError(f"{method} must return a store of its kind; got {show(made)}")
        found["retention"] = fields["retention"] if fields["retention"] != params.retention_period else spec.retention
    return found


def _asked(kept: Kept, spec: StoreSpec, suppliers: DslStoreSuppliers) -> tuple[Any, Any]:
    params: DslKeyValueParams | DslWindowParams | DslSessionParams
    if isinstance(kept, KeptSessions):
        params = DslSessionParams(spec.name, spec.retention or kept.retention_ms, kept.is_final)
        return params, suppliers.session_store(params)
    if isinstance(kept, KeptWindows):
        times = spec.retention or kept.retention_ms, kept.window_size_ms
        params = DslWindowParams(spec.name, *times, False, kept.is_final, isinstance(kept, KeptSlidingWindows))
        return params, suppliers.window_store(params)
    if isinstance(kept, KeptSide):
        params = DslWindowParams(spec.name, kept.retention_ms, kept.window_size_ms, True, is_timestamped=False)
        return params, suppliers.window_store(params)
    if type(kept) is Kept or isinstance(kept, KeptWaiting | KeptSubscriptions):
        params = DslKeyValueParams(spec.name, type(kept) is Kept)
        return params, suppliers.key_value_store(params)
    return None, None
