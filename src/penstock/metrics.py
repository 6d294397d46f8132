"""What the engine counts and measures: names and tags, and how figures add up from commit to commit.

Every commit's manifest holds all figures since the application's first start, so a crash neither loses nor repeats
any. A name's ending says how it goes on: ``-max`` and ``-min`` keep the extreme, ``-current`` the newest, all others
add up. An average is kept as ``-sum`` and ``-recordings`` and becomes ``-avg`` when somebody looks. A ``-rate`` goes
with each ``-total`` of a running application; the wall clock is in it, so it is kept nowhere.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

DROPPED = "dropped-records-total"
LATE = "late-record-drop-total"
EXPIRED = "expired-window-record-drop-total"
SKIPPED = "skipped-records-total"
DEAD_LETTERS = "dead-letter-records-total"
DUPLICATES = "duplicates-dropped-total"
BEYOND_HISTORY = "beyond-history-lookups-total"
"""Look-ups as of a time that a versioned store's history retention no longer reaches, and that found nothing."""
LATENESS = "record-lateness"
PROCESSED = "process-total"
"""Records that reached a step."""
STATE_ROWS = "estimate-num-keys-current"
STATE_BYTES = "state-bytes-current"
"""What a store has in memory and on disk, about."""

REMOVED_UNREAD = "removed-unread"
"""The reason why records are skipped that retention removed before they were read; the node is their topic."""

_SUM, _RECORDINGS, _AVERAGE = "-sum", "-recordings", "-avg"
_TOTAL, _RATE = "-total", "-rate"

_OF_STORES = {EXPIRED.removesuffix(_TOTAL), BEYOND_HISTORY.removesuffix(_TOTAL), STATE_ROWS, STATE_BYTES}

RATE_SECONDS = 30.0
"""Over how long a rate is taken."""


class Metric(NamedTuple):
    """What a figure is of.

    >>> Metric("suppression-buffer-count-max", "final-store", task="0_1").tags
    {'task-id': '0_1', 'buffer-id': 'final-store'}
    """

    name: str
    """Its Kafka name."""
    node: str = ""
    """The node, or the store where the figure is that of a store."""
    reason: str = ""
    """Why, where there are several reasons; the store's type where the figure is that of a store."""
    task: str = ""
    client: str = ""
    """The application."""

    @property
    def group(self) -> str:
        """The group that Kafka Streams has it in."""
        if self._is_of_store:
            return f"stream-{self.reason}-state-metrics"
        return "stream-buffer-metrics" if self._is_of_buffer else "stream-processor-node-metrics"

    @property
    def tags(self) -> dict[str, str]:
        """The tags that Kafka Streams gives it."""
        node = "buffer-id" if self._is_of_buffer else "processor-node-id"
        if self._is_of_store:
            node = f"{self.reason}-state-id"
        every = {"client-id": self.client, "task-id": self.task, node: self.node}
        if not self._is_of_store:
            every["reason"] = self.reason
        return {name: tag for name, tag in every.items() if tag}

    @property
    def _is_of_store(self) -> bool:
        return self.name.removesuffix(_RATE) in _OF_STORES or self.name.removesuffix(_TOTAL) in _OF_STORES

    @property
    def _is_of_buffer(self) -> bool:
        return self.name.startswith("suppression-buffer-")


def add_up(total: dict[str, int], labelled: Mapping[str, int]) -> None:
    """Take the figures of a commit into those of all before."""
    for label, figure in labelled.items():
        total[label] = combined(label, total[label], figure) if label in total else figure


def combined(name: str, before: int, now: int) -> int:
    """A figure after another recording.

    >>> combined("record-lateness-max", 7, 5), combined("late-record-drop-total", 7, 5)
    (7, 12)
    """
    if name.endswith("-max"):
        return max(before, now)
    if name.endswith("-min"):
        return min(before, now)
    return now if name.endswith("-current") else before + now


def labelled(task: str, figures: Mapping[Metric, int]) -> dict[str, int]:
    """A task's figures as a manifest holds them."""
    return {f"{task}|{metric.node}|{metric.reason}|{metric.name}": figure for metric, figure in figures.items()}


def readable(labelled: Mapping[str, int], client: str = "") -> dict[Metric, float]:
    """The figures of a manifest, with averages.

    >>> readable({"0_0|source||record-lateness-sum": 9, "0_0|source||record-lateness-recordings": 2})
    {Metric(name='record-lateness-avg', node='source', reason='', task='0_0', client=''): 4.5}
    """
    found: dict[Metric, float] = {}
    for label, figure in labelled.items():
        task, node, reason, name = label.split("|")
        if name.endswith(_SUM):
            recordings = labelled[label.removesuffix(_SUM) + _RECORDINGS]
            found[Metric(name.removesuffix(_SUM) + _AVERAGE, node, reason, task, client)] = figure / recordings
        elif not name.endswith(_RECORDINGS):
            found[Metric(name, node, reason, task, client)] = figure
    return found


def total(figures: Mapping[Metric, float], name: str) -> float:
    """A counter of all nodes and tasks together.

    >>> total({Metric("late-record-drop-total", "a"): 2, Metric("late-record-drop-total", "b"): 3}, LATE)
    5
    """
    return sum(figure for metric, figure in figures.items() if metric.name == name)


class Rates:
    """How much the totals of a running application grow in a second, over the last half minute, by the wall clock.

    Args:
        labelled: the figures at the start.
        now: the wall clock, in seconds.

    >>> seconds = iter([0.0, 10.0, 20.0])
    >>> rates = Rates({}, lambda: next(seconds))
    >>> rates.after({"0_0|tens||late-record-drop-total": 5})
    >>> rates.readable({"0_0|tens||late-record-drop-total": 6})
    {Metric(name='late-record-drop-rate', node='tens', reason='', task='0_0', client=''): 0.3}
    """

    def __init__(self, labelled: Mapping[str, int], now: Callable[[], float] = time.monotonic):
        self._now = now
        self._looks = deque([(now(), _totals(labelled))])

    def after(self, labelled: Mapping[str, int]) -> None:
        """Look at the figures after a commit."""
        now = self._now()
        if now - self._looks[-1][0] >= 1:
            self._looks.append((now, _totals(labelled)))
        while len(self._looks) > 1 and now - self._looks[1][0] >= RATE_SECONDS:
            self._looks.popleft()

    def readable(self, labelled: Mapping[str, int], client: str = "") -> dict[Metric, float]:
        """The rate of each total of a manifest."""
        now = self._now()
        looks = list(self._looks)
        past = [look for look in looks if now - look[0] >= RATE_SECONDS]
        begin, before = past[-1] if past else looks[0]
        seconds = max(now - begin, 1.0)
        grown = {label: (figure - before.get(label, 0)) / seconds for label, figure in _totals(labelled).items()}
        return {
            metric._replace(name=metric.name.removesuffix(_TOTAL) + _RATE): rate
            for label, rate in grown.items()
            for metric in readable({label: 0}, client)
        }


def _totals(labelled: Mapping[str, int]) -> dict[str, int]:
    return {label: figure for label, figure in labelled.items() if label.endswith(_TOTAL)}
