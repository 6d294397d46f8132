"""Finds the steps whose stream time must advance together with that of a suppression."""

from __future__ import annotations

from penstock.plan.node import Node


def timed_nodes(node: Node) -> list[str]:
    """The names of the nodes whose stream time must advance with that of a suppression: its own, and the windowed
    aggregations before it, so that these also refuse records for windows with final results."""
    if node.windowed_by is not None:
        return [node.name]
    above = [name for parent in node.parents for name in timed_nodes(parent)]
    return [node.name, *above] if node.collapses_updates else above
