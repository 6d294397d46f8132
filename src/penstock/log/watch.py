"""Waiting for records: a look at a log costs little, and what tells of appends costs nothing until there are some."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

_LOOK_SECONDS = 0.01


class TopicWatch(ABC):
    """Waits for records of some topics. What was appended since it was made, or since it last returned, ends a wait."""

    @abstractmethod
    def wait(self, timeout: float) -> None:
        """Wait for new records, or until somebody calls ``wake``, or for so many seconds. It may return for nothing."""

    @abstractmethod
    def wake(self) -> None:
        """End the wait that is under way, or the next one; from any thread."""

    def has_seen(self, ends: Mapping[str, Sequence[int]]) -> None:  # noqa: B027 - files tell of what appears
        """Whoever waits knows what the topics have up to these ends, and is to be told of what comes behind them."""

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what it waits on; ``wake`` may still be called."""


class HasEnds(Protocol):
    """What such a watch needs of a log."""

    def end_offsets(self, topic: str) -> list[int]: ...


class LookingWatch(TopicWatch):
    """Looks at a log again and again, for logs that do not tell."""

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
        """Look: whether the topics have other ends than at the last look."""
        before, self._known = self._known, self._ends()
        return before != self._known

    def wake(self) -> None:
        self._woken.set()

    def _ends(self) -> list[list[int]]:
        return [self._log.end_offsets(topic) for topic in self._topics]
