"""Aggregations of streams and of tables, in windows and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.plan.functions import UserFunction
from penstock.plan.node import Node, StoreSpec
from penstock.plan.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregation:
    """How values become one: ``count``, ``reduce`` (from the first value) or ``aggregate`` (from an initializer).

    ``subtract`` takes a value out again, for grouped tables; ``merge`` makes one aggregate of those of two sessions.
    """

    kind: str
    add: UserFunction | None = None
    initialize: Callable[[], Any] | None = None
    subtract: UserFunction | None = None
    merge: UserFunction | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamAggregate(Node):
    aggregation: Aggregation
    store: StoreSpec

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableAggregate(Node):
    aggregation: Aggregation
    store: StoreSpec

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupInput(Node):
    """One of several grouped streams that are aggregated together; the aggregation itself is the step below.

    ``shared`` is that step's store, which Kafka Streams connects with these.
    """

    side: int
    shared: StoreSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowedAggregate(Node):
    """An aggregation in windows; ``final`` if it sends on one result for each window, when it has closed."""

    aggregation: Aggregation
    windows: Windows
    store: StoreSpec
    final: bool = False

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowAggregate(WindowedAggregate):
    windows: TimeWindows | UnlimitedWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowDistinct(WindowAggregate):
    """The first record of each window (KIP-655)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SlidingAggregate(WindowedAggregate):
    windows: SlidingWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionAggregate(WindowedAggregate):
    windows: SessionWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionDistinct(SessionAggregate):
    """The first record of each session (KIP-655)."""
