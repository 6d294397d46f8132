"""Progress of store restores, and its listeners.

Restores run where the tasks are: on Spark in slots, which report their steps to the driver. No result depends on these
reports, so a lost one does no harm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from penstock.engine.operate.standbys import Standbys
from penstock.engine.shared.layout import TaskId
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.state.interface import TopicPartition
from penstock.state.restoring import BATCH, END, START, SUSPENDED, RestoreStep, StateRestoreListener
from penstock.state.standby_updates import StandbyUpdateListener
from penstock.usage.calls import refuse_result, why_methods_unusable

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 0.25


@dataclass(frozen=True)
class RestoreProgress:
    """Progress of the restore of one store of one task.

    >>> RestoreProgress("counts", 0, rows=500, seconds=0.1, commit=7, ending_commit=9, state="restoring").is_done
    False
    """

    store: str
    partition: int
    rows: int
    """Rows that came from a snapshot (an estimate) and from delta files."""
    seconds: float
    commit: int
    """The commit that the store has reached; -1 for none."""
    ending_commit: int
    """The commit to restore."""
    state: str
    """``restoring``, ``restored``, or ``suspended``."""

    @property
    def is_done(self) -> bool:
        """Whether it is over, completed or not."""
        return self.state != "restoring"


class LagInfo(NamedTuple):
    """How far a partition of a store is behind its changelog, in commits.

    >>> LagInfo(5, 7).offset_lag
    2
    """

    current_offset_position: int
    end_offset_position: int

    @property
    def offset_lag(self) -> int:
        """The commits that are missing."""
        return self.end_offset_position - self.current_offset_position


class Restores:
    """The restores of an application since its start. Thread-safe."""

    def __init__(
        self,
        application_id: str,
        listener: StateRestoreListener | None = None,
        standby_listener: StandbyUpdateListener | None = None,
    ):
        self.listener = listener
        self.standbys = Standbys(application_id, standby_listener)
        """The copies on other machines."""
        self._application_id = application_id
        self._progress: dict[tuple[str, str], RestoreProgress] = {}
        self._began: dict[tuple[str, str], float] = {}
        self._lock = threading.RLock()

    @classmethod
    def of_start(cls, application_id: str, restore_listener: Any, standby_listener: Any) -> Self:
        """Return the restores of a program that is being started. Raise ``ConfigError`` for what is no listener."""
        check_listener(restore_listener, "start: state_restore_listener")
        check_listener(standby_listener, "start: standby_update_listener", StandbyUpdateListener)
        return cls(application_id, restore_listener, standby_listener)

    def progress(self) -> list[RestoreProgress]:
        """Return all restores, running and finished."""
        with self._lock:
            return list(self._progress.values())

    def reached(self, task: str, store: str) -> int | None:
        """Return the commit that a store has reached which is being restored; None if it is not."""
        with self._lock:
            found = self._progress.get((task, store))
        return None if found is None or found.is_done else found.commit

    def hear(self, step: RestoreStep) -> None:
        """Record a step, and tell the listener."""
        with self._lock:
            self._progress[step.task, step.store] = self._after(step)
            try:
                self._tell(step)
            except Exception:
                _log.exception("the state restore listener failed at %s; the restore goes on", step)

    def suspend(self) -> None:
        """Mark all running restores as suspended, because their processes are gone."""
        with self._lock:
            for (task, store), at in list(self._progress.items()):
                if not at.is_done:
                    self.hear(RestoreStep(SUSPENDED, task, store, at.commit, at.ending_commit, at.rows))

    def _after(self, step: RestoreStep) -> RestoreProgress:
        place = step.task, step.store
        now = time.monotonic()
        if step.kind == START or place not in self._progress:
            self._began[place] = now
            before = 0
        else:
            before = self._progress[place].rows
        rows = before + step.rows if step.kind == BATCH else max(before, step.rows)
        state = {END: "restored", SUSPENDED: "suspended"}.get(step.kind, "restoring")
        partition = TaskId.parse(step.task).partition
        return RestoreProgress(step.store, partition, rows, now - self._began[place], step.at, step.until, state)

    def _tell(self, step: RestoreStep) -> None:
        if self.listener is None:
            return
        place = TopicPartition(f"{self._application_id}-{step.store}-changelog", TaskId.parse(step.task).partition)
        listener: Any = self.listener
        if step.kind == START:
            result = listener.on_restore_start(place, step.store, step.at, step.until)
        elif step.kind == BATCH:
            result = listener.on_batch_restored(place, step.store, step.at, step.rows)
        elif step.kind == END:
            result = listener.on_restore_end(place, step.store, step.rows)
        else:
            result = listener.on_restore_suspended(place, step.store, step.rows)
        refuse_result(result, "it")


class Batched:
    """Reports the steps of restores a few times a second, while the context lasts. Steps come from several threads."""

    def __init__(self, tell: Callable[[list[RestoreStep]], None]):
        self._tell = tell
        self._waiting: list[RestoreStep] = []
        self._told = time.monotonic()
        self._lock = threading.Lock()

    def hear(self, step: RestoreStep) -> None:
        with self._lock:
            self._waiting.append(step)
            if time.monotonic() - self._told > _EVERY_SECONDS:
                self._pass_on()

    def __enter__(self) -> Batched:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._waiting:
                self._pass_on()

    def _pass_on(self) -> None:
        steps, self._waiting = self._waiting, []
        self._told = time.monotonic()
        self._tell(steps)


def check_listener(listener: object, where: str, kind: type = StateRestoreListener) -> None:
    """Raise ``ConfigError`` for a value that is no listener, instead of failing when the first call is due."""
    if listener is not None and not isinstance(listener, kind):
        raise ConfigError(
            f"{where} is a {kind.__name__}, got {show(listener)} of type {type(listener).__name__}; extend "
            f"penstock.{kind.__name__}, and write those of its methods that you want to hear of"
        )
    if why := why_methods_unusable(listener, *(name for name in vars(kind) if name.startswith("on_"))):
        raise ConfigError(f"{where}: of the listener {type(listener).__name__} {why}")
