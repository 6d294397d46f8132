"""Where a test driver may process many records at once with the same results as one at a time.

Cuts of the input do not show while a table sends every update (see ARCHITECTURE.md). With caching, a record's last
update of each key is sent when the record is committed. Where the steps are a chain, the caches send the same for many
records: the last update of each record and key.
"""

from __future__ import annotations

from penstock.plan.nodes import Process
from penstock.plan.passes.stores import TableFacts
from penstock.plan.physical import Part, SubTopology
from penstock.plan.topology import Topology


def updates_each_key_once(sub: SubTopology, facts: TableFacts) -> bool:
    """Return whether a record causes at most one update of a key in all caches of a chain."""
    if not is_chain(sub):
        return False
    cached = [number for number, part in enumerate(sub.parts) if _is_cached(part, facts)]
    above = sub.parts[: cached[-1] + 1] if cached else ()
    return all(part.node.caches_last_update if _is_cached(part, facts) else part.node.makes_one for part in above)


def batchable_topics(topology: Topology, caching: bool) -> frozenset[str]:
    """Return the source topics whose records may be processed many at once."""
    return frozenset(topic for topic in topology.source_topics if _may_batch(topology, topic, caching))


def _may_batch(topology: Topology, topic: str, caching: bool) -> bool:
    """Follow the records from sub-topology to sub-topology: there must be one way, with all outputs at its end."""
    facts, own = topology.facts, set(topology.source_topics)
    seen: set[str] = set()
    while topic not in seen:
        seen.add(topic)
        readers = [sub for sub in topology.sub_topologies if topic in (*sub.source_topics, *sub.global_topics)]
        if len(readers) != 1 or readers[0].is_global or readers[0].global_parts:
            return False
        [sub] = readers
        if any(isinstance(part.node, Process) or part.node.selector is not None for part in sub.parts):
            return False  # a processor may remember values that are then rolled back
        has_caches = caching and any(_is_cached(part, facts) for part in sub.parts)
        if (has_caches and not is_chain(sub)) or own & set(sub.sink_topics):
            return False
        if not topology.internal_topics & set(sub.sink_topics):
            return True
        if len([part for part in sub.parts if part.kind == "sink"]) > 1:
            return False
        [topic] = sub.sink_topics
    return False  # the way leads back to its start


def _is_cached(part: Part, facts: TableFacts) -> bool:
    spec = facts.stores.get(part.node)
    if spec is None or part.kind != "processor" or not spec.caching or spec.is_versioned:
        return False
    return part.node.caches_updates and not part.node.final


def is_chain(sub: SubTopology) -> bool:
    """Return whether every part follows the previous one, and no part looks up tables."""
    names = [part.name for part in sub.parts]
    return not (sub.global_parts or any(part.reads for part in sub.parts)) and all(
        part.predecessors == ((names[number - 1],) if number else ()) for number, part in enumerate(sub.parts)
    )
