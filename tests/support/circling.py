"""The examples whose sub-topologies send to each other in a circle."""

from __future__ import annotations

from hypothesis import settings

from penstock import Topology
from penstock.engine.shared.circles import Circle, circles_of
from support.topologies import EXAMPLES, topology_of


def circles(topology: Topology) -> tuple[Circle, ...]:
    subs = tuple(sub for sub in topology.sub_topologies if not sub.is_global)
    return circles_of(subs, topology.internal_topics, topology.facts)


NAMES = [name for name in EXAMPLES if circles(topology_of(name))]

FEW = settings(max_examples=max(4, settings.default.max_examples // 5))
