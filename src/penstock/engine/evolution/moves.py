"""Translates a manifest to the names of the new topology: tasks, topics and stream times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.engine.evolution.matching import Matches, begins_headers_in_sessions
from penstock.engine.shared.description import Description
from penstock.engine.shared.exchange import EARLIEST, ExchangeRef
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.state.task_state import TASK_TIME, Numbers

_WORD = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Carried:
    """State that a task inherits from one previous task: its store names, old to new."""

    task: str
    stores: Mapping[str, str] = field(default_factory=dict)


class Moves:
    """Maps the tasks of the previous topology to those of the new one.

    Args:
        tasks: the number of tasks of each new sub-topology.
    """

    def __init__(self, old: Description, new: Description, matches: Matches, tasks: Mapping[int, int]):
        self._old, self._new, self._matches, self._tasks = old, new, matches, tasks
        self._subs = {sub: frozenset(self._from(sub)) for sub in tasks}
        kept = matches.stores.items()
        self.with_headers = {b for a, b in kept if begins_headers_in_sessions(old.stores[a], new.stores[b])}
        """The session stores that begin to keep headers, by their new names."""
        self.is_needed = bool(self._is_needed() or self.with_headers)
        """Whether any name but those of stream times differs."""

    def _from(self, sub: int) -> Iterator[int]:
        """Yield the previous sub-topologies from whose tasks this one inherits topics or stores."""
        for before, now in self._matches.topics.items():
            if self._new.readers[now] == sub:
                yield self._old.readers[before]
        for before, now in self._matches.stores.items():
            if self._new.stores[now].tasks == sub:
                yield self._old.stores[before].tasks

    def _is_needed(self) -> bool:
        moved = any(self._old.readers[a] != self._new.readers[b] or a != b for a, b in self._matches.topics.items())
        kept = self._matches.stores.items()
        moved |= any(self._old.stores[a].tasks != self._new.stores[b].tasks or a != b for a, b in kept)
        moved |= self._old.everywhere not in (None, self._new.everywhere)
        gone = self._old.stores.keys() - self._matches.stores.keys() or self._matches.dropped
        return bool(moved or gone or self._old.topics.keys() - self._matches.topics.keys())

    def carried(self, sub: int) -> dict[int, dict[str, str]]:
        """Return, by previous sub-topology, the stores that a new one inherits from it: previous name to new name."""
        found: dict[int, dict[str, str]] = {}
        for before, now in self._matches.stores.items():
            if self._new.stores[now].tasks == sub:
                found.setdefault(self._old.stores[before].tasks, {})[before] = now
        return found

    def stays(self, sub: int) -> bool:
        """Return whether a sub-topology's tasks keep exactly the state of the previous tasks of the same names."""
        if any(self._new.stores[name].tasks == sub for name in self.with_headers):
            return False
        before = {name for name, kept in self._old.stores.items() if kept.tasks == sub}
        if self._subs[sub] - {sub} or (not self._subs[sub] and sub in self._old_subs()):
            return False
        old_tables, tables = self._old.everywhere, self._new.everywhere or {}
        if old_tables is not None and old_tables.get(sub, {}) != tables.get(sub, {}):
            return False  # a global table is read again when its store has another name
        return self.carried(sub) == ({sub: {name: name for name in before}} if before else {})

    def is_new(self, sub: int) -> bool:
        """Return whether the sub-topology inherits neither state nor a task number from the previous start."""
        return not self._subs[sub] and sub not in self._old_subs()

    def _old_subs(self) -> set[int]:
        return {*self._old.readers.values(), *(kept.tasks for kept in self._old.stores.values())}

    # --- the manifest ------------------------------------------------------------------------------------------------

    def manifest(self, newest: Manifest) -> Manifest:
        """Return the manifest under the new names. State that must be written again has no files in it."""
        tasks = {str(id_): entry for id_ in self._ids() if (entry := self._entry(newest, id_)) is not None}
        return msgspec.structs.replace(newest, tasks=tasks, waiting=self._waiting(newest))

    def _ids(self) -> Iterator[TaskId]:
        for sub, count in self._tasks.items():
            for partition in range(count):
                yield TaskId(sub, partition)

    def _entry(self, newest: Manifest, id_: TaskId) -> TaskEntry | None:
        if self.stays(id_.sub):
            entry = newest.tasks.get(str(id_))
            if entry is None:
                return None
            offsets = {now: at for place, at in entry.offsets.items() if (now := self._place(place, id_.sub))}
            return msgspec.structs.replace(entry, offsets=offsets, numbers=self.numbers(entry.numbers))
        found = [newest.tasks.get(str(TaskId(sub, id_.partition))) for sub in sorted(self._subs[id_.sub])]
        entries = [entry for entry in found if entry is not None]
        if not entries:
            return None
        offsets = {}
        for before, now in self._matches.topics.items():
            entry = newest.tasks.get(str(TaskId(self._old.readers[before], id_.partition)))
            if self._new.readers[now] == id_.sub and entry is not None and before in entry.offsets:
                offsets[now] = entry.offsets[before]
        clocks = [entry.clock for entry in entries]
        return TaskEntry(offsets, self._merged(entries), clock=min(clocks, default=EARLIEST))

    def _place(self, place: str, sub: int) -> str | None:
        """Return the new name under which a task that stays keeps an offset; None for a topic it no longer reads."""
        if place not in self._old.topics:  # place of a global table
            return place
        now = self._matches.topics.get(place)
        return now if now is not None and self._new.readers[now] == sub else None

    def _merged(self, entries: list[TaskEntry]) -> Numbers:
        """Return the numbers of several tasks that become one."""
        merged: Numbers = {}
        for entry in entries:
            for name, numbers in self.numbers(entry.numbers).items():
                if name == TASK_TIME and name in merged:
                    merged[name] = {what: max(n, merged[name].get(what, n)) for what, n in numbers.items()}
                else:
                    merged[name] = numbers
        return merged

    def numbers(self, numbers: Numbers) -> Numbers:
        """Return stream times under the new names of stores and steps, without those of removed ones."""
        steps = self._steps()
        found: Numbers = {}
        for name, values in numbers.items():
            if name in self._old.stores:
                now = self._matches.stores.get(name)
            else:
                step = next((step for step in steps if name == step or name.startswith(f"{step}-")), None)
                now = name if step is None else steps[step] and steps[step] + self._suffix(name[len(step) :])
            if now:
                found[now] = values
        return found

    def _suffix(self, suffix: str) -> str:
        """Translate the part after a step's name: some stream times belong to one of the step's stores."""
        for store, now in self._matches.stores.items():
            if suffix.startswith(f"-{store}-"):
                return f"-{now}{suffix[len(store) + 1 :]}"
        return suffix

    def _steps(self) -> dict[str, str]:
        """Return the new names of the steps that have a stream time, by previous name.

        Empty for a removed step whose name another step has taken.
        """
        taken = set(self._new.clocks.values())
        found = {}
        for what, step in self._old.clocks.items():
            now = self._new.clocks.get(self._retold(what), "")
            found[step] = now or ("" if step in taken else step)
        return found

    def _retold(self, what: str) -> str:
        """Return the description of a step with the new names."""
        moved = self._matches.topics | self._matches.stores
        first, _, rest = what.partition(" ")
        return f"{first} {_WORD.sub(lambda found: moved.get(found[0], found[0]), rest)}"

    def _waiting(self, newest: Manifest) -> dict[str, dict[str, list[ExchangeRef]]]:
        """Return the records waiting in repartition topics, by the tasks that now read them and with their new
        senders.
        """
        found: dict[str, dict[str, list[ExchangeRef]]] = {}
        for task, topics in newest.waiting.items():
            for topic, refs in topics.items():
                now = self._matches.topics.get(topic)
                if now is not None:
                    reader = str(TaskId(self._new.readers[now], TaskId.parse(task).partition))
                    sent = [msgspec.structs.replace(ref, task=self._sender(ref.task)) for ref in refs]
                    found.setdefault(reader, {})[now] = sent
        return found

    def _sender(self, task: str) -> str:
        if not task:
            return task
        id_ = TaskId.parse(task)
        now = [sub for sub, before in self._subs.items() if id_.sub in before]
        return str(TaskId(now[0] if now else id_.sub, id_.partition))
