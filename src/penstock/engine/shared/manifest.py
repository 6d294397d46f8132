"""Manifests: the creation of manifest N is the commit of outputs, state and offsets together."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator
from functools import partial

import msgspec

from penstock.engine.shared.exchange import EARLIEST, ExchangeRef
from penstock.engine.shared.last_read import LastRead
from penstock.engine.shared.places import Places
from penstock.errors import CorruptDataError
from penstock.log.contract.writer import Segment
from penstock.state.restoring import Tell
from penstock.state.snapshot import TaskBase
from penstock.state.task_state import Committed, Numbers, TaskState
from penstock.storage.base import FileRef, Storage, number_in, seal, unseal

_FOLDER = "manifests"
_MOST_LINKS = 20_000
"""Most entries of earlier commits that are cached for tasks still to be opened."""

_TASK = re.compile(r"[0-9]{1,9}_[0-9]{1,9}")


class TaskEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position of one task after a commit; commits in which it had nothing to do copy it unchanged."""

    offsets: dict[str, int] = {}
    """For each topic, including repartition topics, the offset of the next record of the task's partition."""
    numbers: Numbers = {}
    """Stream times."""
    delta: FileRef | None = None
    """The changes of commit ``changed`` in the task's stores."""
    changed: int = -1
    """The last commit in which the task took part."""
    attempt: str = ""
    """The successful attempt at that commit."""
    previous: int = -1
    """The task's last commit before ``changed``."""
    snapshot: int = -1
    """The commit of the task's newest snapshot."""
    older: int | None = None
    """The commit of the snapshot before it, -1 if it had none. Delta files are kept from there on, in case the newest
    snapshot is damaged. None when they are kept only from the newest snapshot on.
    """
    clock: int = EARLIEST
    """The task's clock: records it reads from here on are not earlier, unless they are late."""

    base: TaskBase | None = None
    """The task's initial state, if a change of the topology gave it one."""
    last: dict[str, LastRead] = {}
    """For each topic of the log, the last record that was read, where it is known."""

    @property
    def kept_since(self) -> int:
        """The commit after which all delta files of the task are kept."""
        return self.snapshot if self.older is None else self.older

    def older_than(self, snapshot: int) -> int | None:
        """Return ``older`` for a task that advances to this snapshot, or goes back to it."""
        if snapshot == self.snapshot:
            return self.older
        return self.snapshot if snapshot > self.snapshot else None

    def __post_init__(self) -> None:
        if self.previous >= self.changed and self.previous != -1:  # otherwise the way back would never end
            raise ValueError(f"commit {self.previous} cannot be the one before commit {self.changed}")


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is true after commit ``commit``."""

    commit: int
    tasks: dict[str, TaskEntry]
    sinks: dict[str, list[Segment]] = {}
    """The records that this commit makes visible, by topic."""
    waiting: dict[str, dict[str, list[ExchangeRef]]] = {}
    """Records in repartition topics that a task could no longer take in this commit, by task and topic."""
    metrics: dict[str, int] = {}
    """All metrics since the application's first start, see ``penstock.figures.metrics``."""
    observed: dict[str, int] = {}
    """Metrics of the same form that depend on commit boundaries and on the disk: records that reached each step, sizes
    of stores.
    """
    at: int = 0
    """Wall-clock time in ms."""
    application: str = ""
    """The identity of the checkpoint."""
    start: str = ""
    """The file of the start that made this commit, see ``penstock.engine.shared.starts``."""
    topics: dict[str, str] = {}
    """The ids of the topics that the application reads and writes. Offsets and ``sinks`` refer to these topics, not to
    later ones of the same names.
    """
    published: int = -1
    """The last commit whose records were known to be in their topics when this one was made."""
    outputs: dict[str, int] = {}
    """By output topic, the last commit whose records were known to be in it when this one was made."""

    places: Places | None = None
    """Which slots are where; None after a start."""
    batches: dict[str, int] = {}
    """The names of the newest batches whose rows are committed, each with its commit."""
    queries: dict[str, int] = {}
    """By streaming query, the number of its newest batch whose rows are committed."""
    sinks_of: int = -1
    """The commit that ``sinks`` belongs to, if refused records were removed from it since; -1 for this one."""

    @property
    def sequence(self) -> int:
        """The commit number under which its records are appended to their topics."""
        return self.commit if self.sinks_of < 0 else self.sinks_of

    def outputs_once_published(self, but: Collection[str] = ()) -> dict[str, int]:
        """Return ``outputs`` for the next manifest, which is made when this one's records are in all topics but
        `but`.
        """
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
        """Entries by commit, of the tasks that took part in it. Each of thousands of opening tasks needs one, and
        reading the manifest for each took longer than everything else.
        """
        self._linking = threading.Lock()

    def numbers(self) -> list[int]:
        """Return the numbers of all existing manifests, ascending."""
        found = ((number_in(name), name) for name in self.storage.list(_FOLDER))
        return [number for number, name in found if number is not None and name == _name(number)]

    def changed_at(self) -> int | None:
        """Return when a manifest was last made or removed, in nanoseconds of the folder's clock; None if unknown."""
        return self.storage.changed_at(_FOLDER)

    def newest(self) -> Manifest | None:
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def read(self, commit: int) -> Manifest:
        """Return one manifest. Raise ``CorruptDataError`` when it is missing or damaged."""
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
        """Return the name of a commit's manifest in messages."""
        return f"{self.storage.shown}/{_name(commit)}"

    def name(self, commit: int) -> str:
        """Return the name of the file in the storage."""
        return _name(commit)

    def create(self, manifest: Manifest) -> bool:
        """Commit. Return False when another program has already made this commit."""
        return self.storage.create(_name(manifest.commit), seal(manifest))

    def delete(self, commit: int) -> None:
        self.storage.delete(_name(commit))

    def chain(self, task: str, newest: TaskEntry, after: int) -> Iterator[TaskEntry]:
        """Yield the entries of the commits after `after` in which a task took part, newest first."""
        entry = newest
        while entry.changed > after:
            yield entry
            if entry.previous <= after:
                return
            entry = self._linked(entry.previous, task)
            if entry.attempt and newest.attempt and _application_of(entry) != _application_of(newest):
                raise CorruptDataError(
                    f"the manifest {self.place(entry.changed)} belongs to another checkpoint "
                    f"({_application_of(entry)}, and later ones are of {_application_of(newest)}); restore it from a "
                    "backup"
                )

    def link(self, manifest: Manifest, task: str) -> TaskEntry:
        """Return a task's entry in the manifest of a commit in which, according to later ones, it took part."""
        entry = manifest.tasks.get(task, TaskEntry())
        return self._checked(entry if entry.changed == manifest.commit else None, manifest.commit, task)

    def _linked(self, commit: int, task: str) -> TaskEntry:
        """Return the entry of ``link``, from a manifest that is read once for all tasks."""
        with self._linking:  # several tasks open at once
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
        """Return what the commits after `after` changed in a task, in order."""
        if newest.base is not None and after < newest.base.commit:
            raise CorruptDataError(
                f"the state of task {task} started over with commit {newest.base.commit}, for a changed topology, and "
                f"cannot be brought there from commit {after}; restore the checkpoint from a backup"
            )
        entries = reversed(list(self.chain(task, newest, after)))
        return [Committed(entry.changed, entry.delta, entry.numbers, entry.attempt) for entry in entries]

    def open(self, state: TaskState, entry: TaskEntry, application: str, tell: Tell | None = None) -> None:
        """Bring a task's state to the commit of its entry.

        Args:
            application: the identity of the checkpoint.
            tell: hears about the progress of the restore.
        """
        since, attempt_at = partial(self.since, state.task, entry), partial(self.attempt_at, state.task, entry)
        state.open(application, entry.changed, entry.snapshot, since, tell, entry.base, attempt_at)

    def attempt_at(self, task: str, newest: TaskEntry, commit: int) -> str | None:
        """Return the attempt with which a task came to a commit.

        Empty if it took no part in it; None if the manifest of that commit is no longer kept.
        """
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
    """Return the file with the changes that an attempt at a commit made in a task's stores.

    >>> delta_name("0_0", 7, "app-7-5a0ba94f")
    'deltas/0_0/0000000000000007-app-7-5a0ba94f.arrow'
    """
    return f"deltas/{task}/{commit:016d}-{attempt}.arrow"


def _application_of(entry: TaskEntry) -> str:
    """Return the checkpoint whose attempt made an entry."""
    return entry.attempt.rsplit("-", 2)[0]


def _name(commit: int) -> str:
    return f"{_FOLDER}/{commit:016d}.json"
