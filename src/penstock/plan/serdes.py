"""The types of a topology, wherever in it they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.plan.nodes import Sink
from penstock.plan.rewriting import Rewriting
from penstock.serdes import Serde

if TYPE_CHECKING:
    from penstock.plan.topology import Topology


class _Seen(Rewriting):
    """Changes nothing, and notes the types that it meets."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Serde] = {}

    def serde(self, one: Serde) -> Serde:
        self.found[id(one)] = one
        return one


def prepare_serdes(topology: Topology) -> None:
    """Find out whether the types of a topology can be used.

    Raises:
        ConfigError: one cannot.
        RegistryError: a schema registry that one needs is out of reach.
    """
    seen = _Seen()
    seen.of(topology.nodes)
    written = {id(one) for node in topology.nodes if isinstance(node, Sink) for one in (node.key, node.value)}
    for number, one in seen.found.items():
        one.prepare(number in written)
