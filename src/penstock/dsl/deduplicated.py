"""How a deduplication is named and kept (KIP-655)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from penstock.plan.names import check_name
from penstock.plan.options import Options, named_first, option, types_given
from penstock.serdes import Serde, of

_ARGUMENTS = ("store_name", "key_serde", "value_serde")


@dataclass(frozen=True, init=False, repr=False)
class Deduplicated(Options):
    """The name of a deduplication, its store's name, and the types of its ids and values.

    ``key_serde`` is the type of the compared ids: of the key itself for ``deduplicate_by_key``, of the id for the other
    two. Two ids are the same if their bytes are. ``value_serde`` is the type of the values in the repartition topic, if
    there is one.

    >>> Deduplicated.as_("orders").with_key_serde(str)
    Deduplicated(name='orders', key_serde=<serde str>)

    Raises:
        TopologyError: a name cannot be the name of a step or a store.
        ConfigError: values of a type cannot be written.
    """

    name: str | None = None
    store_name: str | None = None
    key: Serde | None = None
    value: Serde | None = None

    def __init__(
        self, name: str | None = None, store_name: str | None = None, key_serde: Any = None, value_serde: Any = None
    ):
        types = types_given(key_serde=key_serde, value_serde=value_serde)
        said = (name, store_name, types.get("key_serde"), types.get("value_serde"))
        for field, value in zip(fields(self), said, strict=True):
            object.__setattr__(self, field.name, value)
        for given in (name, store_name):
            if given is not None:
                check_name(given)

    def _but(self, **changes: Any) -> Deduplicated:
        said = {field.name: getattr(self, field.name) for field in fields(self)} | changes
        return Deduplicated(*said.values())

    @option
    def as_(self, name: str) -> Deduplicated:
        """A deduplication of this name; its repartition topic is called after it."""
        return self._but(name=name)

    @option
    def key_serde(self, key_serde: Any) -> Deduplicated:
        """A deduplication with ids of this type."""
        return self._but(key=of(key_serde, "key_serde"))

    @option
    def value_serde(self, value_serde: Any) -> Deduplicated:
        """A deduplication with values of this type."""
        return self._but(value=of(value_serde, "value_serde"))

    @option
    def with_(self, *arguments: Any, **keywords: Any) -> Deduplicated:
        """``with_(store_name, key_serde, value_serde)`` or ``with_(key_serde, value_serde)``, also as keywords.

        >>> Deduplicated.with_("seen", str, dict)
        Deduplicated(store_name='seen', key_serde=<serde str>, value_serde=<serde json[dict]>)
        """
        return self._saying(**named_first("Deduplicated.with_", _ARGUMENTS, arguments, keywords))

    def _saying(self, store_name: str | None = None, key_serde: Any = None, value_serde: Any = None) -> Deduplicated:
        named = self if store_name is None else self.with_store_name(store_name)
        typed = named if key_serde is None else named.with_key_serde(key_serde)
        return typed if value_serde is None else typed.with_value_serde(value_serde)

    @option
    def with_name(self, name: str) -> Deduplicated:
        """With this name of the step and its repartition topic."""
        return self._but(name=name)

    @option
    def with_store_name(self, store_name: str) -> Deduplicated:
        """With this name of the store."""
        return self._but(store_name=store_name)

    @option
    def with_key_serde(self, key_serde: Any) -> Deduplicated:
        """With this type of ids."""
        return self._but(key=of(key_serde, "key_serde"))

    @option
    def with_value_serde(self, value_serde: Any) -> Deduplicated:
        """With this type of values."""
        return self._but(value=of(value_serde, "value_serde"))

    def __repr__(self) -> str:
        every = {"name": self.name, "store_name": self.store_name, "key_serde": self.key, "value_serde": self.value}
        said = [f"{name}={value!r}" for name, value in every.items() if value is not None]
        return f"Deduplicated({', '.join(said)})"
