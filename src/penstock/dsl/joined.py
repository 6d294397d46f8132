"""How a stream is joined with a table: the types for a repartition, a name, a grace period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.durations import Duration, to_ms
from penstock.errors import TopologyError
from penstock.plan.functions import caller, check_type
from penstock.plan.names import check_name
from penstock.plan.options import Options, option, types_given
from penstock.serdes import Serde, of


@dataclass(frozen=True)
class Joined(Options):
    """How a stream is joined with a table.

    >>> Joined.with_name("enrich").with_grace_period("10 seconds").grace_period_ms
    10000
    """

    key: Serde | None = None
    value: Serde | None = None
    name: str | None = None
    grace_period_ms: int | None = None

    @option
    def as_(self, name: str) -> Joined:
        """With a name for the step, and for a repartition topic in front of it."""
        return self._but(name=check_name(name))

    @option
    def with_(self, key: Any = None, value: Any = None) -> Joined:
        """With these types of the stream's keys and values, for a repartition topic in front of the join."""
        return self._but(**types_given(key=key, value=value))

    @option
    def with_key_serde(self, key: Any) -> Joined:
        """With this type of the stream's keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value_serde(self, value: Any) -> Joined:
        """With this type of the stream's values."""
        return self._but(value=of(value, "value"))

    @option
    def with_name(self, name: str) -> Joined:
        """With a name for the step, and for a repartition topic in front of it."""
        return self._but(name=check_name(name))

    @option
    def with_grace_period(self, grace_period: Duration) -> Joined:
        """Hold stream records back until the stream's time has passed theirs by the grace period, so that table
        records that are late by as much still count. The table must be versioned."""
        return self._but(grace_period_ms=to_ms(grace_period, "the grace period"))


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
            joined = joined.with_name(name)
        return joined if self.grace is None else joined.with_grace_period(self.grace)
