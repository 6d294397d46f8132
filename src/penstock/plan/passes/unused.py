"""Finds steps whose results nothing uses.

Penstock runs them, as Kafka Streams does, and gives a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.errors import PenstockWarning
from penstock.plan import nodes
from penstock.plan.node import Node
from penstock.plan.passes.partitioning import named, warn_at
from penstock.plan.passes.stores import TableFacts
from penstock.plan.physical import SubTopology

_CALLED_FOR_EFFECTS = (nodes.Sink, nodes.Peek, nodes.Process, nodes.MapValuesAsync, nodes.FilterAsync)
_WAY_OUT = (
    "Send them to a topic with .to(...), keep them in a table with store=..., or have a function with side effects "
    "called by foreach(...)"
)


def check_used(subs: Sequence[SubTopology], facts: TableFacts, told: set[str]) -> None:
    """Warn of each such step at its line.

    Args:
        told: the warnings that were given before, which are not repeated.
    """
    unused = list(_unused(subs, facts))
    is_nothing_used = not any(_has_effect(part.node, facts) for sub in subs for part in sub.parts)
    more = ", and the topology has no other output" if is_nothing_used else ""
    for node in unused:
        text = (
            f"nothing uses the results of {named(node)}{more}. {_WAY_OUT}. If the step is there for later: "
            "warnings.filterwarnings('ignore', 'nothing uses')"
        )
        warn_at(node, text, told, PenstockWarning)


def _unused(subs: Sequence[SubTopology], facts: TableFacts) -> Iterator[Node]:
    parts = [part for sub in subs for part in sub.parts]
    steps = {part.name: part.node for part in parts}
    used = {steps[name] for part in parts for name in part.predecessors if steps[name] is not part.node}
    used.update(table for node in steps.values() for table in node.looks_up)
    divided = {node.parent for node in used if isinstance(node, nodes.Branch)}
    for node in dict.fromkeys(steps.values()):
        if node in used or _has_effect(node, facts):
            continue
        if not isinstance(node, nodes.Branch):
            yield node
        elif node.parent not in divided:  # to use some branches and not others is common
            divided.add(node.parent)
            yield node.parent


def _has_effect(node: Node, facts: TableFacts) -> bool:
    """Return whether a step has an effect of its own: a topic, a table that can be queried, or a call of a function."""
    is_kept = node.is_table and not node.collapses_updates and node in facts.stores
    return isinstance(node, _CALLED_FOR_EFFECTS) or node.hosts or is_kept or node.is_global or node.outside is not None
