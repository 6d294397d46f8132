"""Waits for records: polling a log is cheap, and notifications of appends cost nothing while there are none."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

_LOOK_SECONDS = 0.01


class TopicWatch(ABC):
    """Waits for records of some topics. An append since its creation, or since its last return, ends a wait."""

    @abstractmethod
    def wait(self, timeout: float) -> None:
        """Wait for new records, for a call of ``wake``, or for so many seconds. It may return without a reason."""

    @abstractmethod
    def wake(self) -> None:
        """End the running wait, or the next one; from any thread."""

    def has_seen(self, ends: Mapping[str, Sequence[int]]) -> None:  # noqa: B027 - files tell of what appears
        """Tell the watch that everything up to these offsets is known; it wakes for later ones only."""

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Release its resources; ``wake`` may still be called."""


class HasEnds(Protocol):
    """The log operation that such a watch needs."""

    def end_offsets(self, topic: str) -> list[int]: ...


class LookingWatch(TopicWatch):
    """Polls a log, for logs without notifications."""

    def __init__(self, log: HasEnds, topics: Sequence[str], look_seconds: float = _LOOK_SECONDS):
        self._log = log
        self._topics = list(topics)
        self._look_seconds = look_seconds
        self._woken = threading.Event()
        self._known = self._ends()

    def wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self.has_more() and (left := deadline - time.monotonic()) > 0:
            if self._woken.wait(min(left, self._look_seconds)):
                break
        self._woken.clear()

    def has_seen(self, ends: Mapping[str, Sequence[int]]) -> None:
        self._known = [list(ends.get(topic, known)) for topic, known in zip(self._topics, self._known, strict=True)]

    def has_more(self) -> bool:
        """Return whether the ends of the topics have changed since the last call."""
        before, self._known = self._known, self._ends()
        return before != self._known

    def wake(self) -> None:
        self._woken.set()

    def _ends(self) -> list[list[int]]:
        return [self._log.end_offsets(topic) for topic in self._topics]
