"""Finds processors with stores that receive records in other partitions than those of their keys."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.errors import PartitioningWarning
from penstock.plan import nodes
from penstock.plan.node import Node

_WHY = {
    nodes.RestoreKey: "{step} leaves records in the partitions of their ids",
    nodes.Process: "{step} may forward records under other keys, which stay in the partitions of the old ones",
}
_GIVES = "{step} gives records other keys, and they stay in the partitions of the old ones"
_WAYS_OUT = {
    nodes.RestoreKey: "; where duplicates share a key, deduplicate_by_key_value(...) keeps records where they are",
    nodes.Process: "; if it keeps the keys, process_values(...) in its place says so",
}


class Misplaced(NamedTuple):
    """A processor with stores, and the earlier step that moves records away from their keys' partitions."""

    processor: Node
    moved: Node

    def text(self) -> str:
        """The problem and the ways out, as text."""
        step, moved = _named(self.processor), type(self.moved)
        why = _WHY.get(moved, _GIVES).format(step=_named(self.moved))
        kept = self.processor.store_names
        stores = f"the store {kept[0]!r}" if len(kept) == 1 else f"the stores {', '.join(map(repr, kept))}"
        return (
            f"{step} has {stores}, and {why}. With several partitions the rows of one key lie in several tasks, each "
            f"with a part of them. Put .repartition() in between{_WAYS_OUT.get(moved, '')}. If it is meant so: "
            "warnings.filterwarnings('ignore', category=penstock.PartitioningWarning)"
        )


def misplaced(declared: Iterable[Node]) -> Iterator[Misplaced]:
    """Yield processors with stores after steps that change keys, without a repartition in between.

    Groupings, joins and ``to_table`` insert a repartition where needed; processors do not.
    """
    for node in dict.fromkeys(declared):
        if node.store_names:
            for moved in dict.fromkeys(_movers(node)):
                yield Misplaced(node, moved)


def warn_of_misplaced(declared: Iterable[Node]) -> None:
    """Warn of them, at the lines where the processors are declared."""
    for one in misplaced(declared):
        file, _, line = one.processor.where.rpartition(":")
        number = int(line) if line.isdigit() else 1
        warnings.warn_explicit(one.text(), PartitioningWarning, file or one.processor.where, number)


def _movers(node: Node) -> Iterator[Node]:
    """Yield the nearest earlier steps that change keys, back to a repartition or a table."""
    for parent in node.parents:
        if isinstance(parent, nodes.Repartition) or parent.is_table:
            continue
        if parent.changes_key:
            yield parent
        else:
            yield from _movers(parent)


def _named(node: Node) -> str:
    return f"{node.method or node.name} at {node.where}"
