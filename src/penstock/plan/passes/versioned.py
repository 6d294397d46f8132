"""Finds the versioned tables (KIP-914).

Three kinds of tables are versioned: a table in a versioned store, a filtered or mapped versioned table without a new
materialization, and a complete join of two versioned tables. Aggregations, other joins and ``to_table`` do not
inherit versions: their results are versioned only in a versioned store of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan.node import Node


def versioned_tables(declared: Iterable[Node]) -> frozenset[Node]:
    """The versioned tables among these steps."""
    found: set[Node] = set()
    for node in declared:
        if _is_versioned(node, found):
            found.add(node)
    return frozenset(found)


def _is_versioned(node: Node, found: set[Node]) -> bool:
    if node.inherits_versions and not node.materialized:
        return all(parent in found for parent in node.parents)
    return node.store is not None and node.store.is_versioned
