"""Which repartitions let records without a key through: those somewhere before a step to which they mean something."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan import nodes
from penstock.plan.node import Node


def before_null_keys(declared: Iterable[Node]) -> frozenset[Node]:
    """The repartitions from which there is a way to a step that takes records without a key."""
    waiting = [node for node in declared if node.takes_null_keys]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.parents
    return frozenset(node for node in seen if isinstance(node, nodes.Repartition))
