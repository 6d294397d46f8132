"""Splits steps into sources, processors and sinks, and groups these into sub-topologies.

Two parts belong to the same sub-topology if records pass directly between them or if they share a store. At a
repartition topic, one sub-topology ends with a sink and the next begins with a source.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from penstock.errors import TopologyError
from penstock.plan import nodes
from penstock.plan.node import Node
from penstock.plan.node import Part as Part
from penstock.plan.passes.stores import TableFacts


@dataclass(frozen=True)
class SubTopology:
    """The parts of one sub-topology in processing order; there is one task of it for each partition."""

    id: int
    parts: tuple[Part, ...]
    is_global: bool = False
    """True if it is a global table, which has no tasks of its own."""
    global_parts: tuple[Part, ...] = ()
    """The parts of the global tables that each of its tasks keeps."""
    counted: frozenset[str] = frozenset()
    """The global parts whose drops its first task counts; the drops of the others are counted elsewhere."""

    @property
    def working_parts(self) -> tuple[Part, ...]:
        """All parts that a task runs."""
        return self.global_parts + self.parts

    @property
    def global_topics(self) -> tuple[str, ...]:
        """The topics that each task reads completely."""
        return tuple(topic for part in self.global_parts if part.kind == "source" for topic in part.topics)

    def stores_counted_elsewhere(self, is_first: bool) -> frozenset[str]:
        """The stores of global tables whose rows another task reports.

        Args:
            is_first: whether it is the first task of the sub-topology.
        """
        here = self.counted if is_first else frozenset()
        return frozenset(store for part in self.global_parts if part.name not in here for store in part.stores)

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic for part in self.parts if part.kind == "source" for topic in part.topics))

    @property
    def sink_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(topic for part in self.parts if part.kind == "sink" for topic in part.topics))


def sub_topologies(
    declared: tuple[Node, ...], facts: TableFacts, as_described: bool = False
) -> tuple[SubTopology, ...]:
    """Return all parts in groups, numbered in the order in which their first parts are written.

    Args:
        as_described: group them as Kafka Streams does. There, responses of foreign-key joins need the left table. In
            Penstock they carry its value, so they can be in a sub-topology of their own, which runs after the right
            table's in the same commit.
    """
    parts = _parts(tuple(node for node in declared if not (as_described and _announces(node))), facts)
    group_of = {part.name: part.name for part in parts}

    def root(name: str) -> str:
        while group_of[name] != name:
            name = group_of[name]
        return name

    store_users: dict[str, str] = {}
    for part in parts:
        shared = part.stores if as_described or not part.node.brings_values else ()
        for other in (*part.predecessors, *(store_users.setdefault(store, part.name) for store in shared)):
            group_of[root(other)] = root(part.name)
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(root(part.name), []).append(part)
    return _with_global_tables(list(groups.values()))


def _with_global_tables(groups: list[list[Part]]) -> tuple[SubTopology, ...]:
    """Return the sub-topologies. Each gets the global tables that it reads; the first one also gets those that no step
    reads."""
    tables = {part.name: group for group in groups for part in group if part.node.is_global}
    unused = set(tables) - {name for group in groups for part in group for name in part.reads}
    subs = []
    counted: set[str] = set()
    for id_, group in enumerate(groups):
        is_global = group[0].name in tables
        names = [name for part in group for name in part.reads if name in tables]
        if not is_global:
            names += [part.name for table in groups for part in table if part.name in unused and part.kind != "source"]
            unused.clear()
        kept = [part for name in dict.fromkeys(names) for part in tables[name]]
        new = frozenset(part.name for part in kept) - counted
        counted |= new
        subs.append(SubTopology(id_, tuple(group), is_global, tuple(kept), new))
    return tuple(subs)


def _parts(declared: tuple[Node, ...], facts: TableFacts) -> list[Part]:
    aliases = _merged_sources(declared)
    parts: list[Part] = []
    for node in _in_writing_order(declared):
        if node.name not in aliases:
            above = tuple(dict.fromkeys(aliases.get(parent.name, parent.name) for parent in node.parents))
            above += tuple(brought.name for brought in node.also_behind if brought in declared)
            parts += node.parts(above, facts)
    return parts


def _announces(node: Node) -> bool:
    """True if Kafka Streams has no such step."""
    return not (node.is_in_kafka_streams and all(parent.is_in_kafka_streams for parent in node.parents))


def _in_writing_order(declared: tuple[Node, ...]) -> list[Node]:
    """Return the steps in Kafka Streams' order: of those whose parents are written, the one whose (last) declaration is
    earliest comes next."""
    priority = {node: i for i, node in enumerate(declared)}
    waiting = {node: len(set(node.parents)) for node in priority}
    children: dict[Node, list[Node]] = {}
    for node in priority:
        for parent in set(node.parents):
            children.setdefault(parent, []).append(node)
    ready = [(priority[node], id(node), node) for node, parents in waiting.items() if not parents]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for child in children.get(node, []):
            waiting[child] -= 1
            if not waiting[child]:
                heapq.heappush(ready, (priority[child], id(child), child))
    return order


def _merged_sources(declared: tuple[Node, ...]) -> dict[str, str]:
    """Streams of the same topics share one source: from the name of each later source to the one that replaces it."""
    first: dict[str, nodes.StreamSource] = {}
    aliases: dict[str, str] = {}
    for node in declared:
        if isinstance(node, nodes.StreamSource):
            same = {first[topic] for topic in node.topics if topic in first}
            if not same:
                first.update(dict.fromkeys(node.topics, node))
                continue
            main = same.pop()
            if main.topics != node.topics:
                raise TopologyError(
                    f"the streams at {main.where} and {node.where} read topics that overlap but are not the same: "
                    f"{', '.join(main.topics)} and {', '.join(node.topics)}; read each topic in a stream of its own "
                    "and merge them"
                )
            if (main.key, main.value, main.timestamp) != (node.key, node.value, node.timestamp):
                raise TopologyError(
                    f"topic {node.topics[0]!r} is read with different types or timestamps at {main.where} and "
                    f"{node.where}; read it once and use the stream twice"
                )
            aliases[node.name] = main.name
    return aliases
