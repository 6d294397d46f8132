"""Updates of a table that are held back (KIP-328)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.buffering import Suppressed
from penstock.plan.node import Node, StoreSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class Suppress(Node):
    """Holds updates of a table back (KIP-328)."""

    suppressed: Suppressed
    """What to hold back."""
    wait_ms: int
    """How long entries stay behind their time: that of the time limit, or the grace period of the windows."""
    store: StoreSpec

    is_table: ClassVar[bool] = True
    collapses_updates: ClassVar[bool] = True
