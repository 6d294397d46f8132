"""Resets an application: it starts again from other offsets, without its state.

A reset is one manifest, made like that of a take-over. So it is atomic, and a program that still runs the application
finds the next number taken and stops. Tasks begin with an empty base (``TaskEntry.base``), which makes them discard
their previous databases everywhere.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from penstock.engine.commit.invariants import RESET, refusal
from penstock.engine.commit.putting_aside import PuttingAside
from penstock.engine.shared.description import Description
from penstock.engine.shared.layout import TaskId, global_place
from penstock.engine.shared.manifest import Manifest, Manifests, TaskEntry
from penstock.engine.shared.starts import Start, Starts
from penstock.errors import ConfigError, FencedError, TopicNotFoundError
from penstock.faults import crash_point
from penstock.log.base import Log
from penstock.state.snapshot import TaskBase
from penstock.storage.base import Storage
from penstock.values.times import wall_clock_ms


@dataclass(frozen=True)
class Target:
    """Where to read sources from, in each of their partitions. A target outside a partition means its nearest end."""

    to: Literal["earliest", "latest", "time", "offset", "shift"] = "earliest"
    value: int = 0
    """Milliseconds since 1970, an offset, or by how many records to shift forward or back."""


@dataclass(frozen=True)
class Wanted:
    """The options of a reset.

    Attributes:
        topics: the sources to read from elsewhere; empty for all.
        keep_state: whether stores and stream times stay.
        keep_waiting: whether records that wait in repartition topics stay.
        empty_outputs: whether the records of the application's output topics are removed.
    """

    target: Target = Target()
    topics: tuple[str, ...] = ()
    keep_state: bool = False
    keep_waiting: bool = False
    empty_outputs: bool = False


@dataclass(frozen=True)
class Move:
    """The new offset of one partition of a source."""

    topic: str
    partition: int
    before: int
    now: int


@dataclass(frozen=True)
class Plan:
    """The complete plan of a reset."""

    application_id: str
    commit: int
    """The number of the commit that the reset makes."""
    moves: list[Move]
    stores: list[str]
    """The stores that are emptied."""
    waiting: dict[str, int]
    """How many files of waiting records are dropped, by repartition topic."""
    outputs: list[str]
    """The topics that are emptied."""
    refused: dict[str, int] = field(default_factory=dict)
    """How many records of the previous commit topics refuse; they are dropped."""
    grown: list[str] = field(default_factory=list)
    """Sources that got more partitions, where a key's records are now in two."""


class Reset:
    """A reset of one application, planned for its newest commit.

    Raises:
        ConfigError: this application cannot be reset this way.
        CorruptDataError: an output that stays was restored from an older copy.
        TopicNotFoundError: a source does not exist.
    """

    def __init__(self, storage: Storage, log: Log, wanted: Wanted):
        self._storage, self._log, self._wanted = storage, log, wanted
        self._manifests, self._starts = Manifests(storage), Starts(storage)
        self._newest = self._manifests.newest() or Manifest(-1, {})
        self._start, self._kept = self._read()
        self._sources = {topic: n for topic, n in self._kept.topics.items() if topic in self._newest.topics}
        self._now = {topic: log.topic(topic).partitions for topic in self._sources}
        """The current partition count of each source."""
        self._check()
        self._refused = PuttingAside(storage, log)
        self.plan = Plan(
            self._start.application_id,
            self._newest.commit + (2 if self._refused.is_needed else 1),
            [move for topic in wanted.topics or sorted(self._sources) for move in self._moves(topic)],
            [] if wanted.keep_state else sorted(self._start.stores),
            {} if wanted.keep_waiting else self._left_waiting(),
            self._outputs() if wanted.empty_outputs else [],
            dict(Counter(one.topic for one in self._refused.found.refused)),
            self._grown(),
        )
        self._refused.check(self.plan.outputs)
        for entry in self._newest.tasks.values() if not wanted.keep_state else ():
            self._begins_of_global_tables(entry)

    def _read(self) -> tuple[Start, Description]:
        start = self._starts.of(self._newest)
        if start is None or start.topology is None or start.picture is None:
            raise ConfigError(
                f"{self._storage.shown} does not say what the application reads and keeps: it was never started, or by "
                "an older version of Penstock. Start it once with this one, and reset it then; nothing was changed"
            )
        return start, start.topology

    def _check(self) -> None:
        for topic in self._wanted.topics:
            if topic not in self._sources:
                raise ConfigError(
                    f"application {self._start.application_id!r} does not read topic {topic!r}; it reads these topics: "
                    f"{', '.join(sorted(self._sources)) or 'none'}. Nothing was changed"
                )
        self._check_partitions()
        own = [name for name, kept in self._kept.stores.items() if kept.is_own]
        if own and not self._wanted.keep_state:
            raise ConfigError(
                f"store {own[0]!r} is one that the program brings, whose files a reset cannot empty. Keep the state "
                "(--keep-state), or start the program under another application id; nothing was changed"
            )

    def _grown(self) -> list[str]:
        """Return the sources with other partition counts that were not created again: their old records have not
        moved.
        """
        changed = [topic for topic, now in self._now.items() if now != self._sources[topic]]
        same = [topic for topic in changed if self._log.topic_id(topic) == self._newest.topics[topic]]
        return sorted(topic for topic in same if self._log.size(topic))

    def _check_partitions(self) -> None:
        """Refuse other partition counts, unless the application keeps nothing: everything kept stays in its
        partition.
        """
        wanted, changed = self._wanted, {t: n for t, n in self._now.items() if n != self._sources[t]}
        for topic, now in sorted(changed.items()):
            has = f"topic {topic!r} had {self._sources[topic]} partitions and has {now} now"
            if wanted.keep_state or wanted.keep_waiting:
                raise ConfigError(
                    f"{has}, and the state is stored by partition: `penstock rescale {self._start.application_id} "
                    f"--partitions {now}` moves it. Reset it then, or without --keep-state and --keep-waiting; nothing "
                    "was changed"
                )
            if wanted.topics and topic not in wanted.topics:
                raise ConfigError(
                    f"{has}: it has to begin again as well. Leave --topic out, or name it, too; nothing was changed"
                )

    def _moves(self, topic: str) -> Iterator[Move]:
        starts, ends = self._log.start_offsets(topic), self._log.end_offsets(topic)
        for partition, (first, end) in enumerate(zip(starts, ends, strict=True)):
            task = str(TaskId(self._kept.readers[topic], partition))
            before = self._newest.tasks.get(task, TaskEntry()).offsets.get(topic, 0)
            now = self._offset(topic, partition, before, first, end)
            yield Move(topic, partition, before, min(max(now, first), end))

    def _offset(self, topic: str, partition: int, before: int, first: int, end: int) -> int:
        target = self._wanted.target
        if target.to == "time":
            found = self._log.offset_at(topic, partition, target.value)
            return end if found is None else found
        return {"earliest": first, "latest": end, "offset": target.value, "shift": before + target.value}[target.to]

    def _left_waiting(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for topics in self._newest.waiting.values():
            for topic, refs in topics.items():
                found[topic] = found.get(topic, 0) + len(refs)
        return found

    def _outputs(self) -> list[str]:
        assert self._start.picture is not None
        parts = [part for sub in self._start.picture.subs for part in sub.parts]
        read = {topic for part in parts if part.kind == "source" for topic in part.topics}
        written = {topic for part in parts if part.kind == "sink" for topic in part.topics}
        found = sorted(topic for topic in (written & self._newest.topics.keys()) - read if self._log.exists(topic))
        for topic in found:
            if why := self._log.why_not_emptied(topic):
                raise ConfigError(
                    f"topic {topic!r} cannot be emptied: {why}. Reset without --empty-outputs, or set the topic's "
                    "cleanup.policy to compact,delete and try again; nothing was changed"
                )
        return found

    # --- doing it ------------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Execute the plan.

        Raises:
            FencedError: the application has made a commit since; nothing was changed.
        """
        self._refused.execute(dead_letters=None)
        self._refused.publish(self.plan.outputs)
        self._newest = self._manifests.newest() or self._newest
        if self._newest.commit >= self.plan.commit:
            raise self._fenced()
        by = f"penstock reset, process {os.getpid()} on {socket.gethostname()}"
        start = msgspec.structs.replace(self._start, by=by, at=wall_clock_ms(), topology=self._description())
        name = self._starts.write(self.plan.commit, start)
        crash_point("before-reset")
        manifest = self._manifest(name, start.at)
        refused = refusal(self._newest, manifest, self._manifests.place(manifest.commit), RESET)
        if refused is not None or not self._manifests.create(manifest):
            self._storage.delete(name)
            raise refused or self._fenced()
        crash_point("after-reset")
        for topic in self.plan.outputs:
            self._log.trim(topic, dict(enumerate(self._log.end_offsets(topic))))

    def _fenced(self) -> FencedError:
        return FencedError(
            f"application {self.plan.application_id!r} has made commit {self.plan.commit} meanwhile: it runs, on "
            "another machine perhaps. Stop it, and reset it then; nothing was changed"
        )

    def _description(self) -> Description:
        """Return the description for the next start, without what is gone: a changed topology need not match that."""
        if self._wanted.keep_state:
            return self._kept
        kept = msgspec.structs.replace(self._kept, stores={})
        if self._wanted.keep_waiting:
            return kept
        readers = {topic: self._kept.readers[topic] for topic in self._sources}
        return msgspec.structs.replace(kept, topics=self._now, readers=readers, internal={})

    def _manifest(self, start: str, at: int) -> Manifest:
        moved: dict[str, dict[str, int]] = {}
        for move in self.plan.moves:
            moved.setdefault(str(TaskId(self._kept.readers[move.topic], move.partition)), {})[move.topic] = move.now
        ids = {topic: self._log.topic_id(topic) for topic in {move.topic for move in self.plan.moves}}
        tasks = {
            task: self._entry(self._newest.tasks.get(task, TaskEntry()), moved.get(task, {}))
            for task in sorted(self._newest.tasks.keys() | moved.keys())
            if not self._is_gone(task)
        }
        keeps_batches = self._wanted.keep_state  # the state includes their rows
        return msgspec.structs.replace(
            self._newest,
            batches=self._newest.batches if keeps_batches else {},
            queries=self._newest.queries if keeps_batches else {},
            commit=self.plan.commit,
            tasks=tasks,
            sinks={},
            sinks_of=-1,
            waiting=self._newest.waiting if self._wanted.keep_waiting else {},
            at=at,
            start=start,
            topics=self._newest.topics | ids,
            published=-1,
            outputs=self._newest.outputs_once_published(self.plan.outputs),
        )

    def _is_gone(self, task: str) -> bool:
        """Return whether a task no longer exists because topics have fewer partitions now."""
        if self._now == self._sources:
            return False
        id_ = TaskId.parse(task)
        counts = [now for topic, now in self._now.items() if self._kept.readers[topic] == id_.sub]
        return id_.partition >= max(counts or self._now.values())

    def _entry(self, entry: TaskEntry, moved: dict[str, int]) -> TaskEntry:
        if self._wanted.keep_state:
            before = TaskEntry().clock if moved else entry.clock
            return msgspec.structs.replace(entry, offsets=entry.offsets | moved, clock=before)
        commit = self.plan.commit
        offsets = {place: offset for place, offset in entry.offsets.items() if place in self._sources}
        if self._wanted.keep_waiting:
            offsets = {place: offset for place, offset in entry.offsets.items() if "/" not in place}
        offsets |= self._begins_of_global_tables(entry) | moved
        return TaskEntry(offsets, changed=commit, snapshot=commit, base=TaskBase(commit))

    def _begins_of_global_tables(self, entry: TaskEntry) -> dict[str, int]:
        """Return the first offsets of global tables. They are read again with the state, whatever other topics do."""
        found: dict[str, int] = {}
        for topic in {place.partition("/")[0] for place in entry.offsets if "/" in place}:
            if not self._log.exists(topic):
                raise TopicNotFoundError(
                    f"topic {topic!r}, of a global table, does not exist; nothing was changed. Create it first: "
                    f"`penstock topics create {topic}`"
                )
            found |= {global_place(topic, p): at for p, at in enumerate(self._log.start_offsets(topic))}
        return found
