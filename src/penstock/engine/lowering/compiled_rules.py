"""Which modules with compiled rules the steps of a program need. They import Numba, so others do without them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan import nodes
from penstock.plan.node import Node

_MODULES: dict[type[Node], str] = {
    nodes.SessionAggregate: "penstock.ops.windows.sessions.operator",
    nodes.SessionDistinct: "penstock.ops.windows.sessions.distinct",
    nodes.SlidingAggregate: "penstock.ops.windows.sliding.operator",
    nodes.Suppress: "penstock.ops.suppress.operator",
}


def compiled_rules(steps: Iterable[Node]) -> list[str]:
    """Return the modules that these steps need, beside those of every topology."""
    return sorted({_MODULES[type(step)] for step in steps if type(step) in _MODULES})
