"""The examples whose sub-topologies send to each other in a cycle."""

from __future__ import annotations

from hypothesis import settings

from penstock import Topology
from penstock.engine.shared.cycles import Cycle, cycles_of
from support.topologies import EXAMPLES, topology_of


def cycles(topology: Topology) -> tuple[Cycle, ...]:
    subs = tuple(sub for sub in topology.sub_topologies if not sub.is_global)
    return cycles_of(subs, topology.internal_topics, topology.facts)


NAMES = [name for name in EXAMPLES if cycles(topology_of(name))]

FEW = settings(max_examples=max(4, settings.default.max_examples // 5))
