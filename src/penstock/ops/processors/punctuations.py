"""The schedule of punctuations (``PunctuationQueue``, ``PunctuationSchedule``).

The next time of a punctuation that ``init`` scheduled is part of the commit, so that a restart resumes the schedule: no
call is missed or made twice. A cancelled punctuation stays cancelled.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.arrays import LATEST
from penstock.processor import PunctuationType
from penstock.state.clock import StreamTime

BEHIND = 2**40
"""Marks, in the second column of ``order``, a record that a punctuation sent: it comes after everything that the record
at its position caused."""

_CANCELLED = -2


def existing(time: int) -> int:
    """Return the time of a call; a punctuation past the largest time is cancelled."""
    return time if time <= LATEST else _CANCELLED


class Punctuation:
    """A scheduled punctuation; users receive it to ``cancel`` it.

    Args:
        next_: holds the time of the next call, and is committed and rolled back with the task.
    """

    def __init__(self, interval: int, callback: Callable[[int], object], next_: StreamTime, number: int):
        self.interval = interval
        self.callback = callback
        self.number = number
        self._next = next_

    @property
    def at(self) -> int:
        """The time of the next call."""
        return self._next.now

    @property
    def is_cancelled(self) -> bool:
        return self._next.now == _CANCELLED

    def cancel(self) -> None:
        """Cancel all further calls."""
        self._next.now = _CANCELLED

    def called(self, now: int) -> None:
        """Note a call: the next one is due an interval later. Calls that time has jumped over are left out."""
        missed = (now - self.at) // self.interval
        self._next.now = existing(self.at + (missed + 1) * self.interval)


class _Due(NamedTuple):
    at: int
    number: int
    punctuation: Punctuation


class PunctuationQueue:
    """The punctuations of a processor that follow the same kind of time."""

    def __init__(self) -> None:
        self._queue: list[_Due] = []

    def add(self, punctuation: Punctuation) -> None:
        if not punctuation.is_cancelled:
            heapq.heappush(self._queue, _Due(punctuation.at, punctuation.number, punctuation))

    def next_at(self) -> int | None:
        """The time of the next call, or None."""
        while self._queue and self._queue[0].punctuation.is_cancelled:
            heapq.heappop(self._queue)
        return self._queue[0].at if self._queue else None

    def take(self, now: int) -> Punctuation | None:
        """Take a punctuation that is due out of the queue, to call it and add it again; None if none is due."""
        at = self.next_at()
        return heapq.heappop(self._queue).punctuation if at is not None and at <= now else None


WALL_CLOCK = re.compile(r"-wall-clock-\d+$")
"""The suffix of the name under which the next time of a wall-clock punctuation is kept."""
_KINDS = {PunctuationType.STREAM_TIME: "stream-time", PunctuationType.WALL_CLOCK_TIME: "wall-clock"}


def clock_name(node: str, type_: PunctuationType, number: int) -> str:
    """The name under which the next time of a punctuation is kept with the task's stream times.

    >>> clock_name("KSTREAM-PROCESSOR-0000000001", PunctuationType.WALL_CLOCK_TIME, 0)
    'KSTREAM-PROCESSOR-0000000001-wall-clock-0'
    """
    return f"{node}-{_KINDS[type_]}-{number}"
