"""Copies of tasks that run on other machines, updated commit by commit, so that a move there needs no restore.

A copy is the database that the task would have here: in the same folder, behind the same lock. A process that opens it
as the task's own finds it at some commit, and applies what is missing. A copy writes no snapshot and nothing into
topics, and it holds committed rows only, so a lost copy is never visible.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from penstock.engine.shared.layout import Layout, TaskId
from penstock.engine.shared.manifest import Manifests, TaskEntry
from penstock.engine.shared.stores import has_own_stores, stores_of
from penstock.engine.slots.links import Follow, Followed
from penstock.errors import StoreError
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.restoring import END, SUSPENDED, RestoreStep
from penstock.state.task_context import TaskContext
from penstock.state.task_state import TaskState
from penstock.storage.base import FileRef, Storage

_log = logging.getLogger(__name__)

_SMALLER = 4
"""Copies are not read, so they keep only this fraction of a task's rows in memory."""

_END_SECONDS = 5.0
"""How long to wait for copies to close; those that take longer close by themselves after their current file."""

_PAUSE_SECONDS = 10.0
"""How long to avoid a copy that could not be updated."""


class Followers:
    """The copies in one slot. All work is done in its own thread, beside the thread of the slot's own tasks.

    Args:
        folder: where tasks have their databases on this machine.
        tell: reports the commits that the copies have reached.
    """

    def __init__(
        self,
        topology: Topology,
        layout: Layout,
        settings: Settings,
        storage: Storage,
        folder: Path,
        tell: Callable[[Followed], None],
    ):
        self._topology = topology
        self._context_of = partial(TaskContext, layout.application_id, app_configs=settings.app_configs())
        self._settings = replace(settings.state, hot_max_bytes=max(settings.hot_max_bytes // _SMALLER, 1))
        self._is_over = threading.Event()
        self._storage = cast(Storage, _Stoppable(storage, self._is_over))
        self._manifests = Manifests(storage)
        self._folder = folder
        self._tell = tell
        self._copies: dict[str, TaskState] = {}
        self._failed: dict[str, float] = {}
        """The tasks whose copies could not be updated, and when that was."""
        self._steps: list[RestoreStep] = []
        """The news of the copies that the driver has not been told yet."""
        self._orders: queue.SimpleQueue[Follow | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-followers", daemon=True)
        self._thread.start()

    def take(self, order: Follow) -> None:
        """Update copies, soon."""
        self._orders.put(order)

    def close(self) -> None:
        """Close all copies; their state is on disk afterwards."""
        self._is_over.set()
        self._orders.put(None)
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        try:
            while (order := self._orders.get()) is not None and not self._is_over.is_set():
                self._carry_out(order)
        finally:
            for task in list(self._copies):
                self._let_go(task, keeps=True)

    def _carry_out(self, order: Follow) -> None:
        failed = []
        for task, entry in order.entries.items():
            if self._is_over.is_set():
                return
            if self._fails(task, entry, order.application):
                failed.append(task)
        steps, self._steps = self._steps, []
        self._tell(Followed(order.number, failed, [step for step in steps if step.kind != END]))

    def _fails(self, task: str, entry: TaskEntry, application: str) -> bool:
        """Update a copy. Return whether that failed, or failed recently; it is tried again later."""
        if task in self._failed and time.monotonic() - self._failed[task] < _PAUSE_SECONDS:
            return True
        self._failed.pop(task, None)
        try:
            self._move(task, entry, application)
        except _EndsError:  # a commit is read before it is applied, so the copy is whole
            return True
        except Exception as error:
            _log.warning("the copy of task %s does not follow: %s; nothing is lost", task, error)
            if task in self._copies:
                self._steps += [RestoreStep(SUSPENDED, task, name, -1, -1) for name in self._copies[task].stores]
            self._let_go(task, keeps=False)
            self._failed[task] = time.monotonic()
        return task in self._failed

    def _move(self, task: str, entry: TaskEntry, application: str) -> None:
        copy = self._copies.get(task)
        if copy is None:
            copy = self._new(task)
            if not copy.stores:
                return
            try:
                self._manifests.open(copy, entry, application, self._steps.append)
            except BaseException:
                copy.abandon()
                raise
            self._copies[task] = copy
        elif entry.changed > copy.at:
            copy.follow(self._manifests.since(task, entry, copy.at))

    def _new(self, task: str) -> TaskState:
        sub = self._topology.sub_topologies[TaskId.parse(task).sub]
        facts = self._topology.facts
        stores = [] if has_own_stores(sub, facts) else stores_of(sub, facts)
        context = self._context_of(task)
        return TaskState(task, stores, self._settings, self._folder / task, self._storage, context, publishes=False)

    def _let_go(self, task: str, keeps: bool) -> None:
        copy = self._copies.pop(task, None)
        try:
            if copy is not None:
                copy.close() if keeps else copy.abandon()
        except Exception as error:
            _log.warning("the copy of task %s was left as it is on disk: %s; nothing is lost", task, error)


class _EndsError(StoreError):
    """The slot is ending, so reading stops."""


class _Stoppable:
    """A storage that stops returning files when the slot ends: a task may wait for the folder that a restore is
    filling.
    """

    def __init__(self, storage: Storage, is_over: threading.Event):
        self._storage = storage
        self._is_over = is_over

    def read_verified(self, ref: FileRef) -> Any:
        if self._is_over.is_set():
            raise _EndsError
        return self._storage.read_verified(ref)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)
