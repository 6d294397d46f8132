"""Default types and extractors from the settings (``default.key.serde`` and its like), and the types of steps that
declare none: those of their input."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from penstock.errors import ConfigError
from penstock.plan.node import Node, StoreSpec
from penstock.plan.nodes import Repartition, Sink
from penstock.plan.rewriting import Rewriting
from penstock.plan.store_suppliers import DslStoreSuppliers, chosen_store
from penstock.plan.timestamps import Extractor, extractor_of
from penstock.plan.wrapping import Wrapping
from penstock.processor_wrapper import ProcessorWrapper
from penstock.serdes import JSON, STR, Serde, TimeWindowedSerde, WindowedSerde, from_name, of
from penstock.serdes.nullable import NullableSerde
from penstock.serdes.pair import PairSerde
from penstock.serdes.registry import RegistrySerde, SchemaRegistry
from penstock.settings import Settings
from penstock.values.timestamps import READY, is_extractor

DEFAULT_KEY: Serde = copy(STR)
"""The type of keys if the user gives none: text, unless the settings name another type. Recognised by identity."""
DEFAULT_VALUE: Serde = copy(JSON)
"""The type of values if the user gives none: any JSON value, unless the settings name another type."""

_LEFT_OPEN = "_penstock_left_open"


class LeftOpen(NamedTuple):
    """A type that the user did not give."""

    default: Serde | None
    """``DEFAULT_KEY`` or ``DEFAULT_VALUE``, whose setting gives the type; None if no setting does."""
    otherwise: Serde
    """The type if no setting gives it."""
    before: Serde
    """The type that release 0.1.0 used here."""


def left_open(default: Serde | None, otherwise: Serde, before: Serde) -> Serde:
    """Mark a type as not given: it is ``otherwise`` until the settings are known, see ``LeftOpen``."""
    if otherwise is before is default:
        return otherwise
    known = getattr(otherwise, _LEFT_OPEN, None)
    opened = copy(otherwise if known is None else known.otherwise)
    if opened is otherwise:  # a user's serde that cannot be copied
        return otherwise
    left = LeftOpen(default, otherwise if known is None else known.otherwise, before)
    vars(opened)[_LEFT_OPEN] = left  # a user's serde may be a frozen dataclass
    return opened


def is_left_to_settings(one: Serde) -> bool:
    """Whether a setting may still give a type, or a part of it, that the user did not give.

    >>> is_left_to_settings(DEFAULT_KEY), is_left_to_settings(STR)
    (True, False)
    """
    left_open: LeftOpen | None = getattr(one, _LEFT_OPEN, None)
    if left_open is not None:
        return left_open.default is not None or is_left_to_settings(left_open.otherwise)
    if isinstance(one, PairSerde):
        return is_left_to_settings(one.first) or is_left_to_settings(one.second)
    if isinstance(one, WindowedSerde | NullableSerde):
        return is_left_to_settings(one.inner)
    return one is DEFAULT_KEY or one is DEFAULT_VALUE


_PLAIN = {"str": str, "int": int, "float": float, "bytes": bytes}


class Defaults(Rewriting):
    """Puts the settings' types and extractors into the steps of a topology, each of which is replaced by a new one.

    Args:
        as_before: use the types of release 0.1.0 where the user gave none.

    Raises:
        ConfigError: a setting names no type, or no extractor.
    """

    def __init__(self, settings: Settings, as_before: bool = False):
        super().__init__()
        self._as_before = as_before
        self._before = None if as_before else Defaults(settings, as_before=True)
        self._serdes = {
            id(DEFAULT_KEY): _serde("default_key_serde", settings.default_key_serde),
            id(DEFAULT_VALUE): _serde("default_value_serde", settings.default_value_serde),
        }
        self._extractor = _extractor(settings.default_timestamp_extractor)
        self._suppliers = _suppliers(settings)
        self._in_memory = settings.default_dsl_store == "in_memory"
        wrapper = _wrapper(settings)
        self._wrapping = None if wrapper is None or as_before else Wrapping(wrapper)
        self._registry = None if settings.schema_registry is None else SchemaRegistry(settings.schema_registry)

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        if isinstance(step, Repartition | Sink) and self._before is not None:
            return {"types_before": (self._before.serde(step.key).name, self._before.serde(step.value).name)}
        if isinstance(step, StoreSpec):
            is_left = step.kind == "persistent" and not (step.is_chosen or step.suppliers or step.supplier)
            return {"kind": "in_memory"} if self._in_memory and is_left and self._suppliers is None else {}
        if (spec := self._left_to_suppliers(step)) is not None:
            suppliers = spec.suppliers or self._suppliers
            assert suppliers is not None
            new = replace(self._new(spec), **chosen_store(step, spec, suppliers))
            return self._timed(step) | {"store": new}
        return self._timed(step)

    def _left_to_suppliers(self, step: Node) -> StoreSpec | None:
        """The store of a step that ``DslStoreSuppliers`` choose."""
        spec: StoreSpec | None = getattr(step, "store", None)
        if spec is None or spec.is_chosen or spec.kind != "persistent" or spec.supplier or self._as_before:
            return None
        return spec if spec.suppliers or self._suppliers else None

    def added_stores(self) -> list[StoreSpec]:
        """The stores that wrapped processors have brought along."""
        return [] if self._wrapping is None else list(self._wrapping.stores.values())

    def _timed(self, step: Node) -> dict[str, Any]:
        wrapped = {} if self._wrapping is None else self._wrapping.changes(step)
        if wrapped:
            return wrapped
        is_timed = step.is_source and step.timestamp is None
        return {"timestamp": self._extractor} if is_timed and self._extractor is not None else {}

    def serde(self, one: Serde) -> Serde:
        left_open: LeftOpen | None = getattr(one, _LEFT_OPEN, None)
        if left_open is not None:
            if self._as_before:
                return self.serde(left_open.before)
            return self.serde(self._serdes.get(id(left_open.default)) or left_open.otherwise)
        if id(one) in self._serdes:
            return self._in_registry(self._serdes[id(one)] or one)
        if isinstance(one, RegistrySerde):
            return self._in_registry(one)
        if isinstance(one, PairSerde):
            first, second = self.serde(one.first), self.serde(one.second)
            return one if (first, second) == (one.first, one.second) else PairSerde(first, second)
        inner = self.serde(one.inner) if isinstance(one, WindowedSerde | NullableSerde) else one
        if inner is one or inner == getattr(one, "inner", None):
            return one
        return TimeWindowedSerde(inner, one.ends) if isinstance(one, TimeWindowedSerde) else type(one)(inner)  # type: ignore[call-arg]

    def _in_registry(self, one: Serde) -> Serde:
        return one.within(self._registry) if self._registry and isinstance(one, RegistrySerde) else one


def default_serde(setting: str, app_configs: Mapping[str, Any]) -> Serde:
    """Return the type of keys, or of values, where a topology names none.

    Args:
        setting: ``default_key_serde`` or ``default_value_serde``.
        app_configs: the settings, by name.

    >>> default_serde("default_key_serde", {}), default_serde("default_value_serde", {"default_value_serde": "int"})
    (<serde str>, <serde int>)
    """
    usual = DEFAULT_KEY if setting == "default_key_serde" else DEFAULT_VALUE
    return _serde(setting, app_configs.get(setting)) or usual


def _serde(setting: str, name: Any) -> Serde | None:
    if name is not None and not isinstance(name, str):  # the type itself, as everywhere else
        return of(name() if isinstance(name, type) and issubclass(name, Serde) else name, setting)
    if name is None or name in _PLAIN:
        return None if name is None else of(_PLAIN[name])
    if name == "json" or name.startswith(("windowed[", "session[")):
        return from_name(name)
    found = _named(setting, name, f"one of {', '.join(_PLAIN)}, json")
    serde = found() if isinstance(found, type) and issubclass(found, Serde) else found
    return of(serde, setting)


def _wrapper(settings: Settings) -> ProcessorWrapper | None:
    setting, given = "processor_wrapper_class", settings.processor_wrapper_class
    found = _named(setting, given, "a class of ProcessorWrapper") if isinstance(given, str) else given
    made = found() if isinstance(found, type) and issubclass(found, ProcessorWrapper) else found
    if made is not None and not isinstance(made, ProcessorWrapper):
        raise ConfigError(f"{setting} must be a class that extends ProcessorWrapper; got {given!r}")
    if made is not None:
        made.configure(settings.app_configs())
    return made


def _suppliers(settings: Settings) -> DslStoreSuppliers | None:
    setting, given = "dsl_store_suppliers_class", settings.dsl_store_suppliers_class
    found = _named(setting, given, "a class of DslStoreSuppliers") if isinstance(given, str) else given
    made = found() if isinstance(found, type) and issubclass(found, DslStoreSuppliers) else found
    if made is not None and not isinstance(made, DslStoreSuppliers):
        raise ConfigError(f"{setting} must be a class that extends DslStoreSuppliers; got {given!r}")
    return made


def _extractor(name: Any) -> Extractor | None:
    setting = "default_timestamp_extractor"
    if name is None:
        return None
    found = name
    if isinstance(name, str):
        found = READY[name] if name in READY else _named(setting, name, f"one of {', '.join(READY)}")
    if not is_extractor(found):
        raise ConfigError(f"{setting}: {name!r} is no TimestampExtractor; got {found!r}")
    return extractor_of(found)


def _named(setting: str, name: str, others: str) -> Any:
    """Import the object that a text such as ``package.module:name`` names."""
    module, colon, attribute = name.partition(":")
    try:
        if not colon:
            raise AttributeError("there is no colon in it")
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{setting} must be {others}, or a name such as 'package.module:name' of your own; got {name!r} ({error})"
        ) from None
