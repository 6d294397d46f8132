"""How long a task waits for an empty topic before it continues with its others (``max.task.idle.ms``, KIP-353,
KIP-695), like ``PartitionGroup.readyToProcess``.

Records of several topics are processed in time order as far as they have arrived. A topic that is read to its end may
still get records earlier than those of the other topics. The task waits for them for as long as the setting says, from
the moment it noticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from penstock.engine.shared.layout import TaskId

Place = tuple[TaskId, str]
"""A task, and one of the topics that it reads."""


class TaskIdling:
    """Decides which topics tasks wait for.

    Args:
        seconds: how long a task waits for a topic; 0 disables waiting.
        now: a clock that only goes forward, in seconds.

    >>> clock = iter([0.0, 3.0, 5.0])
    >>> idling, task = TaskIdling(5.0, lambda: next(clock)), TaskId(0, 0)
    >>> idling.awaited(task, {"a": 2, "b": 0})
    >>> idling.awaited(task, {"a": 2, "b": 0})
    >>> idling.awaited(task, {"a": 2, "b": 0})
    ['a']
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic):
        self.seconds = seconds
        self.now = now
        self._deadlines: dict[Place, float] = {}

    def awaited(self, task: TaskId, unread: dict[str, int]) -> list[str] | None:
        """Return the topics that a task reads only to their ends; None if it has to wait.

        Args:
            unread: the number of unread records of each of its topics.
        """
        if self.seconds <= 0 or len(unread) < 2:
            return []
        now = self.now()
        for topic, records in unread.items():
            if records:
                self._deadlines.pop((task, topic), None)
            else:
                self._deadlines.setdefault((task, topic), now + self.seconds)
        if not any(unread.values()) or any(now < self._deadlines.get((task, topic), now) for topic in unread):
            return None
        return [topic for topic, records in unread.items() if records]

    def waits(self, tasks: Iterable[tuple[TaskId, dict[str, int]]]) -> float | None:
        """Return the seconds until a task that waits with unread records continues; None if none waits."""
        left = [
            max(self._deadlines.get((task, topic), 0.0) - self.now() for topic in unread)
            for task, unread in tasks
            if self.seconds > 0 and any(unread.values()) and not all(unread.values())
        ]
        return max(min(left), 0.0) if left else None
