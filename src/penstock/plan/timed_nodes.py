"""Which steps' time goes on with that of a suppression."""

from __future__ import annotations

from penstock.plan.node import Node


def timed_nodes(node: Node) -> list[str]:
    """The names of the nodes whose time has to move on with that of a suppression: its own, and those of the windowed
    aggregations above it, so that they too take nothing more for windows whose results are final."""
    if node.windowed_by is not None:
        return [node.name]
    above = [name for parent in node.parents for name in timed_nodes(parent)]
    return [node.name, *above] if node.collapses_updates else above
