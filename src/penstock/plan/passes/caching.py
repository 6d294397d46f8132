"""Finds the tables that hold no updates back until the commit, although their stores are set to cache.

Caching never changes the final state of a table. But some tables affect others by every single update, and these must
not cache. Versioned tables need every update of the tables that they are made of, since a skipped version would be
missing. Windows that are joined with other tables, and those tables, need it because windows expire. A suppression with
a time limit depends on the updates that reach it; with a cache before it these are fewer, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan import nodes
from penstock.plan.node import Node


def uncached_tables(declared: Iterable[Node], joined: Iterable[set[Node]]) -> frozenset[Node]:
    """Return the tables that emit every update at once.

    Args:
        joined: for each join of tables, the tables from whose stores their values can be read.
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
