"""The last commits of an application, as an observer has seen them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from penstock.engine.shared.manifest import Manifest
from penstock.errors import CorruptDataError
from penstock.figures.metrics import E2E_LATENCY, PROCESSED
from penstock.query.commits import Commits

_RATE_SECONDS = 10.0
_MOST = 600
_OF_LATENCY = (f"{E2E_LATENCY}-sum", f"{E2E_LATENCY}-recordings")
_FIRST_LOOK = 40
"""How many of the commits before the first look are read."""


class Seen(NamedTuple):
    """One commit."""

    commit: int
    at: float
    """Wall-clock time in seconds."""
    read: int
    """Records read from topics so far."""
    processed: dict[str, int]
    """Records that reached each step so far."""
    latency_ms: int
    """The sum of the latencies of all results so far."""
    results: int
    """The number of these results."""


class History:
    """The last commits, for rates and charts of the last minutes.

    Args:
        sources: the input topics of the application.
        ends: the steps at which records leave it: its sinks, or its sources if it has no sinks.
    """

    def __init__(self, commits: Commits, sources: frozenset[str], ends: frozenset[str] = frozenset()):
        self._commits = commits
        self._ends = ends
        self._sources = sources
        self._seen: deque[Seen] = deque(maxlen=_MOST)

    def note(self, newest: Manifest) -> None:
        """Take note of the newest commit."""
        if not self._seen:
            self._look_back(newest)
        elif newest.commit != self._seen[-1].commit:
            self._seen.append(self._noted(newest))

    def _look_back(self, newest: Manifest) -> None:
        numbers = [number for number in self._commits.manifests.numbers() if number < newest.commit]
        for number in numbers[-_FIRST_LOOK:]:
            try:
                self._seen.append(self._noted(self._commits.manifests.read(number)))
            except CorruptDataError:  # or it has been removed since
                continue
        self._seen.append(self._noted(newest))

    def _noted(self, manifest: Manifest) -> Seen:
        read = sum(
            offset
            for entry in manifest.tasks.values()
            for topic, offset in entry.offsets.items()
            if topic in self._sources
        )
        processed: dict[str, int] = {}
        latency = dict.fromkeys(_OF_LATENCY, 0)
        for label, figure in manifest.observed.items():
            _, node, _, name = label.split("|")
            if name == PROCESSED:
                processed[node] = processed.get(node, 0) + figure
            elif name in latency and node in self._ends:
                latency[name] += figure
        return Seen(manifest.commit, manifest.at / 1000, read, processed, *latency.values())

    def latency(self) -> float | None:
        """The average time from a record's timestamp until its result was written, in ms, over the last seconds; None
        if no result was written."""
        if not self._seen:
            return None
        before, newest = self._before(time.time() - _RATE_SECONDS), self._seen[-1]
        results = newest.results - before.results
        return (newest.latency_ms - before.latency_ms) / results if results > 0 else None

    def rates(self) -> tuple[float, dict[str, float]]:
        """Records per second of wall-clock time over the last seconds: those read, and those that reached each step."""
        if not self._seen:
            return 0.0, {}
        now, newest = time.time(), self._seen[-1]
        since = now - _RATE_SECONDS
        before = self._before(since)
        seconds = max(now - max(before.at, since), 1.0)
        rates = {
            name: max(count - before.processed.get(name, 0), 0) / seconds for name, count in newest.processed.items()
        }
        return max(newest.read - before.read, 0) / seconds, rates

    def _before(self, since: float) -> Seen:
        """The last commit before a time; the first one seen if that is older than all."""
        seen = list(self._seen)
        return seen[max(bisect_left([one.at for one in seen], since) - 1, 0)]

    def commits(self, most: int) -> list[dict[str, float]]:
        """The last commits, the oldest first: number, time in ms, and records read in it."""
        seen = list(self._seen)[-most - 1 :]
        return [
            {"commit": one.commit, "at": int(one.at * 1000), "records": max(one.read - before.read, 0)}
            for before, one in pairwise(seen)
        ]
