"""Time that advances without records: suppressions that have waited long enough (``with_idle_advance``, KIP-328), and
processors with punctuations due by the wall clock.

A suppression waits while its task has read everything and it holds something. Each time it has waited for its
configured duration, by the wall clock, its time advances by that duration. That is a commit like any other: its results
are in the manifest, and a start after a crash does not repeat it. A record that arrives ends the wait.

The time of a processor's next call is in the numbers of its task's last commit. A task that has none yet is woken once,
so that its processors can schedule calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.engine.shared.layout import TaskId
from penstock.ops.processors.punctuations import WALL_CLOCK
from penstock.plan.node import Node
from penstock.plan.nodes import Process
from penstock.plan.topology import Topology
from penstock.state.task_state import STREAM_TIME, TASK_TIME, Numbers
from penstock.values.times import wall_clock_ms

Advances = dict[str, dict[str, int]]
"""For each task, the nodes whose time advances, and by how many milliseconds."""

_SHORTEST_SECONDS = 0.02
_LONGEST_SECONDS = 1.0


class Waiting(NamedTuple):
    """A suppression of a task."""

    task: str
    node: str


class _Waits(NamedTuple):
    """A suppression, its store, and how long a task waits before its time advances."""

    name: str
    store: str
    length_ms: int


class IdleTasks:
    """Watches tasks that have nothing to read.

    Args:
        now: a clock that only goes forward, in seconds.
        wall_clock: the wall clock, in milliseconds.
    """

    def __init__(
        self,
        topology: Topology,
        now: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], int] = wall_clock_ms,
    ):
        self._now = now
        self._wall_clock = wall_clock
        self._next_call: int | None = None
        """When the next punctuation is due by the wall clock."""
        self._since: dict[Waiting, float] = {}
        self.watch(topology)

    def watch(self, topology: Topology) -> None:
        """Watch the tasks of a topology from now on. Running waits continue."""
        self._processors: dict[int, str] = {}
        """The name of one processor of each sub-topology that has any."""
        self._nodes: dict[int, list[_Waits]] = {}
        for sub in topology.sub_topologies:
            every = [part.node for part in sub.parts]
            if found := [waits for node in every if (waits := _waits(node)) is not None]:
                self._nodes[sub.id] = found
            processors = [node.name for node in every if isinstance(node, Process)]
            if processors:
                self._processors[sub.id] = processors[0]

    def __bool__(self) -> bool:
        """Return whether there is anything to watch."""
        return bool(self._nodes) or bool(self._processors)

    def had_records(self, tasks: Iterable[str]) -> None:
        """Restart the waits of tasks that had records to process."""
        for task in tasks:
            for node in self._nodes.get(TaskId.parse(task).sub, ()):
                self._since.pop(Waiting(task, node.name), None)

    def due(self, at_end: Mapping[str, Numbers]) -> Advances:
        """Return the suppressions and processors that are due.

        Args:
            at_end: the tasks that have read everything, with their numbers; the waits of all others end.
        """
        now = self._now()
        found: Advances = {}
        waits: dict[Waiting, float] = {}
        for task, numbers in at_end.items():
            for node in self._nodes.get(TaskId.parse(task).sub, ()):
                if numbers.get(node.store, {}).get("records"):
                    waiting, length = Waiting(task, node.name), node.length_ms
                    since = self._since.get(waiting, now)
                    times = int((now - since) * 1000 + 0.5) // length
                    waits[waiting] = since + times * length / 1000
                    if times:
                        found.setdefault(task, {})[node.name] = times * length
        self._since = waits
        return found | self._calls(at_end, found)

    def now_ms(self) -> int:
        """Return the wall clock that decides which calls are due."""
        return self._wall_clock()

    def _calls(self, at_end: Mapping[str, Numbers], found: Advances) -> Advances:
        """Yield the tasks with punctuations due by the wall clock, each with one processor, whose time does not
        advance.
        """
        now = self._wall_clock()
        coming: list[int] = []
        calls: Advances = {}
        for task, numbers in at_end.items():
            name = self._processors.get(TaskId.parse(task).sub)
            if name is None:
                continue
            next_ = _next_call(numbers)
            if TASK_TIME not in numbers or (next_ is not None and next_ <= now):
                calls[task] = found.get(task, {}) | {name: 0}
            elif next_ is not None:
                coming.append(next_)
        self._next_call = min(coming, default=None)
        return calls

    def seconds(self) -> float:
        """Return the seconds until something can be due."""
        if self._next_call is not None:
            until = max((self._next_call - self._wall_clock()) / 1000, _SHORTEST_SECONDS)
            return min(until, self._seconds_of_suppressions())
        return self._seconds_of_suppressions()

    def _seconds_of_suppressions(self) -> float:
        every = [node for nodes in self._nodes.values() for node in nodes]
        lengths: dict[str, float] = {node.name: node.length_ms / 1000 for node in every}
        rest = [since + lengths[waiting.node] - self._now() for waiting, since in self._since.items()]
        return max(min(rest, default=min(lengths.values(), default=_LONGEST_SECONDS)), _SHORTEST_SECONDS)


def _next_call(numbers: Numbers) -> int | None:
    """Return when the next punctuation of a task is due by the wall clock; None if it has none."""
    times = [kept[STREAM_TIME] for name, kept in numbers.items() if WALL_CLOCK.search(name) and STREAM_TIME in kept]
    return min((at for at in times if at >= 0), default=None)


def _waits(node: Node) -> _Waits | None:
    """Return the wait of a suppression whose time advances without records; None for any other step."""
    if node.store is None or node.hold is None or not node.hold.idle_advance_ms:
        return None
    return _Waits(node.name, node.store.name, node.hold.idle_advance_ms)
