"""Finds steps whose records are not in the partitions of their keys.

Such are processors with stores behind other keys, and joins of streams that are partitioned in two ways. So are stores
behind partitioners that look at more than the key, or behind topics with different numbers of partitions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.errors import PartitioningWarning, PenstockWarning
from penstock.plan import nodes
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node
from penstock.plan.passes.partitioners import scattered
from penstock.plan.physical import SubTopology

_WHY = {
    nodes.RestoreKey: "{step} leaves records in the partitions of their ids",
    nodes.Process: "{step} may forward records under other keys, which stay in the partitions of the old ones",
}
_GIVES = "{step} gives records other keys, and they stay in the partitions of the old ones"
_WAYS_OUT = {
    nodes.RestoreKey: "; where duplicates share a key, deduplicate_by_key_value(...) keeps records where they are",
    nodes.Process: "; if it keeps the keys, process_values(...) in its place says so",
}


_IF_MEANT = ". If it is meant so: warnings.filterwarnings('ignore', category=penstock.PartitioningWarning)"


class Misplaced(NamedTuple):
    """A processor with stores, and the earlier step that moves records away from their keys' partitions."""

    processor: Node
    moved: Node

    def text(self) -> str:
        """The problem and the ways out, as text."""
        step, moved = named(self.processor), type(self.moved)
        why = _WHY.get(moved, _GIVES).format(step=named(self.moved))
        kept = self.processor.store_names
        stores = f"the store {kept[0]!r}" if len(kept) == 1 else f"the stores {', '.join(map(repr, kept))}"
        return (
            f"{step} has {stores}, and {why}. With several partitions the rows of one key lie in several tasks, each "
            f"with a part of them. {self._way_out()}{_IF_MEANT}"
        )

    def _way_out(self) -> str:
        if isinstance(self.moved, nodes.Process) and self.moved.is_by_hand:
            return (
                "Send the records through a topic in between, with add_sink and add_source; if the keys stay the same, "
                f"make a FixedKeyProcessor class of {self.moved.name!r}"
            )
        return f"Put .repartition() in between{_WAYS_OUT.get(type(self.moved), '')}"


def misplaced(declared: Iterable[Node]) -> Iterator[Misplaced]:
    """Yield processors with stores after steps that change keys, without a repartition in between.

    Groupings, joins and ``to_table`` insert a repartition where needed; processors do not.
    """
    for node in dict.fromkeys(declared):
        if node.store_names:
            for moved in dict.fromkeys(_movers(node)):
                yield Misplaced(node, moved)


def warn_of_misplaced(declared: Iterable[Node], told: set[str]) -> None:
    """Warn at their lines: of these processors, of joins of streams that are partitioned in two ways, and of stores
    behind partitioners that look at more than the key.

    Args:
        told: the warnings that were given before, which are not repeated.
    """
    steps = tuple(dict.fromkeys(declared))
    for misplaced_one in misplaced(steps):
        warn_at(misplaced_one.processor, misplaced_one.text(), told)
    differing: list[Any] = []
    for join, text, calls in _partitioned_in_two_ways(steps):
        warn_at(join, text, told)
        differing += calls
    for step, store, partitioner, topic in scattered(steps):
        if partitioner.call in differing:
            continue
        text = (
            f"{named(step)} has the store {store!r}, and its records come through topic {topic!r} by the partitioner "
            f"{partitioner.name} at {partitioner.where}, which looks at more than the key. With several partitions the "
            "rows of one key lie in several tasks, each with a part of them. Have the partitioner look at the key "
            f"alone, or put .repartition() in between{_IF_MEANT}"
        )
        warn_at(step, text, told)


def warn_of_uneven(subs: Iterable[SubTopology], partitions: Mapping[str, int], told: set[str]) -> None:
    """Warn of stores behind topics with different numbers of partitions: equal keys are in different tasks.

    Joins of such topics are refused.
    """
    for sub in subs:
        for step, store, counts in _uneven(sub, partitions):
            having = ", ".join(f"{topic!r} has {count}" for topic, count in counts.items())
            text = (
                f"{named(step)} has the store {store!r} for the records of topics with different numbers of "
                f"partitions: {having}. The rows of one key lie in several tasks, each with a part of them. Give the "
                f"topics the same number, or put .repartition() in front of the step{_IF_MEANT}"
            )
            warn_at(step, text, told)


def warn_at(node: Node, text: str, told: set[str], category: type[PenstockWarning] = PartitioningWarning) -> None:
    """Give a warning at a step's line, unless it was given before."""
    if text in told:
        return
    told.add(text)
    file, _, line = node.where.rpartition(":")
    number = int(line) if line.isdigit() else 1
    warnings.warn_explicit(text, category, file or node.where, number)


def _uneven(sub: SubTopology, partitions: Mapping[str, int]) -> Iterator[tuple[Node, str, dict[str, int]]]:
    """Yield for each set of such topics the first step of a sub-topology that keeps their records in a store."""
    behind: dict[str, set[str]] = {}
    of_store: dict[str, tuple[Node, set[str]]] = {}
    for part in sub.parts if not sub.is_global else ():
        topics = behind.setdefault(part.name, set(part.topics) if part.kind == "source" else set())
        topics.update(*(behind.get(name, ()) for name in part.predecessors))
        for store in part.stores:
            of_store.setdefault(store, (part.node, set()))[1].update(topics)
    seen: set[frozenset[str]] = set()
    for store, (step, topics) in of_store.items():
        counts = {topic: partitions[topic] for topic in sorted(topics) if partitions.get(topic)}
        if len(set(counts.values())) > 1 and frozenset(counts) not in seen:
            seen.add(frozenset(counts))
            yield step, store, counts


def _partitioned_in_two_ways(steps: Sequence[Node]) -> Iterator[tuple[Node, str, list[Any]]]:
    """Yield joins whose sides are partitioned by two functions, or one of them by a function; with these functions."""
    written = {node.topic: node.partitioner for node in steps if isinstance(node, nodes.Sink)}
    for node in steps:
        if isinstance(node, nodes.ResponseJoin):  # responses go to the partition that their request came from
            continue
        ways = [way for side in node.joined for way in _ways(side, written)]
        other = next((way for way in ways if way.call != ways[0].call), None)
        if other is not None:
            what = "the aggregation" if node.sides else "the join"
            yield (
                node,
                f"{what} at {node.where} gets records that are partitioned in two ways: {ways[0].text}, and "
                f"{other.text}. With several partitions equal keys do not meet in one task. Give both sides the same "
                f"partitioner, with .repartition(partitioner=...){_IF_MEANT}",
                [way.call for way in ways],
            )


class _Way(NamedTuple):
    """How the records of one side of a join are partitioned."""

    call: Any
    """The function; None for Kafka's partitioner."""
    text: str


def _ways(node: Node, written: Mapping[str, UserFunction | None]) -> Iterator[_Way]:
    if isinstance(node, nodes.Repartition):
        yield _way(node.partitioner, f"through topic {node.topic!r}")
    elif node.source_topics:
        for topic in node.source_topics:
            yield _way(written.get(topic), f"in topic {topic!r}")
    else:
        for side in node.joined or node.parents:
            yield from _ways(side, written)


def _way(partitioner: UserFunction | None, where: str) -> _Way:
    if partitioner is None:
        return _Way(None, f"{where} by Kafka's partitioner")
    return _Way(partitioner.call, f"{where} by {partitioner.name} at {partitioner.where}")


def _movers(node: Node) -> Iterator[Node]:
    """Yield the nearest earlier steps that change keys, back to a repartition or a table."""
    for parent in node.parents:
        if isinstance(parent, nodes.Repartition) or parent.is_table:
            continue
        if parent.changes_key:
            yield parent
        else:
            yield from _movers(parent)


def named(node: Node) -> str:
    """Name a step in a warning, with its line."""
    if isinstance(node, nodes.Process) and node.is_by_hand:
        return f"the processor {node.name!r} at {node.where}"
    return f"{node.method or node.name} at {node.where}"
