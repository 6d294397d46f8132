"""Finds the partition of each row of state: the one that Kafka's partitioner gives its record's key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.arrays import Binary, IntArray, partitions, without_first, without_last
from penstock.engine.evolution.carrying import store_in
from penstock.engine.shared.stores import stores_of
from penstock.plan.kept import Kept, KeptIds
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.serdes import Serde, pair
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.deduplication import DeduplicationStore
from penstock.state.kinds.join_window import WaitingStore
from penstock.state.kinds.own.store import OwnStore
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.kinds.subscription import SubscriptionStore, split_keys
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.store import StateStore

_TIME, _SIDE, _NUMBER = 8, 1, 8


@dataclass(frozen=True)
class Placing:
    """How to find the partitions of one store's rows.

    Attributes:
        store: the store.
        kept: the kind of state in it.
        key: the type of the keys of records, if known.
    """

    store: StateStore
    kept: Kept
    key: Serde | None

    def partitions(self, family: str, rows: Binary, count: int) -> IntArray:
        """Return the partition, of `count`, of each row of a column family.

        Args:
            rows: their keys, as stored on disk.
        """
        if not len(rows):
            return np.zeros(0, np.int64)
        keys = _KEYS.get(type(self.store), _windowed)(self, family, rows)
        return partitions(keys if self.key is None else self.key.routing(keys), count, 0)


def placings_of(topology: Topology, sub: SubTopology) -> dict[str, Placing]:
    """Return the placings of all stores of a sub-topology, except those of global tables and users' own stores."""
    facts = topology.facts
    everywhere = {facts.stores[part.node].name for part in sub.global_parts if part.node in facts.stores}
    nodes_of = {facts.stores[part.node].name: part.node for part in sub.parts if part.node in facts.stores}
    found = {}
    for store in stores_of(sub, facts):
        if store.name in everywhere or isinstance(store, OwnStore):
            continue
        node = nodes_of.get(store.name)
        kept, key = (Kept(), facts.added[store.name].key) if node is None else (node.keeps, node.partition_key)
        found[store.name] = Placing(store, kept, None if isinstance(store, SubscriptionStore) else key)
    return found


def _plain(placing: Placing, family: str, rows: Binary) -> Binary:
    return rows


def _windowed(placing: Placing, family: str, rows: Binary) -> Binary:
    """Strip the time after a key; stores without time have the key alone."""
    return without_last(rows, _TIME) if isinstance(placing.store, SegmentedStore) else rows


def _versioned(placing: Placing, family: str, rows: Binary) -> Binary:
    return rows if family == store_in(family) else without_last(rows, _TIME)


def _held(placing: Placing, family: str, rows: Binary) -> Binary:
    """Strip the time before a key, and the record number after it if each record is held separately."""
    if family.startswith(f"{placing.store.name}:"):
        return rows
    keys = without_first(rows, _TIME)
    return without_last(keys, _NUMBER) if placing.kept.is_numbered else keys


def _deduplicated(placing: Placing, family: str, rows: Binary) -> Binary:
    assert isinstance(placing.kept, KeptIds)
    return pair.unpack(rows)[0] if placing.kept.are_pairs else rows


def _waiting(placing: Placing, family: str, rows: Binary) -> Binary:
    return without_first(rows, _TIME + _SIDE)


def _subscribed(placing: Placing, family: str, rows: Binary) -> Binary:
    """Return the key of the right table's row: its partition sends the answer."""
    return split_keys(rows)[0]


_KEYS: Mapping[type[StateStore], Callable[[Placing, str, Binary], Binary]] = {
    VersionedStore: _versioned,
    TimeOrderedBuffer: _held,
    DeduplicationStore: _deduplicated,
    WaitingStore: _waiting,
    SubscriptionStore: _subscribed,
}
