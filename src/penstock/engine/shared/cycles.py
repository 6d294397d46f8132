"""Cycles: sub-topologies that send to each other, and in which lap around the cycle each step has its turn.

A stream that is joined with its own records under new keys makes one: the sub-topology that reads the stream also reads
its own output. No step follows itself, though, because each step was declared before its successors. So a chunk that
enters the cycle goes around it lap by lap. In the first lap those steps have their turn that need nothing that comes
back, in the next one those that need the output of the first lap, and so on.

    lap 0   in -> select_key -> (topic)
    lap 1   (topic) -> the right side; in, which was kept, and that -> join -> out

After the last lap no record is on its way (``rounds.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.engine.shared.groups import groups_of
from penstock.engine.shared.reach import leads, subs_above
from penstock.engine.shared.sharing import Sharing
from penstock.plan.passes.stores import TableFacts
from penstock.plan.physical import Part, SubTopology


@dataclass(frozen=True)
class Cycle:
    """Sub-topologies that can be reached from each other through repartition topics.

    Attributes:
        topics: the repartition topics between them.
        lap: the lap in which each part has its turn, by name. None if no such order exists: processors that send around
            the cycle see the time of what comes back, and those that share a store take turns record by record. Then
            records go around one by one.
    """

    subs: tuple[SubTopology, ...]
    topics: frozenset[str]
    lap: Mapping[str, int] | None

    @cached_property
    def turn(self) -> dict[str, int]:
        """By topic, the lap in which its readers have their turn."""
        parts = [part for sub in self.subs for part in sub.parts if part.kind == "source"]
        return {topic: self.turn_of(part.name) for part in parts for topic in self.topics.intersection(part.topics)}

    def turn_of(self, part: str) -> int:
        """Return the lap in which a part has its turn; 0 if records go around one by one."""
        return 0 if self.lap is None else self.lap.get(part, 0)

    @cached_property
    def last_lap(self) -> int:
        return max(self.lap.values()) if self.lap else 0


NO_CYCLE = Cycle((), frozenset(), None)


def cycles_of(subs: tuple[SubTopology, ...], internal: frozenset[str], facts: TableFacts) -> tuple[Cycle, ...]:
    """Return the cycles of a topology.

    Args:
        internal: its repartition topics.
    """
    above = {sub.id: subs_above(sub, subs, internal) for sub in subs}
    found: dict[tuple[SubTopology, ...], Cycle] = {}
    for sub in subs:
        members = tuple(one for one in subs if one.id in above[sub.id] and sub.id in above[one.id])
        if members not in found and (len(members) > 1 or leads(sub, sub, internal)):
            found[members] = _cycle(members, internal, facts)
    return tuple(found.values())


def _cycle(subs: tuple[SubTopology, ...], internal: frozenset[str], facts: TableFacts) -> Cycle:
    sent = {topic for sub in subs for topic in sub.sink_topics}
    topics = frozenset(topic for sub in subs for topic in sub.source_topics if topic in sent & internal)
    return Cycle(subs, topics, _laps(subs, topics, facts))


def _laps(subs: tuple[SubTopology, ...], topics: frozenset[str], facts: TableFacts) -> dict[str, int] | None:
    parts = {part.name: part for sub in subs for part in sub.working_parts}
    if any(Sharing(sub, groups_of(sub)).parts for sub in subs):
        return None
    sinks: defaultdict[str, list[str]] = defaultdict(list)
    for part in parts.values():
        for topic in part.topics if part.kind == "sink" else ():
            sinks[topic].append(part.name)
    owners = _owners(parts, facts)
    before = {name: {one for one in _before(part, owners) if one in parts} for name, part in parts.items()}
    sent = {
        name: {sink for topic in topics.intersection(part.topics) for sink in sinks[topic]}
        for name, part in parts.items()
        if part.kind == "source"
    }
    laps = dict.fromkeys(parts, 0)
    for _ in range(len(parts) + 1):
        later = {
            name: max([lap, *(laps[one] for one in before[name]), *(laps[one] + 1 for one in sent.get(name, ()))])
            for name, lap in laps.items()
        }
        if later == laps:
            return laps if all(_know_time(sub, laps) for sub in subs) else None
        laps = later
    return None


def _know_time(sub: SubTopology, laps: Mapping[str, int]) -> bool:
    """Return whether a sub-topology's input is complete when its processors, which see stream time, have their turn."""
    last = max(laps[part.name] for part in sub.parts if part.kind == "source")
    return all(laps[part.name] >= last for part in sub.parts if part.node.hosts)


def _before(part: Part, owners: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the parts whose turn must come first: the predecessors, and the owners of stores this part looks up."""
    yield from part.predecessors
    yield from part.reads
    for store in part.stores:
        if part.name not in owners[store]:
            yield from owners[store]


def _owners(parts: Mapping[str, Part], facts: TableFacts) -> defaultdict[str, set[str]]:
    """Return, by store, the parts of the step that owns it."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for part in parts.values():
        own = facts.stores.get(part.node)
        if own is not None and own.name in part.stores:
            owners[own.name].add(part.name)
    return owners
