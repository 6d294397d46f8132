"""The last commits of an application, as an observer has seen them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from penstock.engine.shared.manifest import Manifest
from penstock.errors import CorruptDataError
from penstock.metrics import PROCESSED
from penstock.query.commits import Commits

_RATE_SECONDS = 10.0
_MOST = 600
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


class History:
    """The last commits, for rates and charts of the last minutes.

    Args:
        sources: the input topics of the application.
    """

    def __init__(self, commits: Commits, sources: frozenset[str]):
        self._commits = commits
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
        for label, figure in manifest.observed.items():
            if label.endswith(f"|{PROCESSED}"):
                node = label.split("|", 2)[1]
                processed[node] = processed.get(node, 0) + figure
        return Seen(manifest.commit, manifest.at / 1000, read, processed)

    def rates(self) -> tuple[float, dict[str, float]]:
        """Records per second of wall-clock time over the last seconds: those read, and those that reached each step."""
        if not self._seen:
            return 0.0, {}
        now, newest = time.time(), self._seen[-1]
        seen = list(self._seen)
        since = now - _RATE_SECONDS
        place = max(bisect_left([one.at for one in seen], since) - 1, 0)
        before = seen[place]
        seconds = max(now - max(before.at, since), 1.0)
        rates = {
            name: max(count - before.processed.get(name, 0), 0) / seconds for name, count in newest.processed.items()
        }
        return max(newest.read - before.read, 0) / seconds, rates

    def commits(self, most: int) -> list[dict[str, float]]:
        """The last commits, the oldest first: number, time in ms, and records read in it."""
        seen = list(self._seen)[-most - 1 :]
        return [
            {"commit": one.commit, "at": int(one.at * 1000), "records": max(one.read - before.read, 0)}
            for before, one in pairwise(seen)
        ]
