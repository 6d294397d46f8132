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
    """Follow the records from sub-topology to sub-topology: no two ways may lead to the same one."""
    waiting, seen = [topic], set()
    while waiting:
        topic = waiting.pop()
        for sub in topology.sub_topologies:
            if topic in (*sub.source_topics, *sub.global_topics):
                if sub.id in seen or not _may_pass_at_once(topology, sub, caching):
                    return False
                seen.add(sub.id)
                waiting += topology.internal_topics & set(sub.sink_topics)
    return True


def _may_pass_at_once(topology: Topology, sub: SubTopology, caching: bool) -> bool:
    """Return whether a sub-topology may process many records before the next one gets any of them."""
    if sub.is_global or sub.global_parts or set(topology.source_topics) & set(sub.sink_topics):
        return False
    if any(isinstance(part.node, Process) or part.node.selector is not None for part in sub.parts):
        return False  # a processor may remember values that are then rolled back
    return is_chain(sub) or not (caching and any(_is_cached(part, topology.facts) for part in sub.parts))


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
