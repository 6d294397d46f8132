"""Repairs a commit whose records a topic refuses: refused records become dead letters, and the rest is published.

A commit is final when its manifest exists; its records go to their topics afterwards. If a topic refuses some of them,
no start can continue. The repair is one new manifest, like a reset: it has the commit's records without the refused
ones, and dead letters in their place. The repair is atomic. The records keep the number of their own commit, so they
are published once, whichever program does it.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from penstock.columns.batch import HEADERS
from penstock.engine.commit.attempt import attempt_name
from penstock.engine.commit.claim import producer_of
from penstock.engine.commit.invariants import PUT_ASIDE, refusal
from penstock.engine.commit.publishing import check_newest, publish_newest
from penstock.engine.shared.description import Description
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.engine.shared.starts import Start, Starts
from penstock.errors import ConfigError, FencedError, RefusedRecordError
from penstock.faults import crash_point
from penstock.figures.metrics import DEAD_LETTERS, SKIPPED, Metric, add_up, labelled
from penstock.log.base import Log, TopicInfo
from penstock.log.contract.publishing import Judged
from penstock.log.contract.writer import Segment
from penstock.log.records import Records
from penstock.storage.base import Storage
from penstock.values.times import wall_clock_ms


class Refused(NamedTuple):
    """A record that its topic refuses."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    why: str


@dataclass(frozen=True)
class Stuck:
    """The part of the newest commit that is not in its topics yet.

    Attributes:
        sequence: the commit number under which its records are appended to their topics.
        records: the number of records, by topic.
        refused: the records that their topics refuse.
    """

    application_id: str
    commit: int
    sequence: int
    records: dict[str, int]
    refused: list[Refused]


class PuttingAside:
    """Finds the records of an application's newest commit that topics refuse, and repairs the commit.

    Raises:
        ConfigError: the application was never started.
    """

    def __init__(self, storage: Storage, log: Log):
        self._storage, self._log = storage, log
        self._manifests, self._starts = Manifests(storage), Starts(storage)
        self._newest = self._manifests.newest() or Manifest(-1, {})
        self._start, self._kept = self._read()
        self._outbox = log.with_outbox(storage, self._start.application_id)
        self._judged = self._look()
        self.found = Stuck(
            self._start.application_id,
            self._newest.commit,
            self._newest.sequence,
            _counted(self._judged),
            [one for judged in self._judged for one in _refused(judged)],
        )

    def _read(self) -> tuple[Start, Description]:
        start = self._starts.of(self._newest)
        if start is None or start.topology is None:
            raise ConfigError(
                f"{self._storage.shown} has no commit of this version of Penstock, so none waits to be published. "
                "Start the application as usual"
            )
        return start, start.topology

    @property
    def is_needed(self) -> bool:
        """Whether topics refuse anything."""
        return bool(self.found.refused)

    def _look(self) -> list[Judged]:
        producer = producer_of(self._newest.application)
        last = self._outbox.last_published(producer) if self._newest.sinks else None
        if last is None or last >= self._newest.sequence:
            return []
        return self._outbox.judged(producer, self._newest.sinks)

    def check(self, emptied: Collection[str] = (), dead_letters: str | None = None) -> None:
        """Make the checks of ``execute`` and ``publish``, and change nothing.

        Raises:
            CorruptDataError: an output was restored from an older copy.
            RefusedRecordError: the topic for dead letters refuses some records too.
        """
        check_newest(self._log, self._newest, self._start.application_id, emptied)
        if dead_letters is not None and self._log.exists(dead_letters):
            for judged in self._judged:
                for error in self._log.refused(dead_letters, _letters_of(judged)).values() if judged.refused else ():
                    raise _refused_as_well(dead_letters, error)

    def execute(self, dead_letters: str | None) -> None:
        """Replace the refused records, if there are any; publishing is the next step.

        Args:
            dead_letters: the topic that takes them; None to drop them. They are counted either way.

        Raises:
            RefusedRecordError: that topic refuses some of them too; nothing was changed.
            FencedError: the application has made a commit since; nothing was changed.
        """
        if not self.is_needed:
            return
        commit = self._newest.commit + 1
        sinks = self._sinks(attempt_name(self._newest.application, commit), dead_letters)
        by = f"penstock publish, process {os.getpid()} on {socket.gethostname()}"
        start = msgspec.structs.replace(self._start, by=by, at=wall_clock_ms())
        name = self._starts.write(commit, start)
        crash_point("before-put-aside")
        manifest = self._manifest(sinks, name, start.at, dead_letters is not None)
        refused = refusal(self._newest, manifest, self._manifests.place(commit), PUT_ASIDE)
        if refused is not None or not self._manifests.create(manifest):
            self._storage.delete(name)
            raise refused or FencedError(
                f"application {self.found.application_id!r} has made commit {commit} meanwhile: it runs, on another "
                "machine perhaps. Stop it, and look again; nothing was changed"
            )
        crash_point("after-put-aside")

    def publish(self, emptied: Collection[str] = ()) -> None:
        """Append the newest commit's records to their topics, as a start would; `emptied` topics are left out."""
        newest = self._manifests.newest() or self._newest
        publish_newest(self._log, self._storage, newest, self._start.application_id, self._kept, emptied)

    def _manifest(self, sinks: dict[str, list[Segment]], start: str, at: int, are_kept: bool) -> Manifest:
        sink_of = self._sink_names()
        counts = Counter(sink_of.get(one.topic, one.topic) for one in self.found.refused)
        metric, reason = DEAD_LETTERS if are_kept else SKIPPED, RefusedRecordError.__name__
        metrics = dict(self._newest.metrics)
        add_up(metrics, labelled("", {Metric(metric, node, reason): count for node, count in counts.items()}))
        changed = {"commit": self._newest.commit + 1, "sinks": sinks, "sinks_of": self._newest.sequence}
        return msgspec.structs.replace(self._newest, **changed, metrics=metrics, at=at, start=start)

    def _sink_names(self) -> dict[str, str]:
        """Return the sink that writes into each topic."""
        parts = [part for sub in self._start.picture.subs for part in sub.parts] if self._start.picture else []
        return {topic: part.name for part in parts if part.kind == "sink" for topic in part.topics}

    # --- what is left ------------------------------------------------------------------------------------------------

    def _sinks(self, name: str, dead_letters: str | None) -> dict[str, list[Segment]]:
        """Return the commit's records without the refused ones, which become dead letters."""
        sinks = dict(self._newest.sinks)
        for topic in dict.fromkeys(one.topic for one in self.found.refused):
            sinks[topic] = self._left(topic, name)
        if dead_letters is not None:
            letters = self._letters(dead_letters, name)
            sinks[dead_letters] = [*sinks.get(dead_letters, []), *letters]
        return {topic: segments for topic, segments in sinks.items() if segments}

    def _left(self, topic: str, name: str) -> list[Segment]:
        pieces = [(one.partition, _without(one)) for one in self._judged if one.topic == topic]
        pieces = [(partition, records) for partition, records in pieces if len(records)]
        return self._written(topic, f"{name}-kept", pieces) if pieces else []

    def _letters(self, topic: str, name: str) -> list[Segment]:
        if not self._log.exists(topic):
            self._log.create_topic(TopicInfo(topic, 1))
        count = self._log.topic(topic).partitions
        pieces = [(one.partition % count, _letters_of(one)) for one in self._judged if one.refused]
        segments = self._written(topic, f"{name}-letters", pieces)
        for one in self._outbox.judged(producer_of(self._newest.application), {topic: segments}):
            for why in one.refused.values():
                raise _refused_as_well(topic, why)
        return segments

    def _written(self, topic: str, name: str, pieces: Sequence[tuple[int, Records]]) -> list[Segment]:
        with self._outbox.writer(topic, name) as writer:
            for partition, records in pieces:
                writer.write(partition, records.key, records.value, records.timestamp, records.headers)
        return writer.segments()


def _refused_as_well(topic: str, why: RefusedRecordError | str) -> RefusedRecordError:
    return RefusedRecordError(
        f"topic {topic!r} refuses these records as well: {why}. Nothing was changed. Say another topic, or drop them"
    )


def _counted(judged: list[Judged]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in judged:
        counts[one.topic] += len(one.records)
    return dict(counts)


def _refused(judged: Judged) -> list[Refused]:
    records = judged.records
    return [
        Refused(
            judged.topic,
            judged.partition,
            records.key[row].as_py(),
            records.value[row].as_py(),
            int(records.timestamp[row]),
            why,
        )
        for row, why in sorted(judged.refused.items())
    ]


def _without(judged: Judged) -> Records:
    """Return the records that their topic accepts."""
    rows = np.setdiff1d(np.arange(len(judged.records)), list(judged.refused))
    return judged.records.take(rows)


def _letters_of(judged: Judged) -> Records:
    """Return the refused records, each with its own headers and the reason."""
    rows = np.array(sorted(judged.refused), np.int64)
    records = judged.records.take(rows)
    own = [None] * len(rows) if records.headers is None else records.headers.to_pylist()
    reasons = (
        {
            "penstock.topic": judged.topic,
            "penstock.partition": str(judged.partition),
            "penstock.error": judged.refused[row],
        }
        for row in rows.tolist()
    )
    headers = [
        [*(before or ()), *({"key": key, "value": value.encode()} for key, value in reason.items())]
        for before, reason in zip(own, reasons, strict=True)
    ]
    return Records(-1, records.key, records.value, records.timestamp, pa.array(headers, HEADERS))
