"""How two sides are joined: the types for a repartition, a name, a grace period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.durations import Duration, to_ms
from penstock.errors import TopologyError
from penstock.plan.functions import caller, check_type
from penstock.plan.names import check_name
from penstock.serdes import Serde, of


@dataclass(frozen=True)
class Joined:
    """How a stream is joined with a table.

    >>> Joined.with_name("enrich").with_grace_period("10 seconds").grace_period_ms
    10000
    """

    key: Serde | None = None
    value: Serde | None = None
    name: str | None = None
    grace_period_ms: int | None = None

    @classmethod
    def with_(cls, key: Any = None, value: Any = None) -> Self:
        """With these types of the stream's keys and values, for a repartition topic in front of the join."""
        return cls(None if key is None else of(key, "key"), None if value is None else of(value, "value"))

    @classmethod
    def with_name(cls, name: str) -> Self:
        """With a name for the step, and for a repartition topic in front of it."""
        return cls(name=check_name(name))

    def with_grace_period(self, grace_period: Duration) -> Self:
        """Hold stream records back until the stream's time has passed theirs by the grace period, so that table
        records that are late by as much still count. The table must be versioned."""
        return replace(self, grace_period_ms=to_ms(grace_period, "the grace period"))


@dataclass(frozen=True)
class TableOptions:
    """What the join of a stream may be given when the other side is a table."""

    key_selector: Callable[[Any, Any], Any] | None = None
    grace: Duration | None = None
    joined: Joined | None = None

    def refuse(self, method: str) -> None:
        """Raise ``TopologyError`` if any of it is given; the other side is a stream."""
        given = [name for name in ("key_selector", "grace", "joined") if getattr(self, name) is not None]
        if given:
            raise TopologyError(
                f"{method} at {caller()}: {given[0]}= is for tables, and the other side is not one; for streams "
                "there are windows= and stream_joined="
            )

    def as_joined(self, method: str, name: str | None) -> Joined:
        """The name, the types and the grace period in one."""
        joined = self.joined or Joined()
        check_type(joined, Joined, "joined=", "give a name alone as name=")
        twice = name is not None and joined.name is not None
        if twice or (self.grace is not None and joined.grace_period_ms is not None):
            raise TopologyError(
                f"{method} at {caller()}: give the name and the grace period once, not in joined= as well"
            )
        if name is not None:
            joined = replace(joined, name=check_name(name))
        return joined if self.grace is None else joined.with_grace_period(self.grace)
