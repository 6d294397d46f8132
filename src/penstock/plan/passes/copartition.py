"""Finds the topics that must have the same number of partitions, because a join by key, or an aggregation of several
streams, reads them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.errors import TopologyError
from penstock.plan.node import Node


@dataclass(frozen=True)
class Copartition:
    """A join, or an aggregation of several streams, and the topics whose records meet in it."""

    node: Node
    topics: tuple[str, ...]

    def check(self, partitions: Mapping[str, int]) -> None:
        """Raise ``TopologyError`` unless these topics have the same number of partitions, as far as it is known."""
        known = {topic: partitions[topic] for topic in self.topics if partitions.get(topic)}
        if len(set(known.values())) > 1:
            what = "aggregation" if self.node.sides else "join"
            counts = ", ".join(f"{topic!r} has {count}" for topic, count in known.items())
            raise TopologyError(
                f"the {what} {self.node.name!r} at {self.node.where} needs topics with the same number of partitions, "
                f"so that equal keys meet in one task, but {counts}; send one side through repartition(partitions=...)"
            )


def copartitions(declared: Iterable[Node]) -> tuple[Copartition, ...]:
    """Return all joins with their topics; repartition topics without a fixed number of partitions come last."""
    found = []
    for node in dict.fromkeys(declared):
        topics = tuple(dict.fromkeys(topic for side in node.joined for topic in _topics(side)))
        if topics:
            found.append(Copartition(node, topics))
    return tuple(found)


def _topics(node: Node) -> Iterator[str]:
    """The topics that a step's records come from, within its own sub-topology."""
    if node.source_topics:
        yield from node.source_topics
    else:
        for side in node.joined or node.parents:
            yield from _topics(side)
