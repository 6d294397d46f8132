"""A host of tasks: keeps them open from commit to commit, and brings each to the application's newest commit.

On Spark every slot process is a host; without Spark the program itself has one.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from penstock.arrays import is_too_large
from penstock.engine.shared.layout import Layout, TaskId
from penstock.engine.shared.manifest import Manifests
from penstock.engine.shared.runner import TooManyWritesError
from penstock.engine.shared.stores import has_own_stores
from penstock.engine.shared.work import StageWork, TaskDone, TaskWork
from penstock.engine.task.live import Desk
from penstock.engine.task.reader import Reader
from penstock.engine.task.task import Task
from penstock.errors import PenstockError, ProcessingError, StoreError
from penstock.faults import crash_point
from penstock.figures.moving import moving
from penstock.log.base import Log
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.inventory import DamagedStateError
from penstock.state.restoring import Tell
from penstock.state.store import StateStore
from penstock.storage.base import Storage, cannot_write
from penstock.storage.syncing import SyncTogether

_SMALLER = 16
"""How many times smaller chunks and commits become when the results of one do not fit into an Arrow array."""

_OPENED_AT_ONCE = 4
"""Restores mostly wait for files, so several run at once."""

_TOO_LARGE = (
    "one record, or the entries that it releases, makes results of more than 2 GiB, more than a step can process at "
    "once; nothing of this commit was committed. Keep less in values and aggregates, or have fewer windows hold "
    "them. Where many windows close at one record, results that are neither suppressed nor held until the close "
    "(EmitStrategy.on_window_update()) come as they change"
)


def is_of_folder(error: PenstockError, folder: Path | None) -> bool:
    """Return whether an error means that the disk below a folder is full, or can no longer be written."""
    place = error.unwritable if isinstance(error, StoreError) else ""
    return bool(place) and folder is not None and Path(place).is_relative_to(folder)


class TaskHost:
    """Runs tasks of one application.

    Args:
        folder: where the tasks' databases are on this machine; None to keep all state in memory.
        reader: gives tasks their input; tests have another.
    """

    def __init__(
        self,
        topology: Topology,
        layout: Layout,
        settings: Settings,
        log: Log,
        storage: Storage,
        folder: Path | None,
        reader: type[Reader] = Reader,
    ):
        self._topology = topology
        self._layout = layout
        self._settings = settings
        self._log = log.with_outbox(storage, layout.application_id)
        self._storage = storage
        self._manifests = Manifests(storage)
        self._folder = folder
        self._reader = reader
        self._tasks: dict[str, Task] = {}
        self._shares: dict[str, int] = {}
        """The tasks whose results were too large at once, and into how many parts their chunks and commits are cut."""
        self._with_own_stores = {s.id for s in topology.sub_topologies if has_own_stores(s, topology.facts)}
        self._failed: dict[str, BaseException] = {}
        """The errors of tasks that failed to open; raised when the tasks get work."""
        self._together = SyncTogether()
        self.on_restore: Tell | None = None
        """Called with the progress of restores, from several threads."""
        self.desk = Desk(self._store)
        """Answers queries about uncommitted state."""
        self.on_chunk: Callable[[], None] = lambda: None
        """Called after every chunk."""
        self.on_new_task: Callable[[Task], None] | None = None
        """For tests: called with every task that is opened."""

    def tasks(self) -> list[Task]:
        """Return the open tasks."""
        return list(self._tasks.values())

    def run(self, stage: StageWork) -> list[TaskDone]:
        """Run the tasks of a stage. Permanent failures are returned as answers, not raised."""
        with self.desk.working():
            return self._run_all(stage)

    def _run_all(self, stage: StageWork) -> list[TaskDone]:
        self._open_together(stage.tasks, stage.application)
        done = []
        for work in stage.tasks:
            try:
                done.append(self._run(work, stage))
            except PenstockError as error:
                self._drop(work.task)
                is_own = is_of_folder(error, self._folder)
                done.append(TaskDone(work.task, error=str(error), error_type=type(error).__name__, is_disk_full=is_own))
            except KeyboardInterrupt:
                raise
            except BaseException:  # a fault of this library; repeating the work would repeat it
                self._drop(work.task)
                done.append(TaskDone(work.task, error=f"unexpected error\n{traceback.format_exc()}"))
        return self._durable(done)

    def _durable(self, done: list[TaskDone]) -> list[TaskDone]:
        """Return the results of tasks, after making all their files durable."""
        try:
            self._together.sync()
        except OSError as error:
            says = cannot_write(error.filename or self._storage.shown, error)
            for one in done:
                self._drop(one.task)
            return [one if one.error else TaskDone(one.task, error=str(says), error_type="StoreError") for one in done]
        return done

    def _run(self, work: TaskWork, stage: StageWork) -> TaskDone:
        """Run one task.

        It runs again with smaller chunks if something does not fit into one Arrow array, and with restored state if its
        database is damaged.
        """
        is_new = False
        while True:
            if is_new:
                gc.collect()  # objects that still refer to the damaged database hold its lock
            try:
                task = self._tasks.get(work.task)
                if work.goes_on:
                    if task is None or task.pending != (stage.commit, stage.attempt):
                        return TaskDone(work.task, is_lost=True, error="the task has lost what it had not committed")
                elif task is None or not task.is_on_its_way(stage.attempt):
                    if work.lap is not None and not work.begins:
                        return TaskDone(work.task, is_lost=True, error="the task no longer goes around its cycle")
                    task = self._task(work, stage.application)
                assert task is not None
                task.ordered_at = stage.now
                return TaskDone(work.task) if stage.only_settles else task.run(work, stage.commit, stage.attempt)
            except pa.ArrowException as error:
                if not is_too_large(error):
                    raise
                self._drop(work.task)
                share = self._shares.get(work.task, 1)
                if share > self._settings.chunk_records:
                    raise ProcessingError(_TOO_LARGE) from error
                self._shares[work.task] = share * _SMALLER
                if work.lap is not None or work.goes_on:
                    return TaskDone(work.task, is_lost=True, error="what came together was too much for an Arrow array")
            except TooManyWritesError as error:  # caches and steps keep what they have of it, so the task begins anew
                self._drop(work.task)
                return TaskDone(work.task, most=error.most[work.task])
            except DamagedStateError as error:
                is_begun = work.goes_on or (work.lap is not None and not work.begins)
                self._distrust(work.task, error, is_new)
                if is_begun:
                    return TaskDone(work.task, is_lost=True, error=str(error))
                is_new = True

    def close(self) -> None:
        """Close all tasks; committed state is flushed."""
        with self.desk.working():
            for task in self._tasks.values():
                task.close()
            self._tasks.clear()
        self._together.close()

    def settle(self, works: list[TaskWork], application: str) -> None:
        """Bring tasks to their last commit, without any other work."""
        with self.desk.working():
            self._open_together(works, application)
            for work in works:
                self._task(work, application)

    def _task(self, work: TaskWork, application: str) -> Task:
        """Return a task, open and exactly at its last commit."""
        if (error := self._failed.pop(work.task, None)) is not None:
            raise error
        task = self._tasks.get(work.task)
        entry = work.entry
        if task is None:
            task = self._tasks[work.task] = self._new(work.task)
            self._open(task, work, application)
            return task
        if task.pending is not None:
            crash_point("before-local-commit")
            if task.pending == (entry.changed, entry.attempt):
                task.state.commit(entry.changed, entry.delta, entry.attempt)
            else:
                task.rollback()
            task.pending = None
            crash_point("after-local-commit")
        for step in self._manifests.since(work.task, entry, task.state.at):
            task.state.apply(step)
        return task

    def _open_together(self, works: list[TaskWork], application: str) -> None:
        """Open the tasks that are not open yet, several at once. Users' own stores are opened in this thread."""
        others = [work for work in works if work.task not in self._tasks]
        new = [work for work in others if TaskId.parse(work.task).sub not in self._with_own_stores]
        if len(new) < 2:
            return
        for work in new:
            self._tasks[work.task] = self._new(work.task)

        def open_one(work: TaskWork) -> None:
            try:
                self._open(self._tasks[work.task], work, application)
            except BaseException as error:
                self._failed[work.task] = error

        with ThreadPoolExecutor(min(len(new), _OPENED_AT_ONCE), "penstock-restore") as pool:
            list(pool.map(open_one, new))

    def _open(self, task: Task, work: TaskWork, application: str) -> None:
        """Bring a new task's state to its last commit."""
        self._manifests.open(task.state, work.entry, application, self.on_restore)
        task.state.set_clocks(work.entry.numbers)  # earlier commits may have them under other names

    def _new(self, name: str) -> Task:
        id_ = TaskId.parse(name)
        folder = None if self._folder is None else self._folder / name
        surroundings = self._topology, self._layout, self._settings, self._log, self._storage
        task = Task(id_, *surroundings, folder, self._reader, self._shares.get(name, 1))
        task.between_chunks = self._between_chunks
        task.gathering = self._together.gathering
        if self.on_new_task is not None:
            self.on_new_task(task)
        return task

    def _between_chunks(self) -> None:
        moving.steps += 1
        self.on_chunk()
        self.desk.answer()

    def _store(self, task: str, name: str) -> StateStore | None:
        """Return a store of an open task."""
        found = self._tasks.get(task)
        return None if found is None else found.state.stores.get(name)

    def _distrust(self, name: str, error: DamagedStateError, is_new: bool) -> None:
        """Forget a task whose database is damaged; its state is restored from the checkpoint."""
        task = self._tasks.pop(name)
        task.state.distrust(str(error))
        if is_new:
            raise StoreError(
                f"{error}, though it was just restored from the checkpoint: is the disk failing, or is something "
                "writing into this folder? Everything committed is safe"
            ) from None

    def _drop(self, name: str) -> None:
        """Forget a task in an unknown state; it opens again from disk."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.abandon()
