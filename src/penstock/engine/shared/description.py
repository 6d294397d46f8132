"""What an application keeps, in words: each start writes it down, and the next one is held against it.

State is kept by the names of stores, the numbers of tasks and the names of topics. A topology that uses these for
something else would count on in the wrong windows, read bytes as what they are not, or begin empty without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from penstock.engine.shared.layout import Layout
from penstock.engine.shared.stores import stores_of
from penstock.engine.shared.traces import Trace, Traces, topics_read
from penstock.plan import nodes
from penstock.plan.node import Node, StoreSpec
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.state.store import StateStore

_WINDOWS = {
    "size_ms": "window size",
    "advance_ms": "advance",
    "time_difference_ms": "time difference",
    "inactivity_gap_ms": "inactivity gap",
    "start_ms": "start of windows",
    "before_ms": "time before",
    "after_ms": "time after",
}
_SEGMENTS = {"retention": "retention", "segment_interval": "segment interval"}


class Kept(msgspec.Struct, frozen=True):
    """A store, as its rows depend on it."""

    tasks: int
    """The number of its sub-topology, with which the names of its tasks begin."""
    facts: dict[str, str]
    """What its rows are, in words."""
    named_by_user: bool
    trace: Trace | None = None
    """Where it stands, so that it is known when a generated name has another number; None in starts of before."""
    is_own: bool = False
    """Whether a user brings it."""


class Description(msgspec.Struct, frozen=True):
    """What a topology keeps."""

    topics: dict[str, int]
    """The partitions of all topics that tasks read, repartition topics too."""
    readers: dict[str, int]
    """The number of the sub-topology that reads each."""
    stores: dict[str, Kept]
    clocks: dict[str, str]
    """The names of the steps that have a stream time, by what tells which step it is when their numbers move."""
    internal: dict[str, Trace] = {}
    """Which of the topics are repartition topics, and where they stand; nothing in starts of before."""
    everywhere: dict[int, dict[str, str]] | None = None
    """By sub-topologies, the stores of the global tables that each of their tasks has, by topics; None in starts of
    before."""
    types: dict[str, tuple[str, str]] | None = None
    """The types of keys and values of repartition topics; None in starts of before."""
    types_before: dict[str, tuple[str, str]] = {}
    """Those that they had in release 0.1.0, whose starts do not tell."""
    outputs: dict[str, tuple[str, str]] = {}
    """The types that are written into topics, where they are others than in release 0.1.0."""
    outputs_before: dict[str, tuple[str, str]] = {}
    """And those of that release."""


def description_of(topology: Topology, layout: Layout, known: Collection[str] | None = None) -> Description:
    """What a topology keeps, as it is laid out.

    Args:
        known: the topics of another start, against which it is to be held: in what tells steps apart, sources that read
            by a pattern have none that were not there yet.
    """
    subs = [sub for sub in topology.sub_topologies if not sub.is_global]
    readers = {topic: sub.id for sub in subs for topic in sub.source_topics}
    topics = {topic: layout.partitions[topic] for topic in readers}
    traces = Traces(topology, known)
    stores = {spec.name: kept for sub in subs for spec, kept in _stores(topology, sub, layout, traces)}
    outputs = {
        node.topic or f"chosen at {node.where}": ((node.key.name, node.value.name), node.types_before)
        for node in topology.nodes
        if isinstance(node, nodes.Sink) and node.types_before not in (("", ""), (node.key.name, node.value.name))
    }
    through = topology.repartitions
    return Description(
        topics,
        readers,
        stores,
        dict(_clocks(topology, known)),
        traces.topics,
        _everywhere(topology, subs),
        {topic: (node.key.name, node.value.name) for topic, node in through.items()},
        {topic: node.types_before for topic, node in through.items() if all(node.types_before)},
        {topic: now for topic, (now, _) in outputs.items()},
        {topic: before for topic, (_, before) in outputs.items()},
    )


def _everywhere(topology: Topology, subs: list[SubTopology]) -> dict[int, dict[str, str]]:
    kept = topology.facts.stores
    found = {
        sub.id: {
            topic: kept[part.node].name for part in sub.global_parts if part.node in kept for topic in part.node.topics
        }
        for sub in subs
    }
    return {sub: tables for sub, tables in found.items() if tables}


def _clocks(topology: Topology, known: Collection[str] | None) -> Iterator[tuple[str, str]]:
    for node, spec in topology.facts.stores.items():
        yield f"store {spec.name}", node.name
    for sub in topology.sub_topologies:
        for part in sub.parts:
            if part.kind == "source":
                node = part.node
                topics = part.topics if node.pattern is None else topics_read(node, known)
                yield f"topics {', '.join(topics)}", part.name
    for node in topology.nodes:
        yield from node.clocks


def _stores(topology: Topology, sub: SubTopology, layout: Layout, traces: Traces) -> Iterator[tuple[StoreSpec, Kept]]:
    """The stores of a sub-topology, without those of global tables, whose topics are read as a whole by each task."""
    made = {store.name: store for store in stores_of(sub, topology.facts)}
    for name, added in topology.facts.added.items():
        if name in made:
            facts = dict(_facts(None, added, made[name])) | {"partitions": str(layout.tasks[sub.id])}
            yield added, Kept(sub.id, facts, True, None, added.supplier is not None)
    for part in sub.parts:
        spec = topology.facts.stores.get(part.node)
        if spec is not None and part.kind == "processor" and spec.name in made:
            facts = dict(_facts(part.node, spec, made[spec.name])) | {"partitions": str(layout.tasks[sub.id])}
            trace = traces.stores[spec.name]
            yield spec, Kept(sub.id, facts, spec.named_by_user, trace, spec.supplier is not None)


def _facts(node: Node | None, spec: StoreSpec, store: StateStore) -> Iterator[tuple[str, str]]:
    yield "rows", store.content
    yield "kind", spec.kind
    for name, serde in (("key", spec.key), ("value", spec.value)):
        if serde is not None:
            yield name, serde.name
    if node is not None:
        yield from _of_step(node)
    yield from _times(store, _SEGMENTS)
    if node is not None and node.windowed_by is not None:
        yield "results", "one when a window closes" if node.final else "each update"


def _of_step(node: Node) -> Iterator[tuple[str, str]]:
    for topic in node.topics:
        yield "topic", topic
    if node.aggregation is not None:
        yield "made by", node.aggregation.kind
        if node.aggregation.initialize is not None and (first := _type_of(node.aggregation.initialize)):
            yield "first value", first
    yield from _times(node.windows, _WINDOWS)


def _times(of: object, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What windows, or a store, say of times, as far as they have them."""
    for attribute, name in names.items():
        if isinstance(value := getattr(of, attribute, None), int):
            yield name, f"{value} ms"


def _type_of(initialize: Callable[[], Any]) -> str:
    """The type of what an aggregation begins with; nothing if that fails, which is told when it is needed."""
    try:
        return type(initialize()).__name__
    except Exception:
        return ""
