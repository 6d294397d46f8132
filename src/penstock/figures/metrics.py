"""Counters and measurements of the engine: names and tags, and how they add up from commit to commit.

Every commit's manifest holds all metrics since the application's first start, so a crash neither loses nor repeats any.
The ending of a name says how it is combined: ``-max`` and ``-min`` keep the extreme, ``-current`` the newest, all
others add up. An average is stored as ``-sum`` and ``-recordings`` and becomes ``-avg`` on reading. Each ``-total`` of
a running application has a ``-rate``, which depends on the wall clock and is not stored.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.arrays import IntArray
from penstock.figures.metric_names import GROUPS, OF_KAFKA, RECORDING_LEVELS, has_rate, is_recorded_at, level_of

DROPPED = "dropped-records-total"
LATE = "late-record-drop-total"
EXPIRED = "expired-window-record-drop-total"
SKIPPED = "skipped-records-total"
DEAD_LETTERS = "dead-letter-records-total"
DUPLICATES = "duplicates-dropped-total"
BEYOND_HISTORY = "beyond-history-lookups-total"
"""Look-ups as of a time beyond a versioned store's history retention, which found nothing."""
LATENESS = "record-lateness"
PROCESSED = "process-total"
"""Records that reached a step."""
STATE_ROWS = "estimate-num-keys-current"
STATE_BYTES = "state-bytes-current"
"""Approximate bytes of a store in memory and on disk."""
E2E_LATENCY = "record-e2e-latency"
"""Between a record's timestamp and the wall clock when it is read, or reaches a sink."""
PUNCTUATED = "punctuate-total"
COMMITS = "|||thread:commit-total"
COMMIT_LATENCY = "|||thread:commit-latency"
"""From the end of its tasks to the end of the commit, in milliseconds; as labels in manifests."""

STORE_REQUESTS = "object-store-requests-total"
STORE_READ = "object-store-read-bytes-total"
STORE_WRITTEN = "object-store-written-bytes-total"
"""Requests to the checkpoint's object store, including retries, and the bytes of files."""

REMOVED_UNREAD = "removed-unread"
"""The reason for skipped records that retention removed before they were read; the node is their topic."""

_SUM, _RECORDINGS, _AVERAGE = "-sum", "-recordings", "-avg"
_TOTAL, _RATE = "-total", "-rate"
_TOTAL_OF_RATE = "/-total"
"""The ending of a user's own figure that is shown as a rate alone."""

_OF_STORES = {EXPIRED.removesuffix(_TOTAL), BEYOND_HISTORY.removesuffix(_TOTAL), STATE_ROWS, STATE_BYTES}

OWN = "own/"
"""The prefix of the scope of users' own metrics; the recording level and the group follow. Their names have an ending
such as ``/-max``, which says how they are combined."""

RATE_SECONDS = 30.0
"""The time span of a rate."""


class Metric(NamedTuple):
    """The identity of a figure: name, node, task and tags.

    >>> Metric("suppression-buffer-count-max", "final-store", task="0_1").tags
    {'task-id': '0_1', 'buffer-id': 'final-store'}
    >>> kafkas = Metric("suppression-buffer-count-max", "final-store", "in-memory-suppression", "0_1", "app", "state")
    >>> kafkas.group, kafkas.level
    ('stream-state-metrics', 'DEBUG')
    >>> kafkas.tags
    {'thread-id': 'app-StreamThread-1', 'task-id': '0_1', 'in-memory-suppression-state-id': 'final-store'}
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
    scope: str = ""
    """Its scope in Kafka Streams 4.4, see ``GROUPS``; empty for metrics of steps, and for those of the KIPs' texts."""

    @property
    def level(self) -> str:
        """The recording level at which there is such a figure: ``INFO``, ``DEBUG`` or ``TRACE``."""
        return self.scope.split("/")[1] if self.is_own else level_of(self.scope, self.name)

    @property
    def is_own(self) -> bool:
        """Whether a processor of the user's records it (``context.metrics``)."""
        return self.scope.startswith(OWN)

    @property
    def is_of_kafka(self) -> bool:
        """Whether Kafka Streams 4.4 has it as well, under this name, group and tags; else only the texts know it."""
        return not self.is_own and self.name in OF_KAFKA[self.scope or "node"]

    @property
    def group(self) -> str:
        """The group that Kafka Streams has it in."""
        if self.is_own:
            return self.scope.split("/", 2)[2]
        if self.scope:
            return GROUPS[self.scope]
        if self._is_of_store:
            return f"stream-{self.reason}-state-metrics"
        return "stream-buffer-metrics" if self._is_of_buffer else "stream-processor-node-metrics"

    @property
    def tags(self) -> dict[str, str]:
        """The tags that Kafka Streams gives it; the loop that makes the commits is the application's one thread."""
        if self.scope or self.is_of_kafka:
            return {name: tag for name, tag in self._tags_of_kafka().items() if tag}
        node = "buffer-id" if self._is_of_buffer else "processor-node-id"
        if self._is_of_store:
            node = f"{self.reason}-state-id"
        every = {"client-id": self.client, "task-id": self.task, node: self.node}
        if not self._is_of_store:
            every["reason"] = self.reason
        return {name: tag for name, tag in every.items() if tag}

    def _tags_of_kafka(self) -> dict[str, str]:
        if self.scope == "client":
            return {"client-id": self.client}
        thread = f"{self.client}-StreamThread-1" if self.client else ""
        every = {"thread-id": thread, "task-id": self.task}
        if self.is_own:
            return every | dict(tag.split("=", 1) for tag in self.reason.split(",") if tag)
        if self.scope == "state":
            return every | {f"{self.reason}-state-id": self.node}
        return every | {"processor-node-id": self.node, "topic": self.reason}

    @property
    def _is_of_store(self) -> bool:
        return self.name.removesuffix(_RATE) in _OF_STORES or self.name.removesuffix(_TOTAL) in _OF_STORES

    @property
    def _is_of_buffer(self) -> bool:
        return self.name.startswith("suppression-buffer-")


def add_up(total: dict[str, int], labelled: Mapping[str, int]) -> None:
    """Add a commit's metrics to those of all earlier commits."""
    for label, figure in labelled.items():
        total[label] = combined(label, total[label], figure) if label in total else figure


def combined(name: str, before: int, now: int) -> int:
    """Combine a metric with another recording.

    >>> combined("record-lateness-max", 7, 5), combined("late-record-drop-total", 7, 5)
    (7, 12)
    """
    if name.endswith("-max"):
        return max(before, now)
    if name.endswith("-min"):
        return min(before, now)
    return now if name.endswith("-current") else before + now


def labelled(task: str, figures: Mapping[Metric, int]) -> dict[str, int]:
    """Return a task's metrics in the form of manifests."""
    return {
        f"{task}|{metric.node}|{metric.reason}|{metric.scope}{':' if metric.scope else ''}{metric.name}": figure
        for metric, figure in figures.items()
    }


def recorded(name: str, figures: IntArray) -> dict[str, int]:
    """Return the stored metrics of some recordings; empty without any.

    >>> import numpy as np
    >>> recorded("record-lateness", np.array([4, 0]))
    {'record-lateness-recordings': 2, 'record-lateness-sum': 4, 'record-lateness-min': 0, 'record-lateness-max': 4}
    """
    if not len(figures):
        return {}
    found = len(figures), int(figures.sum()), int(figures.min()), int(figures.max())
    return dict(zip((f"{name}{end}" for end in (_RECORDINGS, _SUM, "-min", "-max")), found, strict=True))


def readable(labelled: Mapping[str, int], client: str = "", level: str = "TRACE") -> dict[Metric, float]:
    """Return the metrics of a manifest up to a recording level, with averages.

    >>> readable({"0_0|source||record-lateness-sum": 9, "0_0|source||record-lateness-recordings": 2})
    {Metric(name='record-lateness-avg', node='source', reason='', task='0_0', client='', scope=''): 4.5}
    """
    found: dict[Metric, float] = {}
    for label, figure in labelled.items():
        metric = _of_label(label, client)
        value: float = figure
        name = metric.name
        if name.endswith(_SUM):
            name, value = name.removesuffix(_SUM) + _AVERAGE, figure / labelled[label.removesuffix(_SUM) + _RECORDINGS]
        elif metric.scope:
            name = name.removesuffix("-current")
        metric = metric._replace(name=name)
        if not name.endswith(_RECORDINGS) and is_recorded_at(level, metric.level) and _is_given(metric):
            found[_named(metric)] = value
    return found


def latencies_of(seconds: float) -> dict[str, int]:
    """Return a commit's latency for the next manifest, since a commit cannot contain its own.

    Args:
        seconds: from the end of its tasks until its results were visible.
    """
    took = round(seconds * 1000)
    return {f"{COMMIT_LATENCY}-sum": took, f"{COMMIT_LATENCY}-max": took, f"{COMMIT_LATENCY}-recordings": 1}


def figures_of(metrics: Mapping[str, int], observed: Mapping[str, int], level: str) -> dict[str, int]:
    """Return all metrics of a manifest, including those under Kafka Streams' names and the recording level.

    >>> figures_of({}, {}, "DEBUG")
    {'|||client:recording-level': 1}
    """
    return under_kafkas_names({**metrics, **observed}) | {"|||client:recording-level": RECORDING_LEVELS.index(level)}


def _of_label(label: str, client: str) -> Metric:
    task, node, reason, full = label.split("|")
    scope, _, name = full.rpartition(":")
    return Metric(name, node, reason, task, client, scope)


def _is_given(metric: Metric) -> bool:
    if metric.is_own:
        return not metric.name.endswith(_TOTAL_OF_RATE)
    return not metric.scope or metric.is_of_kafka


def _named(metric: Metric) -> Metric:
    """The metric as it is shown: one of the user's own without its ending."""
    return metric._replace(name=metric.name.partition("/")[0]) if metric.is_own else metric


def under_kafkas_names(labelled: Mapping[str, int]) -> dict[str, int]:
    """Return the metrics of a manifest, with those of Kafka Streams 4.4 that follow from the texts' metrics.

    >>> under_kafkas_names({"0_1|tens|null-key|dropped-records-total": 2, "0_1|fives||dropped-records-total": 3})[
    ...     "0_1|||task:dropped-records-total"
    ... ]
    5
    """
    more: dict[str, int] = {}
    for label, figure in labelled.items():
        task, node, _, name = label.split("|")
        if name == DROPPED or name.startswith(LATENESS):
            add_up(more, {f"{task}|||task:{name}": figure})
        elif name.startswith("suppression-buffer-"):
            more[f"{task}|{node}|in-memory-suppression|state:{name}"] = figure
        elif name in (f"task:{PROCESSED}", f"task:{PUNCTUATED}"):
            add_up(more, {f"|||thread:{name.removeprefix('task:')}": figure})
    return {**labelled, **more}


def total(figures: Mapping[Metric, float], name: str) -> float:
    """Return the sum of a counter over all nodes and tasks.

    >>> total({Metric("late-record-drop-total", "a"): 2, Metric("late-record-drop-total", "b"): 3}, LATE)
    5
    """
    return sum(figure for metric, figure in figures.items() if metric.name == name and not metric.scope)


class Rates:
    """The growth of a running application's totals per second, over the last half minute, by the wall clock.

    Args:
        labelled: the metrics at the start.
        now: the wall clock, in seconds.

    >>> seconds = iter([0.0, 10.0, 20.0])
    >>> rates = Rates({}, lambda: next(seconds))
    >>> rates.after(lambda: {"0_0|tens||late-record-drop-total": 5})
    >>> rates.readable({"0_0|tens||late-record-drop-total": 6})
    {Metric(name='late-record-drop-rate', node='tens', reason='', task='0_0', client='', scope=''): 0.3}
    """

    def __init__(self, labelled: Mapping[str, int], now: Callable[[], float] = time.monotonic):
        self._now = now
        self._looks = deque([(now(), _totals(labelled))])

    def after(self, labelled: Callable[[], Mapping[str, int]]) -> None:
        """Take the metrics after a commit, at most once a second."""
        now = self._now()
        if now - self._looks[-1][0] >= 1:
            self._looks.append((now, _totals(labelled())))
        while len(self._looks) > 1 and now - self._looks[1][0] >= RATE_SECONDS:
            self._looks.popleft()

    def readable(self, labelled: Mapping[str, int], client: str = "", level: str = "TRACE") -> dict[Metric, float]:
        """Return the rate of each total of a manifest, up to a recording level."""
        now = self._now()
        looks = list(self._looks)
        past = [look for look in looks if now - look[0] >= RATE_SECONDS]
        begin, before = past[-1] if past else looks[0]
        seconds = max(now - begin, 1.0)
        grown = {label: (figure - before.get(label, 0)) / seconds for label, figure in _totals(labelled).items()}
        rates = {_of_label(label, client): rate for label, rate in grown.items()}
        return {
            _rate_of(metric): rate
            for metric, rate in rates.items()
            if is_recorded_at(level, metric.level) and (_is_given(metric) or metric.is_own) and _has_rate(metric)
        }


def _has_rate(metric: Metric) -> bool:
    return metric.is_own or has_rate(metric.scope, metric.name)


def _rate_of(metric: Metric) -> Metric:
    return _named(metric) if metric.is_own else metric._replace(name=metric.name.removesuffix(_TOTAL) + _RATE)


def _totals(labelled: Mapping[str, int]) -> dict[str, int]:
    return {label: figure for label, figure in labelled.items() if label.endswith(_TOTAL)}
