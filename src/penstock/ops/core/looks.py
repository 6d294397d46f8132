"""Looking for what is due only every now and then."""

from __future__ import annotations

from penstock.ops.core.context import Context


class Looks:
    """How often an operator looks for what has waited long enough: ``emit_interval_ms`` of wall clock apart."""

    def __init__(self, context: Context):
        self._context = context
        self._next = 0

    def is_due(self) -> bool:
        """Whether it is time to look; if so, the next time begins."""
        interval = self._context.facts.emit_interval_ms
        if not interval:
            return True
        now = self._context.facts.wall_clock_ms()
        if now < self._next:
            return False
        self._next = now + interval
        return True
