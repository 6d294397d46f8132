"""A topology as shown to programs without its code: each start writes it down, and viewers draw it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.engine.shared.layout import Layout
from penstock.plan.expressions.typed import computed_by
from penstock.plan.node import Node
from penstock.plan.physical import Part
from penstock.plan.topology import Topology


class Holding(msgspec.Struct, frozen=True):
    """How a step holds back its results."""

    store: str
    wait_ms: int
    """How far stream time must pass an entry's time, or a window's end, before it is sent."""
    windows: bool
    """Whether the held entries are windows that have not closed."""


class DrawnPart(msgspec.Struct, frozen=True):
    """One source, processor or sink."""

    name: str
    kind: str
    step: str
    """The kind of step it is part of."""
    predecessors: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    where: str = ""
    """The user's file and line."""
    holds: Holding | None = None
    outside: str = ""
    """The DataFrame or the table behind its topic."""
    computes: str = ""
    """The expression in place of a function, as the user wrote it."""


class DrawnSub(msgspec.Struct, frozen=True):
    """One sub-topology."""

    id: int
    tasks: int
    """0 for a global table, which has no tasks of its own."""
    parts: tuple[DrawnPart, ...]


class Picture(msgspec.Struct, frozen=True):
    """A topology, drawn."""

    subs: tuple[DrawnSub, ...]
    partitions: dict[str, int] = {}
    """The partition counts of all topics, where known."""
    internal: tuple[str, ...] = ()
    """The repartition topics, whose records are deleted once they are processed."""
    log: str = ""
    """Where the topics are."""
    dead_letters: tuple[str, ...] = ()
    """The topic of dead letters, if there may be any; empty in earlier checkpoints."""

    @property
    def has_outside(self) -> bool:
        """Whether DataFrames come in, or tables are written."""
        return any(part.outside for sub in self.subs for part in sub.parts)

    @property
    def tasks(self) -> int:
        """The number of tasks, including those without any record yet."""
        return sum(sub.tasks for sub in self.subs)


def picture_of(
    topology: Topology, layout: Layout | None = None, log: str = "", dead_letters: Sequence[str] = ()
) -> Picture:
    """Return the picture of a topology, with its partitions and tasks if they are known."""
    partitions = {} if layout is None else dict(layout.partitions)
    tasks = {} if layout is None else layout.tasks
    subs = tuple(
        DrawnSub(sub.id, tasks.get(sub.id, 0), tuple(map(_part, sub.parts))) for sub in topology.sub_topologies
    )
    return Picture(subs, partitions, tuple(sorted(topology.internal_topics)), log, tuple(dead_letters))


def _part(part: Part) -> DrawnPart:
    holds = _holds(part.node) if part.kind == "processor" else None
    step, where = type(part.node).__name__, str(part.node.where)
    outside = "" if part.node.outside is None else part.node.outside.shown
    computes = computed_by(part.node.function) if part.kind == "processor" else ""
    parents = part.predecessors
    return DrawnPart(part.name, part.kind, step, parents, part.stores, part.topics, where, holds, outside, computes)


def _holds(node: Node) -> Holding | None:
    if node.hold is None or node.store is None:
        return None
    return Holding(node.store.name, node.hold.wait_ms, node.hold.is_of_windows)
