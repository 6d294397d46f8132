"""Chunks cut into runs, where processors share stores: each has to find what the others wrote before, record by record.

A step works on a whole chunk before the next one does. That shows where a processor reads a store which another step
writes, or writes one which another reads. Within a run the records reach only one of the steps that share a store; a
record that reaches several is a run of its own, and goes through them depth first (``depth_first.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from penstock.engine.reach import parts_below
from penstock.engine.steps import Inputs
from penstock.plan import nodes
from penstock.plan.physical import SubTopology

_READERS = ""
"""Stands for all processors where a global store is read: no step has this name."""


class Runs:
    """Cuts the chunks of a sub-topology."""

    def __init__(self, sub: SubTopology, groups: list[frozenset[str]]):
        one = {name: min(group) for group in groups for name in group}
        users: defaultdict[str, set[str]] = defaultdict(set)
        for part in sub.parts:
            for store in part.stores:
                users[store].add(one.get(part.name, part.name))
        named = {store for part in sub.parts for store in nodes.connected_stores(part.node)}
        shared = {store for store in named if len(users[store]) > 1}
        sharing = {name for store in shared for name in users[store]}
        self.sharing = frozenset(part.name for part in sub.parts if one.get(part.name, part.name) in sharing)
        """The parts that share a store with a processor, or are processors that share one."""
        readers = {part.name for part in sub.parts if part.reads and isinstance(part.node, nodes.HOSTING)}
        for part in sub.global_parts if readers else ():
            if part.kind == "processor":  # those who read it do not disturb each other, so they count as one
                users[part.name] = {part.name, _READERS}
                shared.add(part.name)
        self._touched: dict[str, dict[str, set[str]]] = {}
        below = parts_below(sub.working_parts)
        for source in (part for part in sub.working_parts if part.kind == "source") if shared else ():
            reached = {source.name} | below[source.name]
            reached = {one.get(name, name) for name in reached} | ({_READERS} if reached & readers else set())
            self._touched[source.name] = {store: users[store] & reached for store in shared if users[store] & reached}
        self._hosts = {one.get(p.name, p.name) for p in sub.parts if isinstance(p.node, nodes.HOSTING)} | {_READERS}
        self.depth_first = frozenset(name for name in self._touched if self._meets({name}))
        """The sources whose records reach several steps that share a store, a processor among them."""

    def of(self, inputs: Inputs, singly: bool = False) -> Iterator[Inputs]:
        """A chunk's runs, in order.

        Args:
            singly: cut behind each record, whatever it reaches.
        """
        if not self._touched or not inputs:
            yield inputs
            return
        names = list(inputs)
        sources = np.repeat(np.arange(len(names)), [len(inputs[name]) for name in names])
        rows = np.concatenate([np.arange(len(inputs[name])) for name in names])
        order = np.argsort(np.concatenate([inputs[name].position for name in names]), kind="stable")
        sources, rows = sources[order], rows[order]
        bounds = self._bounds(names, sources, singly)
        for first, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
            run: Inputs = {}
            for number in np.unique(sources[first:end]).tolist():
                here = rows[first:end][sources[first:end] == number]
                run[names[number]] = inputs[names[number]].take(here)
            yield run

    def _bounds(self, names: list[str], sources: np.ndarray, singly: bool) -> list[int]:
        """The numbers of the records with which runs begin."""
        if singly:
            return list(range(len(sources)))
        bounds: list[int] = []
        together: set[str] = set()
        stretches = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist()]
        for first, end in zip(stretches, [*stretches[1:], len(sources)], strict=True):
            name = names[int(sources[first])]
            if name in self.depth_first:
                bounds += range(first, end)
                together = {name}
            elif not bounds or self._meets(together | {name}):
                bounds.append(first)
                together = {name}
            else:
                together.add(name)
        return bounds

    def _meets(self, names: set[str]) -> bool:
        """Whether records of these sources reach several of the parts that share a store."""
        reached: defaultdict[str, set[str]] = defaultdict(set)
        for name in names:
            for store, parts in self._touched.get(name, {}).items():
                reached[store] |= parts
        return any(len(parts) > 1 and parts & self._hosts for parts in reached.values())
