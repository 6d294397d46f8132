"""The formats of an application's stores, written down at each start so that programs without the topology can read
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.engine.shared.stores import stores_of
from penstock.plan.kept import Kept
from penstock.plan.node import Node, StoreSpec
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.deduplication import DeduplicationStore
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.join_window import JoinWindowStore, WaitingStore
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.lru import LruStore
from penstock.state.kinds.own.store import OwnStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.subscription import SubscriptionStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore
from penstock.values.window_ends import Sized, WindowEnds, ends_named

_WINDOW = ("retention", "in_memory", "segment_interval")
_ARGUMENTS: dict[type[StateStore], tuple[str, ...]] = {
    KeyValueStore: ("in_memory",),
    LruStore: ("max_entries",),
    DuplicateWindowStore: ("window_size", *_WINDOW),
    SubscriptionStore: ("in_memory",),
    WaitingStore: ("in_memory",),
    WindowStore: _WINDOW,
    SlidingStore: (*_WINDOW, "slot"),
    SessionStore: (*_WINDOW, "gap"),
    JoinWindowStore: ("reach", "retention", "in_memory"),
    VersionedStore: ("history_retention", "segment_interval", "in_memory"),
    DeduplicationStore: ("interval",),
    TimeOrderedBuffer: ("wait", "times_follow"),
}
"""The constructor arguments of each kind of store; a store's attributes have the same names."""
_KINDS = {kind.__name__: kind for kind in _ARGUMENTS}


class StoreFormat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The format of one store."""

    kind: str
    """The name of its class."""
    sub: int
    """The sub-topology whose tasks have it."""
    key: str
    """The name of the keys' serde."""
    value: str
    arguments: dict[str, int | bool | None]
    """Its constructor arguments apart from the name."""
    keeps_beyond: int = 0
    window_size: int = 0
    """The size of the windows its rows belong to, in milliseconds."""
    windows: str = ""
    """The rule by which its windows end, if they are not of one size; empty in earlier starts."""
    is_everywhere: bool = False
    """Whether each task has all of it, like a global table."""
    headers: str = ""
    """Whether its rows have headers, as in ``StoreSpec``; empty without."""
    is_numbered: bool = False
    """Whether a number of 8 bytes follows each key."""

    @property
    def ends(self) -> WindowEnds:
        """Where its windows end."""
        return ends_named(self.windows) if self.windows else Sized(self.window_size)

    @property
    def is_known(self) -> bool:
        """Whether this version of Penstock has stores of this kind."""
        return self.kind in _KINDS


def formats_of(topology: Topology) -> dict[str, StoreFormat]:
    """Return the formats of all stores of a topology that can be read from outside, by name."""
    subs = [sub for sub in topology.sub_topologies if not sub.is_global]
    found: dict[str, StoreFormat] = {}
    for sub in subs:
        for name, format_ in _formats(topology, sub):
            found.setdefault(name, format_)
    return {name: found[name] for name in topology.facts.named() if name in found}


def _formats(topology: Topology, sub: SubTopology) -> Iterator[tuple[str, StoreFormat]]:
    facts = topology.facts
    made = {store.name: store for store in stores_of(sub, facts)}
    everywhere = {part.node for part in sub.global_parts}
    for name in facts.added:
        if name in made and _kind(made[name]) in _ARGUMENTS:
            yield name, _format(made[name], None, facts.added[name], sub.id, False)
    for part in sub.working_parts:
        spec = facts.stores.get(part.node)
        if spec is not None and part.kind == "processor" and _kind(made[spec.name]) in _ARGUMENTS:
            yield spec.name, _format(made[spec.name], part.node, spec, sub.id, part.node in everywhere)


def _kind(store: StateStore) -> type[StateStore]:
    """Return its class. A user's own store is read from Penstock's copy of the rows."""
    return store.copied_as if isinstance(store, OwnStore) else type(store)


def _format(store: StateStore, node: Node | None, spec: StoreSpec, sub: int, is_everywhere: bool) -> StoreFormat:
    key, value = spec.types
    kept = Kept() if node is None else node.keeps
    return StoreFormat(
        kind=_kind(store).__name__,
        sub=sub,
        key=key.name,
        value=value.name,
        arguments={name: getattr(store, name) for name in _ARGUMENTS[_kind(store)]},
        keeps_beyond=getattr(store, "keeps_beyond", 0),
        window_size=kept.window_size_ms or spec.window_size or 0,
        windows="" if isinstance(kept.window_ends, Sized) else kept.window_ends.name,
        is_everywhere=is_everywhere,
        headers=spec.headers or "",
        is_numbered=kept.is_numbered,
    )


def made_from(name: str, format_: StoreFormat) -> StateStore:
    """Return an empty store of this format."""
    kind: Any = _KINDS[format_.kind]
    store: StateStore = kind(name, **format_.arguments)
    if format_.keeps_beyond:
        store.keeps_beyond = format_.keeps_beyond  # type: ignore[attr-defined]
    return store
