"""Time that goes on without records: which suppressions have waited long enough (``with_idle_advance``, KIP-328).

A suppression waits while its task has read all there is and it holds something. Each time it has waited for as long
as it says, by the wall clock, its time moves on by as much. That is a commit like any other: what comes of it is in
the manifest, and a start after a crash does not do it again. A record that comes ends the wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from penstock.engine.layout import TaskId
from penstock.plan.node import Node
from penstock.plan.nodes import Suppress
from penstock.plan.topology import Topology
from penstock.state.task_state import Numbers

Advances = dict[str, dict[str, int]]
"""For each task the nodes whose time is to move on, and by how many milliseconds."""

_SHORTEST_SECONDS = 0.02


class Waiting(NamedTuple):
    """A suppression of a task."""

    task: str
    node: str


class IdleTasks:
    """Watches tasks that have nothing to read.

    Args:
        now: the wall clock, in seconds.
    """

    def __init__(self, topology: Topology, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._since: dict[Waiting, float] = {}
        self._nodes: dict[int, list[Suppress]] = {}
        for sub in topology.sub_topologies:
            every = [part.node for part in sub.parts]
            found = [node for node in every if isinstance(node, Suppress) and node.suppressed.idle_advance_ms]
            if found:
                self._nodes[sub.id] = found

    def __bool__(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self._nodes)

    def had_records(self, tasks: Iterable[str]) -> None:
        """Some tasks had records to process: their waits begin anew."""
        for task in tasks:
            for node in self._nodes.get(TaskId.parse(task).sub, ()):
                self._since.pop(Waiting(task, node.name), None)

    def due(self, at_end: Mapping[str, Numbers]) -> Advances:
        """What has waited long enough.

        Args:
            at_end: the tasks that have read all there is, with their numbers; waits of all others end.
        """
        now = self._now()
        found: Advances = {}
        waits: dict[Waiting, float] = {}
        for task, numbers in at_end.items():
            for node in self._nodes.get(TaskId.parse(task).sub, ()):
                if numbers.get(node.store.name, {}).get("records"):
                    waiting, length = Waiting(task, node.name), _length(node)
                    since = self._since.get(waiting, now)
                    times = int((now - since) * 1000 + 0.5) // length
                    waits[waiting] = since + times * length / 1000
                    if times:
                        found.setdefault(task, {})[node.name] = times * length
        self._since = waits
        return found

    def seconds(self) -> float:
        """How long until something can be due."""
        every = [node for nodes in self._nodes.values() for node in nodes]
        lengths: dict[str, float] = {node.name: _length(node) / 1000 for node in every}
        rest = [since + lengths[waiting.node] - self._now() for waiting, since in self._since.items()]
        return max(min(rest, default=min(lengths.values())), _SHORTEST_SECONDS)


def _length(node: Suppress) -> int:
    """How long a task waits before a suppression's time moves on, in milliseconds."""
    assert node.suppressed.idle_advance_ms is not None
    return node.suppressed.idle_advance_ms


def timed_nodes(node: Node) -> list[str]:
    """The names of the nodes whose time has to move on with that of a suppression: its own, and those of the windowed
    aggregations above it, so that they too take nothing more for windows whose results are final."""
    windows: Any = getattr(node, "windows", None)
    if windows is not None and node.is_table:
        return [node.name]
    above = [name for parent in node.parents for name in timed_nodes(parent)]
    return [node.name, *above] if isinstance(node, Suppress) else above
