"""Suppression: a step that holds updates of a table back (KIP-328)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.buffering import SPILL_TO_DISK, Suppressed
from penstock.plan.kept import Kept, KeptUpdates
from penstock.plan.node import Hold, Node, StoreSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class Suppress(Node):
    """Holds updates of a table back (KIP-328)."""

    suppressed: Suppressed
    """The user's configuration."""
    wait_ms: int
    """How long after its time an entry is held: the time limit, or the grace period of the windows."""
    store: StoreSpec

    is_table: ClassVar[bool] = True
    collapses_updates: ClassVar[bool] = True
    store_advice: ClassVar[str] = 'with_name("...") of Suppressed'
    caches_updates: ClassVar[bool] = False

    @property
    def until_close(self) -> bool:
        """Whether it waits for windows to close, rather than for a time."""
        return self.suppressed.time_ms is None

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        return (self.parent,)

    @property
    def hold(self) -> Hold:
        return Hold(self.wait_ms, self.until_close, self.suppressed.idle_advance_ms)

    @property
    def keeps(self) -> Kept:
        buffer = self.suppressed.buffer
        spills = buffer.when_full == SPILL_TO_DISK
        return KeptUpdates(
            wait_ms=self.wait_ms,
            times_follow=self.until_close,
            record_limit=buffer.record_limit if spills else None,
            byte_limit=buffer.byte_limit if spills else None,
        )
