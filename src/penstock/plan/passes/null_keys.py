"""Finds the repartitions that must let records without a key through, because a later step processes them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan import nodes
from penstock.plan.node import Node


def before_null_keys(declared: Iterable[Node]) -> frozenset[Node]:
    """Return the repartitions from which a path leads to a step that processes records without a key."""
    waiting = [node for node in declared if node.takes_null_keys]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.parents
    return frozenset(node for node in seen if isinstance(node, nodes.Repartition))
