"""The copies of stores on other machines, as a listener of the program hears of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from penstock.engine.shared.layout import TaskId
from penstock.state.interface import TopicPartition
from penstock.state.restoring import BATCH, START, SUSPENDED, RestoreStep
from penstock.state.standby_updates import StandbyUpdateListener, SuspendReason
from penstock.usage.calls import refuse_result

_log = logging.getLogger(__name__)


class Standbys:
    """The copies of an application's stores. Thread-safe."""

    def __init__(self, application_id: str, listener: StandbyUpdateListener | None = None):
        self.listener = listener
        self._application_id = application_id
        self._at: dict[tuple[str, str], RestoreStep] = {}
        """The last step of each copy that follows, by task and store."""
        self._lock = threading.RLock()

    def hear(self, step: RestoreStep) -> None:
        """Record a step, and tell the listener."""
        place = step.task, step.store
        with self._lock:
            if step.kind == START:
                self._at[place] = step
                self._tell("on_update_start", step, step.at)
            elif step.kind == BATCH and place in self._at:
                self._at[place] = step
                self._tell("on_batch_loaded", step, step.task, step.at, step.rows, step.until)
            elif step.kind == SUSPENDED and place in self._at:
                self._suspend(self._at.pop(place), SuspendReason.MIGRATED)

    def suspend(self, is_promoted: Callable[[str], bool] = lambda task: False) -> None:
        """Tell the listener that no copy follows now, because the slots have ended.

        Args:
            is_promoted: returns whether a task is now on the machine of its copy.
        """
        with self._lock:
            at, self._at = self._at, {}
            for (task, _), last in at.items():
                self._suspend(last, SuspendReason.PROMOTED if is_promoted(task) else SuspendReason.MIGRATED)

    def _suspend(self, last: RestoreStep, reason: SuspendReason) -> None:
        self._tell("on_update_suspended", last, last.at, last.until, reason)

    def _tell(self, method: str, step: RestoreStep, *arguments: Any) -> None:
        if self.listener is None:
            return
        place = TopicPartition(f"{self._application_id}-{step.store}-changelog", TaskId.parse(step.task).partition)
        try:
            refuse_result(getattr(self.listener, method)(place, step.store, *arguments), "it")
        except Exception:
            _log.exception("the standby update listener failed at %s; the copies go on", step)
