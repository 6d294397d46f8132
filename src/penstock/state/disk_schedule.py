"""Decides when a task's committed rows go to its database, and when the database is published as a snapshot.

A restart reads the commits since the last flush, and another machine reads those since the last snapshot: a manifest
and a delta file for each. So both are bounded by the number of commits and by their bytes. A time limit covers programs
that commit rarely.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.settings import StateSettings


class DiskSchedule:
    """Counts the changes that are only in delta files.

    Args:
        now: a monotonic clock, in seconds.

    >>> schedule = DiskSchedule(StateSettings(flush_commits=2, snapshot_commits=2, snapshot_bytes=100))
    >>> schedule.committed(60), schedule.is_flush_due()
    (None, False)
    >>> schedule.committed(60), schedule.is_flush_due(), schedule.is_snapshot_due(commits=1)
    (None, True, True)
    """

    def __init__(self, settings: StateSettings, now: Callable[[], float] = time.monotonic):
        self._settings = settings
        self._now = now
        self._commits = 0
        self._bytes = 0
        self._first_unflushed: float | None = None
        self._first_unpublished: float | None = None

    @property
    def unpublished_bytes(self) -> int:
        """The bytes of delta files since the last snapshot."""
        return self._bytes

    def begin(self, unpublished_bytes: int) -> None:
        """Continue from a database, with this many bytes of delta files since the last snapshot."""
        self._bytes = unpublished_bytes

    def committed(self, delta_bytes: int) -> None:
        """Count another commit."""
        self._commits += 1
        self._bytes += delta_bytes
        if self._first_unflushed is None:
            self._first_unflushed = self._now()
        if self._first_unpublished is None:
            self._first_unpublished = self._now()

    def flushed(self) -> None:
        """Note that all commits are in the database."""
        self._commits, self._first_unflushed = 0, None

    def published(self) -> None:
        """Note that a snapshot has all commits."""
        self._bytes, self._first_unpublished = 0, None

    def is_flush_due(self) -> bool:
        """True if many commits, or old ones, are not in the database."""
        return self._commits >= self._settings.flush_commits or self._has_passed(
            self._first_unflushed, self._settings.flush_interval
        )

    def is_snapshot_due(self, commits: int) -> bool:
        """True if many changes, or old ones, are in no snapshot.

        Args:
            commits: how many commits of the application the last snapshot is behind the newest one.
        """
        limits = self._settings
        return (
            commits >= limits.snapshot_commits
            or self._bytes >= limits.snapshot_bytes
            or self._has_passed(self._first_unpublished, limits.snapshot_interval)
        )

    def _has_passed(self, since: float | None, milliseconds: int) -> bool:
        return since is not None and (self._now() - since) * 1000 >= milliseconds
