"""Which tables hold no updates back until the commit, although their stores are to cache.

Caching never changes what a table ends as. Of some tables every update counts for what others end as: those that
versioned tables are made of, since a version that is left out is missing; those that are suppressed for a time, which
begins with the first update; and windows that are joined with other tables, and those, since windows expire.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan import nodes
from penstock.plan.nodes import Node


def uncached_tables(declared: Iterable[Node], joined: Iterable[set[Node]]) -> frozenset[Node]:
    """The tables of which every update goes on at once.

    Args:
        joined: for each join of tables, those in whose stores their values can be told.
    """
    windows = [tables for tables in joined if any(isinstance(table, nodes.WindowAggregate) for table in tables)]
    waiting: list[Node] = [table for tables in windows for table in tables]
    for node in declared:
        store = getattr(node, "store", None)
        is_limited = isinstance(node, nodes.Suppress) and node.suppressed.time_ms is not None
        if is_limited or (store is not None and store.is_versioned):
            waiting += node.parents
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found and not isinstance(node, nodes.ToStream):
            found.add(node)
            waiting += node.parents
    return frozenset(found)
