"""What aggregations in windows have in common, whatever their windows are."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ops.core.context import Context
from penstock.ops.tables.update_cache import EmitCache
from penstock.ops.windows.cogroup import ObservedTime
from penstock.ops.windows.on_window_close import Closing
from penstock.serdes.windowed import WindowedSerde
from penstock.state.store import StateStore


@dataclass(frozen=True, kw_only=True)
class WindowedTable:
    """The table that an aggregation in windows makes, and what the steps behind it need of it."""

    node: str
    context: Context
    serde: WindowedSerde
    time: ObservedTime
    closing: Closing | None
    """Where only final results are sent on."""
    sends_old: bool
    """Whether somebody downstream needs old values."""
    caching: bool
    """Send on the last update of each window and commit, instead of every one."""
    tells_stored: bool
    """Send every update on, with the old value that the store had, as with caching."""

    def cache(self, store: StateStore) -> EmitCache | None:
        """What sits between the store and the steps behind it, if anything does."""
        if not (self.caching or self.tells_stored):
            return None
        return EmitCache(self.sends_old, self.context, store, self.tells_stored)
