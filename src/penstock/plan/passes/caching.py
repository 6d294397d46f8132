"""Which tables hold no updates back until the commit, although their stores are to cache.

Caching never changes what a table ends as. Of some tables every update counts for what others end as: those that
versioned tables are made of, since a version that is left out is missing; and windows that are joined with other
tables, and those, since windows expire. What a suppression for a time still holds depends on the updates that reach it,
with a cache in front of it on fewer of them, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan import nodes
from penstock.plan.node import Node


def uncached_tables(declared: Iterable[Node], joined: Iterable[set[Node]]) -> frozenset[Node]:
    """The tables of which every update goes on at once.

    Args:
        joined: for each join of tables, those in whose stores their values can be told.
    """
    windows = [tables for tables in joined if any(table.windowed_by for table in tables)]
    waiting: list[Node] = [table for tables in windows for table in tables]
    for node in declared:
        if node.store is not None and node.store.is_versioned:
            waiting += node.parents
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found and not isinstance(node, nodes.ToStream):
            found.add(node)
            waiting += node.parents
    return frozenset(found)
