"""An attempt at a commit that works on what comes until the commit is due, part by part.

Between two commits that are ``commit_interval`` apart, queries with READ_UNCOMMITTED see every write at once (KIP-892).
So the tasks read what has come, and punctuations are called, while the commit is not due. Each part goes through all
stages, as a commit does. The stores keep the writes of all parts in one transaction, and what is held back until a
commit, such as the updates of a cached table, waits for the last part. If a task is lost, the whole attempt is
repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.engine.commit.attempt import Attempt
from penstock.engine.commit.opening import Ends
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.work import TaskDone, TaskWork
from penstock.engine.timing.alignment import Alignment, Waiting
from penstock.engine.timing.idle import Advances
from penstock.figures.metrics import add_up
from penstock.plan.physical import SubTopology


class More(NamedTuple):
    """The subject of the next part."""

    ends: Ends
    """The offsets up to which to read."""
    advances: Advances
    """The tasks whose time advances without records."""
    now: int = 0
    """The wall clock in ms that decided which of them are due."""


class AttemptInParts(Attempt):
    """One attempt at the next commit.

    Args:
        more: called between two parts, and returns what comes next, or None once the commit is due.
    """

    def __init__(self, *arguments: Any, more: Callable[[AttemptInParts], More | None]):
        super().__init__(*arguments)
        self._more = more
        self._part = 0
        self._stays_open = True
        self._all: dict[str, TaskDone] = {}
        """The results of all parts, by task."""

    @property
    def positions(self) -> Mapping[str, TaskEntry]:
        """How far the tasks have read."""
        return self._positions

    @property
    def waiting(self) -> Waiting:
        """The records that wait in repartition topics, by task and topic."""
        return self._waiting

    def run(self) -> bool:
        """Run parts until the commit is due. Return whether there was anything to do."""
        if not super().run():
            return False
        self._keep()
        while not any(done.is_full for done in self._done.values()) and (more := self._wait()) is not None:
            self._begin(more)
            super().run()
            self._keep()
        self._stays_open = False
        self._begin(More(self._ends, {}))
        super().run()
        self._keep()
        self._done = self._all
        return True

    def works(self, sub: SubTopology) -> list[TaskWork]:
        """Return the work of a sub-topology's tasks; in the last part, of all that have worked before."""
        works = super().works(sub)
        if not self._stays_open:
            there = {work.task for work in works}
            mine = [task.name for task in self._layout.tasks_of(sub) if task.name in self._all]
            works += [TaskWork(name, self._entries[name]) for name in mine if name not in there]
        replace, number, stays_open = msgspec.structs.replace, self._part, self._stays_open
        return [replace(one, part=number, goes_on=one.task in self._all, stays_open=stays_open) for one in works]

    def _wait(self) -> More | None:
        began = time.monotonic()
        try:
            return self._more(self)
        finally:
            self.waited += time.monotonic() - began

    def _begin(self, more: More) -> None:
        self._part += 1
        self._ends, self._advances, self._now = more
        self._done, self._behind, self._idle = {}, set(), set()
        self._entries = self._where_tasks_are()
        opened = self._opened
        self._alignment = Alignment(
            opened.layout, self._entries, self._ends, self._waiting, opened.log, opened.settings
        )

    def _keep(self) -> None:
        """Add the results of a part to those of the parts before."""
        positions = dict(self._positions)
        for name, done in self._done.items():
            self._all[name] = done if name not in self._all else _added(self._all[name], done)
            facts = {"offsets": done.offsets, "last": done.last, "clock": done.clock, "numbers": done.numbers}
            positions[name] = msgspec.structs.replace(positions.get(name, TaskEntry()), **facts)
        self._positions = positions


def _added(before: TaskDone, done: TaskDone) -> TaskDone:
    """Return the results of two parts, of which the later one says where the task is."""
    metrics, observed = dict(before.metrics), dict(before.observed)
    add_up(metrics, done.metrics)
    add_up(observed, done.observed)
    return msgspec.structs.replace(
        done,
        sinks=_joined(before.sinks, done.sinks),
        exchange=_joined(before.exchange, done.exchange),
        metrics=metrics,
        observed=observed,
        records=before.records + done.records,
        read=before.read + done.read,
    )


def _joined(before: Mapping[str, list[Any]], after: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {topic: [*before.get(topic, ()), *after.get(topic, ())] for topic in {**before, **after}}
