"""Where records get to: from which sub-topologies to which, and from which steps of one to which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.plan.physical import Part, SubTopology


def leads(one: SubTopology, other: SubTopology, through: frozenset[str] | None = None) -> bool:
    """Whether a sub-topology reads what another one sends.

    Args:
        through: the topics that count; None for all.
    """
    sent = set(one.sink_topics) if through is None else through.intersection(one.sink_topics)
    return not sent.isdisjoint(other.source_topics)


def subs_above(sub: SubTopology, subs: Iterable[SubTopology], through: frozenset[str] | None = None) -> set[int]:
    """The sub-topologies whose records come to one, and itself.

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
    """For each part those that its records may come to.

    Args:
        parts: those of one sub-topology, each behind those whose records it takes.
    """
    below: dict[str, set[str]] = {part.name: set() for part in parts}
    for part in reversed(parts):
        for name in part.predecessors:
            below[name] |= {part.name} | below[part.name]
    return below
