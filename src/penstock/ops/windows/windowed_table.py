"""The common part of aggregations in windows of all kinds."""

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
    """The table that a windowed aggregation produces, and what later steps need of it."""

    node: str
    context: Context
    serde: WindowedSerde
    time: ObservedTime
    closing: Closing | None
    """Set if only final results are emitted."""
    sends_old: bool
    """True if a later step needs old values."""
    caching: bool
    """Emit the last update of each window and commit, instead of every one."""
    tells_stored: bool
    """Emit every update, with the previous value of the store as its old value, as with caching."""

    def cache(self, store: StateStore) -> EmitCache | None:
        """The cache between the store and later steps, if any."""
        if not (self.caching or self.tells_stored):
            return None
        return EmitCache(self.sends_old, self.context, store, self.tells_stored)
