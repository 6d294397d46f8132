"""Steps that share stores with processors: each must see what the others wrote for earlier records.

A step processes a whole chunk before the next step does. That becomes visible where a processor reads a store that
another step writes, or the other way round.
"""

from __future__ import annotations

from collections import defaultdict

from penstock.engine.shared.reach import parts_below
from penstock.plan.physical import SubTopology

_READERS = ""
"""Stands for all processors where a global store is read: no step has this name."""


class Sharing:
    """The shared stores of a sub-topology.

    Args:
        groups: the processors that run as one; each group counts as one here.
    """

    def __init__(self, sub: SubTopology, groups: list[frozenset[str]]):
        one = {name: min(group) for group in groups for name in group}
        users: defaultdict[str, set[str]] = defaultdict(set)
        for part in sub.parts:
            for store in part.stores:
                users[store].add(one.get(part.name, part.name))
        named = {store for part in sub.parts for store in part.node.store_names}
        shared = {store for store in named if len(users[store]) > 1}
        sharing = {name for store in shared for name in users[store]}
        self.parts = frozenset(part.name for part in sub.parts if one.get(part.name, part.name) in sharing)
        """The parts that share a store with a processor, including those processors."""
        readers = {part.name for part in sub.parts if part.reads and part.node.hosts}
        for part in sub.global_parts if readers else ():
            if part.kind == "processor":  # readers do not disturb each other, so they count as one
                users[part.name] = {part.name, _READERS}
                shared.add(part.name)
        self._touched: dict[str, dict[str, set[str]]] = {}
        below = parts_below(sub.working_parts)
        for source in (part for part in sub.working_parts if part.kind == "source") if shared else ():
            reached = {source.name} | below[source.name]
            reached = {one.get(name, name) for name in reached} | ({_READERS} if reached & readers else set())
            self._touched[source.name] = {store: users[store] & reached for store in shared if users[store] & reached}
        self._hosts = {one.get(p.name, p.name) for p in sub.parts if p.node.hosts} | {_READERS}
        self.depth_first = frozenset(name for name in self._touched if self.meets({name}))
        """The sources whose records reach several steps that share a store, at least one of them a processor."""

    @property
    def is_there(self) -> bool:
        """Whether records of any source reach a step that shares a store."""
        return bool(self._touched)

    def meets(self, names: set[str]) -> bool:
        """Return whether records of these sources reach several parts that share a store, with a processor among
        them.
        """
        reached: defaultdict[str, set[str]] = defaultdict(set)
        for name in names:
            for store, parts in self._touched.get(name, {}).items():
                reached[store] |= parts
        return any(len(parts) > 1 and parts & self._hosts for parts in reached.values())
