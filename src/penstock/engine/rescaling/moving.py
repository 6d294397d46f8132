"""Redistributes the rows of a sub-topology's tasks over another number of tasks, as their initial state."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from penstock.arrays import Binary, IntArray, binary
from penstock.engine.evolution.carrying import rows_of, store_in
from penstock.engine.rescaling.placing import Placing, placings_of
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.errors import ConfigError
from penstock.faults import crash_point
from penstock.files import temporary
from penstock.plan.physical import SubTopology
from penstock.plan.topology import Topology
from penstock.state.database import Database
from penstock.state.kinds import held
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.ownership import Owner, meta_of
from penstock.state.snapshot import TaskBase, write_base
from penstock.state.task_state import STREAM_TIME, Numbers
from penstock.state.transactional import unpack_all
from penstock.storage.base import Storage

_AT_ONCE = 32
"""How many databases are written at once; the rows are read once for so many tasks."""

_EMITTED = "-emitted"

Rows = list[tuple[bytes, bytes | None]]


class Moving:
    """Writes the initial state of one sub-topology's tasks.

    Args:
        before: its previous number of tasks.
        now: its new number of tasks.
        own: the names of state for global tables, which each task reads again.
    """

    def __init__(
        self,
        storage: Storage,
        newest: Manifest,
        sub: SubTopology,
        topology: Topology,
        before: int,
        now: int,
        own: frozenset[str],
    ):
        self._storage, self._newest, self._sub, self._topology = storage, newest, sub, topology
        self._placings = placings_of(topology, sub)
        self._before, self._now = before, now
        self._folder = f"{newest.commit + 1:016d}-{os.urandom(4).hex()}"
        self.numbers = _merged(self._entries(), own)
        self.rows = 0

    def _entries(self) -> list[TaskEntry]:
        tasks = (str(TaskId(self._sub.id, partition)) for partition in range(self._before))
        return [self._newest.tasks[task] for task in tasks if task in self._newest.tasks]

    def bases(self) -> dict[int, tuple[TaskBase, Numbers]]:
        """Return the initial state of each task, with its stream times and counts.

        Raises:
            ConfigError: a row was not where Kafka's partitioner puts it.
        """
        found: dict[int, tuple[TaskBase, Numbers]] = {}
        for first in range(0, self._now, _AT_ONCE):
            found |= self._some(range(first, min(first + _AT_ONCE, self._now)))
        return found

    def check(self) -> None:
        """Raise ``ConfigError`` when a row is not where Kafka's partitioner puts it."""
        with temporary.within("rescaled") as folder:
            for partition, family, some in self._rows(folder):
                self._check(self._placings[store_in(family)], family, binary([key for key, _ in some]), partition)

    def _rows(self, folder: Path) -> Iterator[tuple[int, str, Rows]]:
        """Yield all existing rows, with the partitions that they are in."""
        for partition in range(self._before):
            task = str(TaskId(self._sub.id, partition))
            if task in self._newest.tasks:
                stores = [placing.store for placing in placings_of(self._topology, self._sub).values()]
                with closing(rows_of(self._storage, task, self._newest, stores, folder / task)) as rows:
                    for family, some in rows:
                        yield partition, family, some

    def _some(self, partitions: range) -> dict[int, tuple[TaskBase, Numbers]]:
        with temporary.within("rescaled") as folder, ExitStack() as opened:
            targets = {p: _Target(folder / f"now-{p}", self._placings) for p in partitions}
            for target in targets.values():
                opened.callback(target.database.close)
            commit = self._newest.commit + 1
            owners = {p: Owner(self._newest.application, str(TaskId(self._sub.id, p))) for p in partitions}
            metas = {p: meta_of(owner, commit, {}) for p, owner in owners.items()}
            for partition, family, some in self._rows(folder):
                self._place(family, some, partition, targets, metas)
            found = {}
            for p, target in targets.items():
                numbers = target.counted(self.numbers)
                target.database.write({}, meta_of(owners[p], commit, numbers))
                crash_point("during-rescale")
                base = write_base(target.database, self._storage, self._folder, owners[p], commit)
                found[p] = base, numbers
            return found

    def _place(
        self, family: str, some: Rows, partition: int, targets: dict[int, _Target], metas: dict[int, dict[str, Any]]
    ) -> None:
        placing, keys = self._placings[store_in(family)], binary([key for key, _ in some])
        self._check(placing, family, keys, partition)
        placed = placing.partitions(family, keys, self._now)
        for p in np.unique(placed).tolist():
            if p in targets:
                rows = [some[row] for row in np.flatnonzero(placed == p).tolist()]
                targets[p].write(family, rows, metas[p])
                self.rows += len(rows)

    def _check(self, placing: Placing, family: str, keys: Binary, partition: int) -> None:
        """Raise ``ConfigError`` for rows that another partitioner has placed: they would not be found again."""
        placed = placing.partitions(family, keys, self._before)
        if (placed != partition).any():
            raise ConfigError(
                f"store {placing.store.name!r} has rows in partition {partition} whose keys Kafka's partitioner puts "
                f"into others, such as {int(placed[placed != partition][0])}: records come here by another "
                "partitioner. Start under another application id to process the topics again; nothing was changed"
            )


class _Target:
    """The database of one new task."""

    def __init__(self, folder: Path, placings: dict[str, Placing]):
        self.database = Database(folder)
        self._placings = placings
        self._counts: dict[str, list[int]] = {}

    def write(self, family: str, rows: Rows, meta: dict[str, Any]) -> None:
        self.database.write({family: iter(rows)}, meta)
        store = store_in(family)
        if isinstance(self._placings[store].store, TimeOrderedBuffer) and not family.startswith(f"{store}:"):
            count = self._counts.setdefault(store, [0, 0])
            count[0] += len(rows)
            count[1] += int(_sizes([value for _, value in rows]).sum())

    def counted(self, numbers: Numbers) -> Numbers:
        """Return all numbers, with the counts of this task's buffers."""
        found = dict(numbers)
        for name, values in numbers.items():
            if "records" in values and name in self._placings:
                records, nbytes = self._counts.get(name, [0, 0])
                found[name] = values | {"records": records, "bytes": nbytes}
        return found


def _sizes(values: list[bytes | None]) -> IntArray:
    return held.unpack(unpack_all(binary(values)).data).sizes


def _merged(entries: Iterable[TaskEntry], own: frozenset[str]) -> Numbers:
    """Return the stream times and counts that all new tasks start with.

    Time is that of the most advanced task: rows that have expired somewhere do not come back. Searches for closed
    windows, or for records without a partner, start at the least advanced task, so that none is left out.
    """
    merged: Numbers = {}
    for entry in entries:
        for name, numbers in entry.numbers.items():
            if name not in own:
                known = merged.setdefault(name, {})
                for what, number in numbers.items():
                    least = what == "min_time" or (what == STREAM_TIME and name.endswith(_EMITTED))
                    if number >= 0:
                        known[what] = (min if least else max)(number, known.get(what, number))
    return merged
