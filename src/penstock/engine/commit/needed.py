"""Which manifests may still be needed: those of commits in which tasks took part since their snapshots.

A restore goes back from the newest manifest, task by task (``Manifests.chain``). This module remembers the chain as
commits are made, so it is not read again. The part from before this start is read once, each manifest for all tasks.
"""

from __future__ import annotations

from collections import deque

from penstock.engine.shared.manifest import Manifest, Manifests, TaskEntry


class NeededManifests:
    """The needed manifests of one application, tracked from its start."""

    def __init__(self, manifests: Manifests):
        self._manifests = manifests
        self._commits: dict[str, deque[int]] = {}
        """By task, the commits in which it took part since its snapshot, oldest first."""

    def note(self, task: str, entry: TaskEntry) -> None:
        """Record that a task took part in a commit."""
        known = self._commits.get(task)
        if known and known[-1] == entry.previous:
            known.append(entry.changed)

    def of(self, manifest: Manifest) -> set[int]:
        """Return the commits whose manifests the newest one needs. Raise ``CorruptDataError`` if one is missing."""
        self._read_unknown(manifest)
        needed: set[int] = set()
        for task, entry in manifest.tasks.items():
            known = self._commits[task]
            while known and known[0] <= entry.kept_since:
                known.popleft()
            needed.update(known)
        return needed

    def _read_unknown(self, newest: Manifest) -> None:
        """Read the chains of all tasks whose chain is unknown, together."""
        behind: dict[int, list[str]] = {}
        for task, entry in newest.tasks.items():
            if self._end_of(task) != (entry.changed if entry.changed > entry.kept_since else -1):
                self._commits[task] = deque()
                self._take(task, entry, entry.kept_since, behind)
        while behind:
            tasks = behind.pop(commit := max(behind))
            there = self._manifests.read(commit)
            for task in tasks:
                entry = self._manifests.link(there, task)
                self._take(task, entry, newest.tasks[task].kept_since, behind)

    def _end_of(self, task: str) -> int | None:
        known = self._commits.get(task)
        return None if known is None else (known[-1] if known else -1)

    def _take(self, task: str, entry: TaskEntry, after: int, behind: dict[int, list[str]]) -> None:
        if entry.changed > after:
            self._commits[task].appendleft(entry.changed)
            if entry.previous > after:
                behind.setdefault(entry.previous, []).append(task)
