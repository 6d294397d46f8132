"""The description of an application's state: each start writes it down, and the next start compares it.

State is stored by the names of stores, the numbers of tasks and the names of topics. A topology that uses these for
something else would add to wrong windows, decode bytes as the wrong type, or silently begin empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from penstock.engine.shared.layout import Layout
from penstock.engine.shared.stores import stores_of
from penstock.engine.shared.traces import Trace, Traces, topics_read
from penstock.plan import nodes
from penstock.plan.node import ROWS, Node, StoreSpec
from penstock.plan.own_windows import OwnWindows
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.state.kinds.own.store import OwnStore
from penstock.state.kinds.session import SessionStore
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
HEADERS, NO_HEADERS, KEPT, KEPT_IN_SESSIONS = "headers", "none", "kept", "kept in sessions"
"""Whether the rows of a processor's store have headers. Those of steps read alike in both formats."""
_SEGMENTS = {"retention": "retention", "segment_interval": "segment interval"}


class Kept(msgspec.Struct, frozen=True):
    """A store, with the facts that its rows depend on."""

    tasks: int
    """The number of its sub-topology, which starts the names of its tasks."""
    facts: dict[str, str]
    """Facts about its rows, in words."""
    named_by_user: bool
    trace: Trace | None = None
    """Its position, which identifies it when a generated name has another number; None in earlier starts."""
    is_own: bool = False
    """Whether the user provides the store."""


class Description(msgspec.Struct, frozen=True):
    """The stored state of a topology, and its topics."""

    topics: dict[str, int]
    """The partition counts of all topics that tasks read, including repartition topics."""
    readers: dict[str, int]
    """The number of the sub-topology that reads each topic."""
    stores: dict[str, Kept]
    clocks: dict[str, str]
    """The names of steps with a stream time, by a description that stays when their numbers change."""
    internal: dict[str, Trace] = {}
    """The repartition topics and their positions; empty in earlier starts."""
    everywhere: dict[int, dict[str, str]] | None = None
    """By sub-topology, the stores of the global tables that each of its tasks has, by topics; None in earlier
    starts.
    """
    types: dict[str, tuple[str, str]] | None = None
    """The types of keys and values of repartition topics; None in earlier starts."""
    types_before: dict[str, tuple[str, str]] = {}
    """The types of the same topics in release 0.1.0, whose starts do not hold them."""
    outputs: dict[str, tuple[str, str]] = {}
    """The types written into topics, where they differ from release 0.1.0."""
    outputs_before: dict[str, tuple[str, str]] = {}
    """The types of the same topics in release 0.1.0."""


def description_of(topology: Topology, layout: Layout, known: Collection[str] | None = None) -> Description:
    """Return the description of a topology in its layout.

    Args:
        known: the topics of another start to compare with. In the traces of steps, sources that read by a pattern then
            have none of the topics that are new since.
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
    """Yield the stores of a sub-topology, without those of global tables, whose topics each task reads as a whole."""
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


def _is_of_sessions(store: StateStore) -> bool:
    kind = store.copied_as if isinstance(store, OwnStore) else type(store)
    return issubclass(kind, SessionStore)


def _facts(node: Node | None, spec: StoreSpec, store: StateStore) -> Iterator[tuple[str, str]]:
    yield "rows", store.content
    if spec.shape is not None and spec.headers == ROWS:
        yield HEADERS, KEPT_IN_SESSIONS if _is_of_sessions(store) else KEPT
    else:
        yield HEADERS, NO_HEADERS
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
        if node.aggregation.together is not None:
            yield "aggregates", node.aggregation.together.shown
        if node.aggregation.initialize is not None and (first := _type_of(node.aggregation.initialize)):
            yield "first value", first
    if isinstance(node.windows, OwnWindows):
        yield "windows", node.windows.name
    yield from _times(node.windows, _WINDOWS)


def _times(of: object, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the durations of windows, or of a store, where it has them."""
    for attribute, name in names.items():
        if isinstance(value := getattr(of, attribute, None), int):
            yield name, f"{value} ms"


def _type_of(initialize: Callable[[], Any]) -> str:
    """Return the type of an aggregation's initial value; empty if the initializer fails, which is reported when it
    runs.
    """
    try:
        return type(initialize()).__name__
    except Exception:
        return ""
