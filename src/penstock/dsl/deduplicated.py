"""How a deduplication is named and kept (KIP-655)."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError
from penstock.plan.names import check_name
from penstock.serdes import Serde, of

_ARGUMENTS = ("store_name", "key_serde", "value_serde")


class Deduplicated:
    """The name of a deduplication, its store's name, and the types of its ids and values.

    ``key_serde`` is the type of what is compared besides the key: of the key itself for ``deduplicate_by_key``, of the
    id for the other two. Two ids are the same if their bytes are. ``value_serde`` is the type of the values on their
    way through a repartition topic, if there is one.

    >>> Deduplicated.as_("orders").with_key_serde(str)
    Deduplicated(name='orders', key_serde=<serde str>)

    Raises:
        TopologyError: a name cannot be the name of a step or a store.
        ConfigError: a type is none that can be written.
    """

    def __init__(
        self,
        name: str | None = None,
        store_name: str | None = None,
        key_serde: Any = None,
        value_serde: Any = None,
    ):
        self.name = None if name is None else check_name(name)
        self.store_name = None if store_name is None else check_name(store_name)
        self.key: Serde | None = None if key_serde is None else of(key_serde, "key_serde")
        self.value: Serde | None = None if value_serde is None else of(value_serde, "value_serde")

    @classmethod
    def as_(cls, name: str) -> Deduplicated:
        """A deduplication of this name; its repartition topic is called after it."""
        return cls(name)

    @classmethod
    def key_serde(cls, key_serde: Any) -> Deduplicated:
        """A deduplication with ids of this type."""
        return cls(key_serde=key_serde)

    @classmethod
    def value_serde(cls, value_serde: Any) -> Deduplicated:
        """A deduplication with values of this type."""
        return cls(value_serde=value_serde)

    @classmethod
    def with_(cls, *arguments: Any, **keywords: Any) -> Deduplicated:
        """``with_(store_name, key_serde, value_serde)`` or ``with_(key_serde, value_serde)``, also as keywords.

        >>> Deduplicated.with_("seen", str, dict)
        Deduplicated(store_name='seen', key_serde=<serde str>, value_serde=<serde json[dict]>)
        """
        names = _ARGUMENTS if len(arguments) == 3 else _ARGUMENTS[1:]
        given = dict(zip(names, arguments, strict=False))
        if len(arguments) not in (0, 2, 3) or not keywords.keys() <= set(_ARGUMENTS) - given.keys():
            every = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in keywords.items())]
            raise ConfigError(
                "Deduplicated.with_ takes (store_name, key_serde, value_serde) or (key_serde, value_serde); "
                f"got ({', '.join(every)})"
            )
        return cls(**given, **keywords)

    def with_name(self, name: str) -> Deduplicated:
        """With this name of the step and its repartition topic."""
        return Deduplicated(name, self.store_name, self.key, self.value)

    def with_store_name(self, store_name: str) -> Deduplicated:
        """With this name of the store."""
        return Deduplicated(self.name, store_name, self.key, self.value)

    def with_key_serde(self, key_serde: Any) -> Deduplicated:
        """With this type of ids."""
        return Deduplicated(self.name, self.store_name, of(key_serde, "key_serde"), self.value)

    def with_value_serde(self, value_serde: Any) -> Deduplicated:
        """With this type of values."""
        return Deduplicated(self.name, self.store_name, self.key, of(value_serde, "value_serde"))

    def _known(self) -> dict[str, Any]:
        every = {"name": self.name, "store_name": self.store_name, "key_serde": self.key, "value_serde": self.value}
        return {name: value for name, value in every.items() if value is not None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deduplicated) and self._known() == other._known()

    def __hash__(self) -> int:
        return hash(tuple(self._known().items()))

    def __repr__(self) -> str:
        return f"Deduplicated({', '.join(f'{name}={value!r}' for name, value in self._known().items())})"
