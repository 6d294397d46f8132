"""Builds the state stores of a sub-topology's tasks from its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar, cast

from penstock.plan.kept import (
    Kept,
    KeptAsDescribed,
    KeptIds,
    KeptSessions,
    KeptSide,
    KeptSlidingWindows,
    KeptSubscriptions,
    KeptUpdates,
    KeptWaiting,
    KeptWindows,
)
from penstock.plan.node import StoreSpec
from penstock.plan.passes.stores import TableFacts
from penstock.plan.physical import SubTopology
from penstock.serdes.primitives import NumberSerde
from penstock.state.kinds.buffer import Room, TimeOrderedBuffer
from penstock.state.kinds.deduplication import DeduplicationStore
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.join_window import JoinWindowStore, WaitingStore
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.lru import LruStore
from penstock.state.kinds.own.direct import DirectStore
from penstock.state.kinds.own.key_value import UserStore
from penstock.state.kinds.own.timed import (
    OwnDuplicateWindowStore,
    OwnJoinWindowStore,
    OwnSegmentedStore,
    OwnSessionStore,
    OwnSlidingStore,
    OwnWindowStore,
)
from penstock.state.kinds.own.versioned import OwnVersionedStore
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.subscription import SubscriptionStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore

T = TypeVar("T", bound=SegmentedStore)


def stores_of(sub: SubTopology, facts: TableFacts, names: Mapping[str, str] = MappingProxyType({})) -> list[StateStore]:
    """Return the state stores of a sub-topology, empty.

    Args:
        names: other names for some of the stores.
    """
    made: dict[str, StateStore] = {}
    for part in sub.parts:
        for name in part.node.store_names:
            if name in facts.added and name not in made:
                made[name] = store_of(replace(facts.added[name], name=names.get(name, name)))
    for part in sub.working_parts:
        spec = facts.stores.get(part.node)
        if spec is not None and part.kind == "processor":
            kept = part.node.keeps
            store = _STORES[type(kept)](kept, replace(spec, name=names.get(spec.name, spec.name)))
            made[spec.name] = store
            if isinstance(store, VersionedStore):
                store.remembers_deletions = spec.name in facts.joined_completely
            if isinstance(store, SegmentedStore):
                store.keeps_expired = spec.name in facts.watched
    return list(made.values())


def has_own_stores(sub: SubTopology, facts: TableFacts) -> bool:
    """Return whether its tasks have stores that the user provides."""
    added = {name for part in sub.parts for name in part.node.store_names}
    specs = [*map(facts.added.get, added), *(facts.stores.get(part.node) for part in sub.working_parts)]
    return any(spec is not None and spec.supplier is not None for spec in specs)


def store_of(spec: StoreSpec) -> StateStore:
    """Return a store that the user added, empty."""
    match spec.shape:
        case "direct":
            return DirectStore(spec.name, spec.supplier)
        case "window" | "timestamped_window":
            if spec.retain_duplicates:
                size = spec.window_size or 0
                return _timed(DuplicateWindowStore, spec, size, spec.retention, spec.in_memory, spec.segment_interval)
            return _timed(WindowStore, spec, spec.retention, spec.in_memory, spec.segment_interval)
        case "session":
            return _timed(SessionStore, spec, spec.retention, spec.in_memory, spec.segment_interval)
        case "versioned":
            assert spec.history_retention is not None
            return _versioned_store(spec, spec.history_retention)
    if spec.supplier is not None:
        return UserStore(spec.name, spec.supplier, spec.is_timestamped)
    if spec.max_entries is not None:
        return LruStore(spec.name, spec.max_entries)
    return KeyValueStore(spec.name, spec.in_memory)


_OWN: dict[type[SegmentedStore], type[OwnSegmentedStore]] = {
    WindowStore: OwnWindowStore,
    DuplicateWindowStore: OwnDuplicateWindowStore,
    SlidingStore: OwnSlidingStore,
    SessionStore: OwnSessionStore,
    JoinWindowStore: OwnJoinWindowStore,
}
"""By kind of store: the one whose rows are in a store that the user provides."""


def _timed(kind: type[T], spec: StoreSpec, *arguments: Any) -> T:
    """Return a store by time of this kind, or the one whose rows are in a store that the user provides.

    Args:
        arguments: the kind's own arguments, which follow the name.
    """
    if spec.supplier is None:
        return kind(spec.name, *arguments)
    return cast(T, _OWN[kind](spec.supplier, spec.is_timestamped, spec.name, *arguments))


def _key_value_store(spec: StoreSpec) -> StateStore:
    if spec.history_retention is not None:
        return _versioned_store(spec, spec.history_retention)
    if spec.supplier is not None:
        return UserStore(spec.name, spec.supplier)
    return KeyValueStore(spec.name, spec.in_memory)


def _versioned_store(spec: StoreSpec, history_retention: int) -> VersionedStore:
    arguments = spec.name, history_retention, spec.segment_interval, spec.in_memory
    own = spec.supplier
    store = VersionedStore(*arguments) if own is None else OwnVersionedStore(own, *arguments)
    store.keys_are_equally_long = isinstance(spec.key, NumberSerde)
    return store


def _window_store(kept: KeptWindows, spec: StoreSpec) -> StateStore:
    retention = spec.retention or kept.retention_ms
    store = _timed(WindowStore, spec, retention, spec.in_memory, spec.segment_interval)
    return _kept_until_closed(store, spec) if kept.is_final else store


def _kept_until_closed(store: WindowStore | SlidingStore, spec: StoreSpec) -> StateStore:
    """Return a store that also keeps rows at exactly its retention.

    Their windows have not closed yet, and Kafka Streams' stores on disk still show them.
    """
    store.keeps_beyond = 1
    store.retention += 0 if spec.in_memory else 1
    return store


def _sliding_store(kept: KeptSlidingWindows, spec: StoreSpec) -> StateStore:
    retention = spec.retention or kept.retention_ms
    store = _timed(SlidingStore, spec, retention, spec.in_memory, spec.segment_interval, kept.slot_ms)
    return _kept_until_closed(store, spec) if kept.is_final else store


def _session_store(kept: KeptSessions, spec: StoreSpec) -> StateStore:
    retention = spec.retention or kept.retention_ms
    store = _timed(SessionStore, spec, retention, spec.in_memory, spec.segment_interval, kept.gap_ms)
    store.keeps_beyond = int(kept.is_final)  # a session ending exactly at the retention has not closed yet
    return store


def _buffer(kept: KeptUpdates, spec: StoreSpec) -> StateStore:
    return TimeOrderedBuffer(spec.name, kept.wait_ms, kept.times_follow, Room(kept.record_limit, kept.byte_limit))


_STORES: dict[type[Kept], Callable[[Any, StoreSpec], StateStore]] = {
    Kept: lambda kept, spec: _key_value_store(spec),
    KeptAsDescribed: lambda kept, spec: store_of(spec),
    KeptWindows: _window_store,
    KeptSlidingWindows: _sliding_store,
    KeptSessions: _session_store,
    KeptSide: lambda kept, spec: _timed(JoinWindowStore, spec, kept.window_size_ms, kept.retention_ms, spec.in_memory),
    KeptWaiting: lambda kept, spec: WaitingStore(spec.name, spec.in_memory),
    KeptSubscriptions: lambda kept, spec: SubscriptionStore(spec.name, spec.in_memory),
    KeptIds: lambda kept, spec: DeduplicationStore(spec.name, kept.interval_ms),
    KeptUpdates: _buffer,
}
"""The kind of store for the state that a step keeps."""
