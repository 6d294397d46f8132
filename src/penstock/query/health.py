"""Whether an application is well: for supervisors, which ask again and again and want a word."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from penstock.engine.layout import TaskId
from penstock.engine.manifest import Manifest
from penstock.log.base import Log
from penstock.query.application import ApplicationStores

STALLED_MS = 60_000
"""How long an application may make no commit though there are records to read."""

_ENDED = {"PENDING_ERROR", "ERROR", "NOT_RUNNING"}


class Health(msgspec.Struct, frozen=True):
    """How an application is.

    Attributes:
        status: ``ok``; ``stalled`` when records wait and no commit was made for a while; ``failed`` or ``ended`` when
            its program has.
        state: that of its program, as Kafka Streams calls them; None where the program is another process.
        behind: how many records are not read yet; None where its topics are not known.
    """

    status: str
    application: str
    state: str | None
    commit: int
    commit_age_seconds: float
    behind: int | None

    @property
    def is_well(self) -> bool:
        """Whether nobody needs to do anything."""
        return self.status == "ok"


class HealthCheck:
    """Tells how an application is.

    Args:
        log: where its topics are; None if that is not known.
        state: that of its program, where it is this process.
    """

    def __init__(self, stores: ApplicationStores, log: Log | None = None, state: Callable[[], str] | None = None):
        self._stores, self._log, self._state = stores, log, state

    def look(self, stalled_ms: int = STALLED_MS) -> Health:
        """How it is now.

        Raises:
            PenstockError: its commits or its topics cannot be read.
        """
        commits = self._stores.commits
        newest, start = commits.newest(), commits.last_start()
        state = None if self._state is None else self._state()
        age = max(time.time() - newest.at / 1000, 0.0)
        behind = self._behind(newest)
        name = newest.application if start is None else start.application_id
        return Health(_status(state, behind, age, stalled_ms), name, state, newest.commit, round(age, 1), behind)

    def _behind(self, newest: Manifest) -> int | None:
        start = self._stores.commits.last_start()
        if self._log is None or start is None or start.topology is None:
            return None
        sources = {t: sub for t, sub in start.topology.readers.items() if t in newest.topics and self._log.exists(t)}
        return sum(
            max(end - _read(newest, sub, topic, partition), 0)
            for topic, sub in sources.items()
            for partition, end in enumerate(self._log.end_offsets(topic))
        )


def _read(newest: Manifest, sub: int, topic: str, partition: int) -> int:
    entry = newest.tasks.get(str(TaskId(sub, partition)))
    return 0 if entry is None else entry.offsets.get(topic, 0)


def _status(state: str | None, behind: int | None, age: float, stalled_ms: int) -> str:
    if state in _ENDED:
        return "ended" if state == "NOT_RUNNING" else "failed"
    return "stalled" if behind and age * 1000 > stalled_ms else "ok"
