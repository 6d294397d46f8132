"""Manifests: the creation of manifest N is the commit of outputs, state and offsets together."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator
from functools import partial

import msgspec

from penstock.engine.shared.exchange import EARLIEST, ExchangeRef
from penstock.engine.shared.places import Places
from penstock.errors import CorruptDataError
from penstock.log.contract.writer import Segment
from penstock.state.restoring import Tell
from penstock.state.snapshot import Base
from penstock.state.task_state import Committed, Numbers, TaskState
from penstock.storage import FileRef, Storage, number_in, seal, unseal

_FOLDER = "manifests"
_MOST_LINKS = 20_000
"""How many entries of earlier commits are kept for tasks that are still to be opened."""

_TASK = re.compile(r"[0-9]{1,9}_[0-9]{1,9}")


class TaskEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where one task is after a commit; carried over unchanged by commits in which it had nothing to do."""

    offsets: dict[str, int] = {}
    """For each topic, repartition topics too, the offset of the next record of the task's partition."""
    numbers: Numbers = {}
    """Stream times."""
    delta: FileRef | None = None
    """What the commit ``changed`` changed in the task's stores."""
    changed: int = -1
    """The last commit in which the task took part."""
    attempt: str = ""
    """The attempt at that commit which succeeded."""
    previous: int = -1
    """The commit before ``changed`` in which the task took part."""
    snapshot: int = -1
    """The commit of the task's newest snapshot."""
    older: int | None = None
    """The commit of the snapshot before it, -1 when there was none: delta files are kept from there on, for when the
    newest one is damaged. None when they are kept from the newest one on only."""
    clock: int = EARLIEST
    """How far in time the task's input is read: what it reads from here on is not earlier, unless it is late."""

    base: Base | None = None
    """What the task's state began with, since its topology last changed so that it had to."""

    @property
    def kept_since(self) -> int:
        """The commit after which all delta files of the task are kept."""
        return self.snapshot if self.older is None else self.older

    def older_than(self, snapshot: int) -> int | None:
        """What ``older`` is when the task has come to this snapshot, or gone back to it."""
        if snapshot == self.snapshot:
            return self.older
        return self.snapshot if snapshot > self.snapshot else None

    def __post_init__(self) -> None:
        if self.previous >= self.changed and self.previous != -1:  # or the way back through them would never end
            raise ValueError(f"commit {self.previous} cannot be the one before commit {self.changed}")


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is true after commit ``commit``."""

    commit: int
    tasks: dict[str, TaskEntry]
    sinks: dict[str, list[Segment]] = {}
    """The records that this commit makes visible, by topic."""
    waiting: dict[str, dict[str, list[ExchangeRef]]] = {}
    """Records in repartition topics that a task could not take any more in this commit, by task and topic."""
    metrics: dict[str, int] = {}
    """All figures since the application's first start, see ``penstock.metrics``."""
    observed: dict[str, int] = {}
    """More figures, of the same form, that depend on where commits are and on what the disk has done: how many records
    reached each step, how large stores are."""
    at: int = 0
    """Wall-clock time in ms."""
    application: str = ""
    """The identity of the checkpoint."""
    start: str = ""
    """The file that tells of the start whose commit this is, see ``penstock.engine.shared.starts``."""
    topics: dict[str, str] = {}
    """The ids of the topics that the application reads and writes; offsets and ``sinks`` are of these topics and of
    no others of their names."""
    published: int = -1
    """The last commit whose records were known to be in their topics when this one was made."""
    outputs: dict[str, int] = {}
    """By output topic the last commit whose records were known to be in it when this one was made."""

    places: Places | None = None
    """Where slots live; None behind a start."""
    batches: dict[str, int] = {}
    """The names of batches whose rows count already, each with its commit; the newest ones."""
    queries: dict[str, int] = {}
    """By streaming query the number of its newest batch whose rows count."""
    sinks_of: int = -1
    """The commit whose records ``sinks`` has, less those that were put aside; -1 where it is this one."""

    @property
    def sequence(self) -> int:
        """The number under which its records are appended to their topics."""
        return self.commit if self.sinks_of < 0 else self.sinks_of

    def outputs_once_published(self, but: Collection[str] = ()) -> dict[str, int]:
        """What ``outputs`` is in the next manifest: it is made when this one's records are in all topics but some."""
        return {t: at for t, at in (self.outputs | dict.fromkeys(self.sinks, self.sequence)).items() if t not in but}

    def __post_init__(self) -> None:
        for task in (*self.tasks, *self.waiting):
            if not _TASK.fullmatch(task):  # it becomes part of paths
                raise ValueError(f"{task!r} is not the name of a task")


class Manifests:
    """The manifests in an application's checkpoint storage."""

    def __init__(self, storage: Storage):
        self.storage = storage
        self._links: dict[int, dict[str, TaskEntry]] = {}
        """By commit the entries of the tasks that took part in it: each of the thousands that are opened needs one,
        and to read the manifest for each took longer than all else."""
        self._linking = threading.Lock()

    def numbers(self) -> list[int]:
        """The numbers of all manifests that are there, ascending."""
        found = ((number_in(name), name) for name in self.storage.list(_FOLDER))
        return [number for number, name in found if number is not None and name == _name(number)]

    def changed_at(self) -> int | None:
        """When one was last made or removed, in nanoseconds of the folder's clock; None where that cannot be told."""
        return self.storage.changed_at(_FOLDER)

    def newest(self) -> Manifest | None:
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def read(self, commit: int) -> Manifest:
        """One manifest; raises ``CorruptDataError`` when it is missing or damaged."""
        name, where = _name(commit), self.place(commit)
        try:
            found = unseal(self.storage.read(name), Manifest, where)
        except FileNotFoundError:
            raise CorruptDataError(
                f"the manifest {where} is missing though later ones need it; restore it from a backup"
            ) from None
        if found.commit != commit:
            raise CorruptDataError(f"the manifest {where} is that of commit {found.commit}; restore it from a backup")
        return found

    def place(self, commit: int) -> str:
        """What the manifest of a commit is called in messages."""
        return f"{self.storage.shown}/{_name(commit)}"

    def name(self, commit: int) -> str:
        """The name of the file in the storage."""
        return _name(commit)

    def create(self, manifest: Manifest) -> bool:
        """Commit; False when another program has made this commit already."""
        return self.storage.create(_name(manifest.commit), seal(manifest))

    def delete(self, commit: int) -> None:
        self.storage.delete(_name(commit))

    def chain(self, task: str, newest: TaskEntry, after: int) -> Iterator[TaskEntry]:
        """The entries of the commits after one in which a task took part, the newest first."""
        entry = newest
        while entry.changed > after:
            yield entry
            if entry.previous <= after:
                return
            entry = self._linked(entry.previous, task)
            if entry.attempt and newest.attempt and _application_of(entry) != _application_of(newest):
                raise CorruptDataError(
                    f"the manifest {self.place(entry.changed)} is that of another checkpoint "
                    f"({_application_of(entry)}, and later ones are of {_application_of(newest)}); restore it from a "
                    "backup"
                )

    def link(self, manifest: Manifest, task: str) -> TaskEntry:
        """The entry of a task in the manifest of a commit in which it took part, as later ones say."""
        entry = manifest.tasks.get(task, TaskEntry())
        return self._checked(entry if entry.changed == manifest.commit else None, manifest.commit, task)

    def _linked(self, commit: int, task: str) -> TaskEntry:
        """What ``link`` gives, of a manifest that is read once for all tasks."""
        with self._linking:  # several tasks are opened at once
            links = self._links
            if commit not in links:
                tasks = self.read(commit).tasks
                links[commit] = {name: entry for name, entry in tasks.items() if entry.changed == commit}
                while len(links) > 1 and sum(map(len, links.values())) > _MOST_LINKS:
                    del links[next(iter(links))]
            return self._checked(links[commit].get(task), commit, task)

    def _checked(self, entry: TaskEntry | None, commit: int, task: str) -> TaskEntry:
        if entry is None:
            raise CorruptDataError(
                f"the manifest {self.place(commit)} has nothing of task {task}, and later ones say that "
                "the task took part in it; restore it from a backup"
            )
        return entry

    def since(self, task: str, newest: TaskEntry, after: int) -> list[Committed]:
        """What the commits after one mean for a task, in order."""
        if newest.base is not None and after < newest.base.commit:
            raise CorruptDataError(
                f"the state of task {task} began anew with commit {newest.base.commit}, for a changed topology, and "
                f"cannot be brought there from commit {after}; restore the checkpoint from a backup"
            )
        entries = reversed(list(self.chain(task, newest, after)))
        return [Committed(entry.changed, entry.delta, entry.numbers, entry.attempt) for entry in entries]

    def open(self, state: TaskState, entry: TaskEntry, application: str, tell: Tell | None = None) -> None:
        """Bring a task's state to where its entry says it is.

        Args:
            application: the identity of the checkpoint.
            tell: hears how the restore goes on.
        """
        since, attempt_at = partial(self.since, state.task, entry), partial(self.attempt_at, state.task, entry)
        state.open(application, entry.changed, entry.snapshot, since, tell, entry.base, attempt_at)

    def attempt_at(self, task: str, newest: TaskEntry, commit: int) -> str | None:
        """The attempt with which a task came to a commit; empty when it took no part in it, None when the manifest of
        that commit is not kept any more."""
        if newest.changed <= commit:
            return newest.attempt if newest.changed == commit else ""
        *_, next_one = self.chain(task, newest, commit)
        if next_one.previous != commit:
            return ""
        try:
            return self._linked(commit, task).attempt
        except CorruptDataError:
            return None


def delta_name(task: str, commit: int, attempt: str) -> str:
    """The file with what an attempt at a commit changed in a task's stores.

    >>> delta_name("0_0", 7, "app-7-5a0ba94f")
    'deltas/0_0/0000000000000007-app-7-5a0ba94f.arrow'
    """
    return f"deltas/{task}/{commit:016d}-{attempt}.arrow"


def _application_of(entry: TaskEntry) -> str:
    """The checkpoint whose attempt brought a task where it is."""
    return entry.attempt.rsplit("-", 2)[0]


def _name(commit: int) -> str:
    return f"{_FOLDER}/{commit:016d}.json"
