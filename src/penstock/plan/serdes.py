"""The types of a topology, in all of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.plan.nodes import Sink
from penstock.plan.rewriting import Rewriting
from penstock.serdes import Serde

if TYPE_CHECKING:
    from penstock.plan.topology import Topology


class _Seen(Rewriting):
    """Changes nothing, but collects the types."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Serde] = {}

    def serde(self, one: Serde) -> Serde:
        self.found[id(one)] = one
        return one


def prepare_serdes(topology: Topology) -> None:
    """Check that the types of a topology can be used.

    Raises:
        ConfigError: a type cannot be used.
        RegistryError: a schema registry that a type needs cannot be reached.
    """
    seen = _Seen()
    seen.of(topology.nodes)
    written = {id(one) for node in topology.nodes if isinstance(node, Sink) for one in (node.key, node.value)}
    for number, one in seen.found.items():
        one.prepare(number in written)
