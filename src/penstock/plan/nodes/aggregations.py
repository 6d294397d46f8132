"""Aggregations of streams and of tables, in windows and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.aggregation import Aggregation as Aggregation
from penstock.plan.kept import Kept, KeptSessions, KeptSlidingWindows, KeptWindows
from penstock.plan.node import Hold, Node, Stores, StoreSpec
from penstock.plan.nodes.mapped import Aggregates
from penstock.plan.own_windows import AnyWindows, OwnWindows
from penstock.plan.used_columns import BOTH, KEY, Columns
from penstock.plan.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamAggregate(Aggregates, Node):
    aggregation: Aggregation
    store: StoreSpec

    is_table: ClassVar[bool] = True
    keeps_input: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY
    caches_last_update: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableAggregate(Aggregates, Node):
    aggregation: Aggregation
    store: StoreSpec

    is_table: ClassVar[bool] = True
    keeps_input: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupInput(Node):
    """One of several grouped streams that are aggregated together; the aggregation itself is the step below.

    ``shared`` is that step's store, which Kafka Streams connects with these.
    """

    side: int
    shared: StoreSpec

    is_side: ClassVar[bool] = True

    @property
    def reads_columns(self) -> Columns:
        return BOTH

    @property
    def clocks(self) -> tuple[tuple[str, str], ...]:
        return ((f"input {self.side} of {self.shared.name}", self.name),)

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        return (self.shared.name,)


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowedAggregate(Aggregates, Node):
    """An aggregation in windows; ``final`` if it emits one result for each window, when it has closed."""

    aggregation: Aggregation
    windows: AnyWindows
    store: StoreSpec
    final: bool = False

    is_table: ClassVar[bool] = True
    keeps_input: ClassVar[bool] = True
    keeps_columns: ClassVar[Columns] = KEY

    @property
    def windowed_by(self) -> AnyWindows:
        return self.windows

    @property
    def hold(self) -> Hold | None:
        return Hold(self.windows.final_after_ms, is_of_windows=True) if self.final else None


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowAggregate(WindowedAggregate):
    windows: TimeWindows | UnlimitedWindows | OwnWindows

    caches_last_update: ClassVar[bool] = True

    @property
    def keeps(self) -> Kept:
        windows = self.windows
        return KeptWindows(
            window_size_ms=windows.size_ms,
            retention_ms=windows.retention_ms,
            ends=windows.ends if isinstance(windows, OwnWindows) else None,
            is_final=self.final,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowDistinct(WindowAggregate):
    """The first record of each window (KIP-655)."""

    caches_last_update: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class SlidingAggregate(WindowedAggregate):
    windows: SlidingWindows

    @property
    def keeps(self) -> Kept:
        windows = self.windows
        return KeptSlidingWindows(
            window_size_ms=windows.size_ms,
            retention_ms=windows.retention_ms,
            is_final=self.final,
            slot_ms=2 * windows.time_difference_ms,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionAggregate(WindowedAggregate):
    windows: SessionWindows

    @property
    def hold(self) -> Hold | None:
        """A session is final a millisecond later here than in a suppression, as in Kafka Streams."""
        return Hold(self.windows.final_after_ms + 1, is_of_windows=True) if self.final else None

    @property
    def keeps(self) -> Kept:
        windows = self.windows
        return KeptSessions(retention_ms=windows.retention_ms, is_final=self.final, gap_ms=windows.inactivity_gap_ms)


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionDistinct(SessionAggregate):
    """The first record of each session (KIP-655)."""
