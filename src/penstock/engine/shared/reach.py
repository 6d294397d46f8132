"""Reachability: which sub-topologies, and which steps within one, receive records from which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.plan.physical import Part, SubTopology


def leads(one: SubTopology, other: SubTopology, through: frozenset[str] | None = None) -> bool:
    """Return whether `other` reads topics that `one` writes.

    Args:
        through: the topics that count; None for all.
    """
    sent = set(one.sink_topics) if through is None else through.intersection(one.sink_topics)
    return not sent.isdisjoint(other.source_topics)


def subs_above(sub: SubTopology, subs: Iterable[SubTopology], through: frozenset[str] | None = None) -> set[int]:
    """Return the sub-topologies whose records reach one, and itself.

    Args:
        through: the topics that count; None for all.
    """
    found: set[int] = set()
    near = [sub]
    while near:
        found.update(one.id for one in near)
        topics = {topic for one in near for topic in one.source_topics if through is None or topic in through}
        near = [one for one in subs if one.id not in found and not topics.isdisjoint(one.sink_topics)]
    return found


def parts_below(parts: Sequence[Part]) -> dict[str, set[str]]:
    """Return, for each part, the parts that its records may reach.

    Args:
        parts: the parts of one sub-topology, each after its predecessors.
    """
    below: dict[str, set[str]] = {part.name: set() for part in parts}
    for part in reversed(parts):
        for name in part.predecessors:
            below[name] |= {part.name} | below[part.name]
    return below
