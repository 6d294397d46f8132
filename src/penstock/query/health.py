"""The health of an application, for supervisors, which poll it and want a single word."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from penstock.engine.shared.children import FAILED
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.starts import Start
from penstock.log.base import Log
from penstock.query.application import ApplicationStores

STALLED_MS = 60_000
"""How long records may wait without progress."""

_MOST_LOOKS = 16
"""The number of partitions in which the waiting time is checked: those with the most records."""

_ENDED = {"PENDING_ERROR", "ERROR", "NOT_RUNNING"}


class _Waiting(NamedTuple):
    """Records that are not read yet, from an offset on."""

    topic: str
    partition: int
    offset: int
    records: int


class Health(msgspec.Struct, frozen=True):
    """The health of an application.

    Attributes:
        status: ``ok``; ``stalled`` when records have waited for a while and nothing moved; ``failed`` or ``ended``
            when its program has.
        state: that of its program, as Kafka Streams calls them; None where the program is another process.
        behind: how many records are not read yet; None where its topics are not known.
        stalled_seconds: for how long records have waited and nothing moved, within a commit either; 0 where none wait.
    """

    status: str
    application: str
    state: str | None
    commit: int
    commit_age_seconds: float
    behind: int | None
    stalled_seconds: float = 0.0

    @property
    def is_well(self) -> bool:
        """Whether nobody needs to act."""
        return self.status == "ok"

    @property
    def is_ready(self) -> bool:
        """Whether it is well, and its program, if that is known, has begun to work."""
        return self.is_well and self.state in (None, "RUNNING")


class HealthCheck:
    """Determines the health of an application.

    Args:
        log: the log with its topics; None if unknown.
        state: the state of its program, if it is this process.
    """

    def __init__(self, stores: ApplicationStores, log: Log | None = None, state: Callable[[], str] | None = None):
        self._stores, self._log, self._state = stores, log, state
        self._clear_at = 0.0
        """When no record was waiting, as far as seen."""

    def look(self, stalled_ms: int = STALLED_MS) -> Health:
        """The present health.

        Raises:
            PenstockError: its commits or its topics cannot be read.
        """
        commits = self._stores.commits
        newest = commits.newest()
        start = commits.start_of(newest)
        state = None if self._state is None else self._state()
        now = time.time()
        waiting = self._waiting(newest, start)
        behind = None if waiting is None else sum(one.records for one in waiting)
        stalled = self._stalled_seconds(waiting, newest, now) if waiting else 0.0
        if not waiting:
            self._clear_at = now
        name = newest.application if start is None else start.application_id
        age = round(max(now - newest.at / 1000, 0.0), 1)
        has_failed = has_outside(start) and any(one.state == FAILED for one in commits.children())
        status = _status(state, bool(behind) and stalled * 1000 > stalled_ms, has_failed)
        return Health(status, name, state, newest.commit, age, behind, round(stalled, 1))

    def _stalled_seconds(self, waiting: list[_Waiting], newest: Manifest, now: float) -> float:
        """How long records have waited without progress: since the oldest of them arrived, or since something moved."""
        assert self._log is not None
        most = sorted(waiting, key=lambda one: -one.records)[:_MOST_LOOKS]
        arrived = [self._log.arrived_at(one.topic, one.partition, one.offset) for one in most]
        came = min((at for at in arrived if at is not None and at <= now), default=0.0)
        since = max(came, self._clear_at, self._stores.commits.moved_at(newest) / 1000)
        return max(now - since, 0.0)

    def _waiting(self, newest: Manifest, start: Start | None) -> list[_Waiting] | None:
        """The partitions in which records wait; None if unknown."""
        if self._log is None or start is None or start.topology is None:
            return None
        sources = {t: sub for t, sub in start.topology.readers.items() if t in newest.topics and self._log.exists(t)}
        found = []
        for topic, sub in sources.items():
            starts, ends = self._log.start_offsets(topic), self._log.end_offsets(topic)
            for partition, (first, end) in enumerate(zip(starts, ends, strict=True)):
                at = max(_read(newest, sub, topic, partition), first)
                if at < end:
                    found.append(_Waiting(topic, partition, at, end - at))
        return found


def _read(newest: Manifest, sub: int, topic: str, partition: int) -> int:
    entry = newest.tasks.get(str(TaskId(sub, partition)))
    return 0 if entry is None else entry.offsets.get(topic, 0)


def has_outside(start: Start | None) -> bool:
    """Whether a start has queries of DataFrames or tables."""
    return start is not None and start.picture is not None and start.picture.has_outside


def _status(state: str | None, is_stalled: bool, has_failed: bool = False) -> str:
    if has_failed and state is None:
        return "failed"
    if state in _ENDED:
        return "ended" if state == "NOT_RUNNING" else "failed"
    return "stalled" if is_stalled else "ok"
