"""How two streams are joined: names, types, and what keeps their records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.errors import ConfigError
from penstock.plan.names import check_name
from penstock.serdes import Serde, of

KINDS = ("persistent", "in_memory")


@dataclass(frozen=True)
class StreamJoined:
    """How two streams are joined.

    >>> StreamJoined.as_("clicks-and-views").with_name("matched").in_memory().kind
    'in_memory'
    """

    store: str | None = None
    name: str | None = None
    kind: str = "persistent"
    key: Serde | None = None
    value: Serde | None = None
    other_value: Serde | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"the stores of a join must be one of {', '.join(KINDS)}; got {self.kind!r}")

    @classmethod
    def as_(cls, store: str) -> Self:
        """With a name from which those of the stores are made."""
        return cls(store=check_name(store))

    @classmethod
    def with_(cls, key: Any = None, value: Any = None, other_value: Any = None) -> Self:
        """With these types of the keys, and of the values of both sides."""
        types = (None if given is None else of(given) for given in (key, value, other_value))
        return cls(None, None, "persistent", *types)

    def with_name(self, name: str) -> Self:
        """With a name for the steps, and for repartition topics in front of them."""
        return replace(self, name=check_name(name))

    def with_store_name(self, store: str) -> Self:
        """With a name from which those of the stores are made."""
        return replace(self, store=check_name(store))

    def in_memory(self) -> Self:
        """Keep the records of both sides in memory, with the same changelog."""
        return replace(self, kind="in_memory")
