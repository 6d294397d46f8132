"""Checks that run at intervals of wall-clock time."""

from __future__ import annotations

from penstock.ops.core.context import Context


class Looks:
    """Times an operator's checks for windows that are due: one every ``emit_interval_ms`` of wall-clock time."""

    def __init__(self, context: Context):
        self._context = context
        self._next = 0

    def is_due(self) -> bool:
        """True if a check is due; the next interval then begins."""
        interval = self._context.facts.emit_interval_ms
        if not interval:
            return True
        now = self._context.facts.wall_clock_ms()
        if now < self._next:
            return False
        self._next = now + interval
        return True
