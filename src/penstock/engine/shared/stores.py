"""From the parts of a sub-topology to the state stores that its tasks keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from penstock.plan import nodes
from penstock.plan.buffering import SPILL_TO_DISK
from penstock.plan.node import Node, StoreSpec
from penstock.plan.passes.stores import TableFacts
from penstock.plan.physical import SubTopology
from penstock.serdes.primitives import NumberSerde
from penstock.state.kinds.buffer import Room, TimeOrderedBuffer
from penstock.state.kinds.deduplication import DeduplicationStore
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.join_window import JoinWindowStore, WaitingStore
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.lru import LruStore
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.subscription import SubscriptionStore
from penstock.state.kinds.user import UserStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore


def stores_of(sub: SubTopology, facts: TableFacts, names: Mapping[str, str] = MappingProxyType({})) -> list[StateStore]:
    """The state stores of a sub-topology, empty.

    Args:
        names: under which other names to make some of them.
    """
    made: dict[str, StateStore] = {}
    for part in sub.parts:
        for name in nodes.connected_stores(part.node):
            if name in facts.added and name not in made:
                made[name] = store_of(replace(facts.added[name], name=names.get(name, name)))
    for part in sub.working_parts:
        spec = facts.stores.get(part.node)
        if spec is not None and part.kind == "processor":
            made[spec.name] = store = _STORES.get(type(part.node), _key_value_store)(
                part.node, replace(spec, name=names.get(spec.name, spec.name))
            )
            if isinstance(store, VersionedStore):
                store.remembers_deletions = spec.name in facts.joined_completely
            if isinstance(store, SegmentedStore):
                store.keeps_expired = spec.name in facts.watched
    return list(made.values())


def has_own_stores(sub: SubTopology, facts: TableFacts) -> bool:
    """Whether its tasks have stores that a user brings."""
    added = {name for part in sub.parts for name in nodes.connected_stores(part.node)}
    specs = [*map(facts.added.get, added), *(facts.stores.get(part.node) for part in sub.working_parts)]
    return any(spec is not None and spec.supplier is not None for spec in specs)


def store_of(spec: StoreSpec) -> StateStore:
    """The store that somebody added, empty."""
    if spec.supplier is not None:
        return UserStore(spec.name, spec.supplier, spec.is_timestamped)
    match spec.shape:
        case "window" | "timestamped_window":
            assert spec.retention is not None
            if spec.retain_duplicates:
                size = spec.window_size or 0
                return DuplicateWindowStore(spec.name, size, spec.retention, spec.in_memory, spec.segment_interval)
            return WindowStore(spec.name, spec.retention, spec.in_memory, spec.segment_interval)
        case "session":
            assert spec.retention is not None
            return SessionStore(spec.name, spec.retention, spec.in_memory, spec.segment_interval)
        case "versioned":
            assert spec.history_retention is not None
            return _versioned_store(spec, spec.history_retention)
    if spec.max_entries is not None:
        return LruStore(spec.name, spec.max_entries)
    return KeyValueStore(spec.name, spec.in_memory)


def _key_value_store(node: Node, spec: StoreSpec) -> StateStore:
    if spec.supplier is not None:
        return UserStore(spec.name, spec.supplier)
    if spec.history_retention is not None:
        return _versioned_store(spec, spec.history_retention)
    return KeyValueStore(spec.name, spec.in_memory)


def _versioned_store(spec: StoreSpec, history_retention: int) -> VersionedStore:
    store = VersionedStore(spec.name, history_retention, spec.segment_interval, spec.in_memory)
    store.keys_are_equally_long = isinstance(spec.key, NumberSerde)
    return store


def _window_store(node: Node, spec: StoreSpec) -> StateStore:
    assert isinstance(node, nodes.WindowAggregate)
    retention = spec.retention or node.windows.retention_ms
    store = WindowStore(spec.name, retention, spec.in_memory, spec.segment_interval)
    return _kept_until_closed(store, spec) if node.final else store


def _kept_until_closed(store: WindowStore | SlidingStore, spec: StoreSpec) -> StateStore:
    """A store that keeps what its retention just ends for: it has not closed yet, and Kafka Streams' stores on disk
    still show it."""
    store.keeps_beyond = 1
    store.retention += 0 if spec.in_memory else 1
    return store


def _deduplication_store(node: Node, spec: StoreSpec) -> StateStore:
    assert isinstance(node, nodes.Deduplicate)
    return DeduplicationStore(spec.name, node.interval)


def _buffer(node: Node, spec: StoreSpec) -> StateStore:
    assert isinstance(node, nodes.Suppress)
    config = node.suppressed.buffer
    room = Room(config.record_limit, config.byte_limit) if config.when_full == SPILL_TO_DISK else Room()
    return TimeOrderedBuffer(spec.name, node.wait_ms, node.suppressed.time_ms is None, room)


def _sliding_store(node: Node, spec: StoreSpec) -> StateStore:
    assert isinstance(node, nodes.SlidingAggregate)
    retention, slot = spec.retention or node.windows.retention_ms, 2 * node.windows.time_difference_ms
    store = SlidingStore(spec.name, retention, spec.in_memory, spec.segment_interval, slot)
    return _kept_until_closed(store, spec) if node.final else store


def _session_store(node: Node, spec: StoreSpec) -> StateStore:
    assert isinstance(node, nodes.SessionAggregate)
    retention, gap = spec.retention or node.windows.retention_ms, node.windows.inactivity_gap_ms
    store = SessionStore(spec.name, retention, spec.in_memory, spec.segment_interval, gap)
    store.keeps_beyond = int(node.final)  # what ends just when the retention does has not closed yet
    return store


def _join_window_store(node: Node, spec: StoreSpec) -> StateStore:
    assert isinstance(node, nodes.JoinWindow)
    windows = node.windows
    return JoinWindowStore(spec.name, windows.size_ms, windows.retention_ms, spec.in_memory)


def _waiting_store(node: Node, spec: StoreSpec) -> StateStore:
    return WaitingStore(spec.name, spec.in_memory)


def _grace_buffer(node: Node, spec: StoreSpec) -> StateStore:
    assert isinstance(node, nodes.StreamTableJoin)
    assert node.grace is not None
    return TimeOrderedBuffer(spec.name, node.grace, times_follow=True)


def _subscription_store(node: Node, spec: StoreSpec) -> StateStore:
    return SubscriptionStore(spec.name, spec.in_memory)


def _added_store(node: Node, spec: StoreSpec) -> StateStore:
    return store_of(spec)


_STORES: dict[type[Node], Callable[[Node, StoreSpec], StateStore]] = {
    nodes.GlobalStore: _added_store,
    nodes.WindowAggregate: _window_store,
    nodes.StreamTableJoin: _grace_buffer,
    nodes.Deduplicate: _deduplication_store,
    nodes.Suppress: _buffer,
    nodes.SessionAggregate: _session_store,
    nodes.SlidingAggregate: _sliding_store,
    nodes.WindowDistinct: _window_store,
    nodes.SessionDistinct: _session_store,
    nodes.JoinWindow: _join_window_store,
    nodes.StreamJoin: _waiting_store,
    nodes.SubscriptionReceive: _subscription_store,
}
