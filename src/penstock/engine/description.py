"""What an application keeps, in words: each start writes it down, and the next one is held against it.

State is kept by the names of stores, the numbers of tasks and the names of topics. A topology that uses these for
something else would count on in the wrong windows, read bytes as what they are not, or begin empty without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from penstock.engine.layout import Layout, TaskId
from penstock.engine.manifest import Manifest
from penstock.engine.stores import stores_of
from penstock.errors import ConfigError
from penstock.plan import nodes
from penstock.plan.node import Node, StoreSpec
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.state.store import StateStore

_ROWS = {
    "KeyValueStore": "values by key",
    "UserStore": "values by key",
    "WindowStore": "windows",
    "SessionStore": "sessions",
    "SlidingStore": "sliding windows",
    "VersionedStore": "versions by key",
    "TimeOrderedBuffer": "updates that are held back",
    "DeduplicationStore": "ids",
    "JoinWindowStore": "one side of a join",
    "WaitingStore": "records that wait for a partner",
    "SubscriptionStore": "subscriptions of a foreign-key join",
}
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


class Description(msgspec.Struct, frozen=True):
    """What a topology keeps."""

    topics: dict[str, int]
    """The partitions of all topics that tasks read, repartition topics too."""
    readers: dict[str, int]
    """The number of the sub-topology that reads each."""
    stores: dict[str, Kept]
    clocks: dict[str, str]
    """The names of the steps that have a stream time, by what tells which step it is when their numbers move."""


def description_of(topology: Topology, layout: Layout) -> Description:
    """What a topology keeps, as it is laid out."""
    subs = [sub for sub in topology.sub_topologies if not sub.is_global]
    readers = {topic: sub.id for sub in subs for topic in sub.source_topics}
    topics = {topic: layout.partitions[topic] for topic in readers}
    stores = {spec.name: kept for sub in subs for spec, kept in _stores(topology, sub, layout)}
    return Description(topics, readers, stores, dict(_clocks(topology)))


def _clocks(topology: Topology) -> Iterator[tuple[str, str]]:
    for node, spec in topology.facts.stores.items():
        yield f"store {spec.name}", node.name
    for sub in topology.sub_topologies:
        for part in sub.parts:
            if part.kind == "source":
                yield f"topics {', '.join(part.topics)}", part.name
    for node in topology.nodes:
        if connected := nodes.connected_stores(node):
            yield f"processor of {', '.join(sorted(connected))}", node.name
        elif isinstance(node, nodes.CogroupInput):
            yield f"input {node.side} of {node.shared.name}", node.name
        elif isinstance(node, nodes.StreamJoin):
            yield f"join of {node.left.store.name} and {node.right.store.name}", node.name
        elif isinstance(node, nodes.SubscriptionReceive):
            yield f"subscribers in {node.store.name}", node.subscribe.name


def _stores(topology: Topology, sub: SubTopology, layout: Layout) -> Iterator[tuple[StoreSpec, Kept]]:
    """The stores of a sub-topology, without those of global tables, whose topics are read as a whole by each task."""
    made = {store.name: store for store in stores_of(sub, topology.facts)}
    for name, added in topology.facts.added.items():
        if name in made:
            facts = dict(_facts(None, added, made[name])) | {"partitions": str(layout.tasks[sub.id])}
            yield added, Kept(sub.id, facts, True)
    for part in sub.parts:
        spec = topology.facts.stores.get(part.node)
        if spec is not None and part.kind == "processor" and spec.name in made:
            facts = dict(_facts(part.node, spec, made[spec.name])) | {"partitions": str(layout.tasks[sub.id])}
            yield spec, Kept(sub.id, facts, spec.named_by_user)


def _facts(node: Node | None, spec: StoreSpec, store: StateStore) -> Iterator[tuple[str, str]]:
    kind = type(store).__name__
    yield "rows", _ROWS.get(kind, kind)
    yield "kind", spec.kind
    for name, serde in (("key", spec.key), ("value", spec.value)):
        if serde is not None:
            yield name, serde.name
    if isinstance(node, nodes.TableSource):
        yield "topic", node.topic
    yield from _of_aggregation(getattr(node, "aggregation", None))
    windows: Any = getattr(node, "windows", None)
    for of, names in ((windows, _WINDOWS), (store, _SEGMENTS)):
        for attribute, name in names.items():
            if isinstance(value := getattr(of, attribute, None), int):
                yield name, f"{value} ms"
    if isinstance(node, nodes.WindowedAggregate):
        yield "results", "one when a window closes" if node.final else "each update"


def _of_aggregation(aggregation: nodes.Aggregation | None) -> Iterator[tuple[str, str]]:
    if aggregation is not None:
        yield "made by", aggregation.kind
        if aggregation.initialize is not None and (first := _type_of(aggregation.initialize)):
            yield "first value", first


def _type_of(initialize: Callable[[], Any]) -> str:
    """The type of what an aggregation begins with; nothing if that fails, which is told when it is needed."""
    try:
        return type(initialize()).__name__
    except Exception:
        return ""


def with_clocks(old: Description, new: Description, newest: Manifest) -> Manifest:
    """A manifest with stream times under the names that steps have now: numbers move when steps come or go."""
    moved = {name: new.clocks[what] for what, name in old.clocks.items() if new.clocks.get(what, name) != name}
    if not moved:
        return newest
    tasks = {
        task: msgspec.structs.replace(
            entry, numbers={_renamed(name, moved, old): number for name, number in entry.numbers.items()}
        )
        for task, entry in newest.tasks.items()
    }
    return msgspec.structs.replace(newest, tasks=tasks)


def _renamed(name: str, moved: dict[str, str], old: Description) -> str:
    if name in old.stores:
        return name
    own = next((step for step in moved if name == step or name.startswith(f"{step}-")), None)
    return name if own is None else moved[own] + name[len(own) :]


def check_description(old: Description, new: Description, newest: Manifest, application_id: str, where: str) -> None:
    """Raise ``ConfigError`` when a topology would mix or lose what an application has kept so far."""
    if not newest.tasks:
        return
    wrong = [*_moved(old, new), *_changed(old, new), *_gone(old, new), *_left_waiting(new, newest)]
    if wrong:
        lines = "\n".join(f"- {line}" for line in wrong)
        raise ConfigError(
            f"the topology no longer fits what application {application_id!r} has kept in {where}:\n{lines}\n"
            "Nothing was started, and nothing is lost. To go on with what is there, put back what is named here; to "
            "process the topics anew with this topology, start it under another application id"
        )


def _moved(old: Description, new: Description) -> Iterator[str]:
    for topic in sorted(old.topics.keys() & new.topics.keys()):
        if old.topics[topic] != new.topics[topic]:
            yield (
                f"topic {topic!r} had {old.topics[topic]} partitions and has {new.topics[topic]} now; state is kept by "
                "partition and cannot follow"
            )
        if old.readers[topic] != new.readers[topic]:
            yield (
                f"topic {topic!r} was read by sub-topology {old.readers[topic]} and would be read by "
                f"{new.readers[topic]}; declare new steps behind those that were there, and keep the order of these"
            )


def _changed(old: Description, new: Description) -> Iterator[str]:
    for name in sorted(old.stores.keys() & new.stores.keys()):
        before, now = old.stores[name], new.stores[name]
        different = [fact for fact in before.facts if now.facts.get(fact, before.facts[fact]) != before.facts[fact]]
        if different:
            told = ", ".join(f"{fact} was {before.facts[fact]} and is {now.facts[fact]} now" for fact in different)
            yield f"store {name!r}: {told}"
        elif before.tasks != now.tasks:
            yield (
                f"store {name!r} was in sub-topology {before.tasks} and would be in {now.tasks}; declare new steps "
                "behind those that were there, and keep the order of these"
            )


def _gone(old: Description, new: Description) -> Iterator[str]:
    added = {name: kept for name, kept in new.stores.items() if name not in old.stores}
    for name in sorted(old.stores.keys() - new.stores.keys()):
        kept = old.stores[name]
        alike = [other for other, candidate in added.items() if candidate.facts == kept.facts]
        line = f"store {name!r} ({kept.facts['rows']}) is not there any more"
        if alike and kept.named_by_user:
            line += f", and {alike[0]!r} is new and would begin empty: was it renamed?"
        elif alike:
            line += (
                f", and {alike[0]!r} is new and would begin empty: its number moved, because steps in front of it came "
                f"or went. Give it the name it had (store={name!r}), or keep the steps in front of it as they were"
            )
        yield line


def _left_waiting(new: Description, newest: Manifest) -> Iterator[str]:
    for task, topics in newest.waiting.items():
        for topic in topics:
            if new.readers.get(topic) != TaskId.parse(task).sub:
                yield (
                    f"records wait in the repartition topic {topic!r}, which nothing reads any more; let the topology "
                    "that was there process them first"
                )
