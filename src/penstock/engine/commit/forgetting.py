"""Removes files that no restart can need, some with each commit, so that no commit has to remove thousands.

These are exchange files without waiting records, delta files from before a task's last but one snapshot, and manifests
that lead to no kept one. A killed program leaves some of them; the next start finds them when it lists the files.
"""

from __future__ import annotations

from collections import deque

from penstock.engine.commit.needed import NeededManifests
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.engine.shared.starts import Starts
from penstock.storage.base import Storage, number_in

KEEP_MANIFESTS = 100
_AT_LEAST = 8
"""Files removed with each commit: this many, or twice as many as the commit makes, if that is more."""


class Forgetting:
    """Removes an application's obsolete files, commit by commit."""

    def __init__(self, storage: Storage, manifests: Manifests, starts: Starts):
        self._storage = storage
        self._manifests = manifests
        self._starts = starts
        self._old: deque[str] = deque()
        """Files to remove."""
        self._numbers: list[int] | None = None
        """Numbers of the existing manifests, ascending; None until they are first listed."""
        self._needed = NeededManifests(manifests)

    def after(self, before: Manifest, manifest: Manifest, exchange_files: set[str]) -> None:
        """Remove what a commit made obsolete, given the previous manifest and the exchange files of the commit."""
        for name in (exchange_files | waiting_files(before)) - waiting_files(manifest):
            self._storage.delete(name)
        for task, entry in manifest.tasks.items():
            old = before.tasks.get(task)
            if old is entry:
                continue
            self._needed.note(task, entry)
            if old is not None and entry.kept_since > old.kept_since:
                self._let_deltas_go(task, entry.kept_since)
        if self._numbers is not None:
            self._numbers.extend(range(before.commit + 1, manifest.commit + 1))
        if manifest.commit // KEEP_MANIFESTS > before.commit // KEEP_MANIFESTS:
            self._let_manifests_go(manifest)
        for _ in range(min(len(self._old), max(_AT_LEAST, 2 * len(manifest.tasks)))):
            self._storage.delete(self._old.popleft())

    def _let_deltas_go(self, task: str, until: int) -> None:
        for name in self._storage.list(f"deltas/{task}"):
            number = number_in(name)
            if number is not None and number <= until:
                self._old.append(name)

    def _let_manifests_go(self, manifest: Manifest) -> None:
        if self._numbers is None:
            self._numbers = self._manifests.numbers()
        recent = manifest.commit - KEEP_MANIFESTS
        needed = self._starts.reserved() | self._needed.of(manifest)
        gone = [one for one in self._numbers if one < recent and one not in needed]
        self._numbers = sorted(set(self._numbers).difference(gone))
        self._old.extend(self._manifests.name(one) for one in gone)


def waiting_files(manifest: Manifest) -> set[str]:
    """Return the files with records that wait in repartition topics."""
    return {ref.file.name for topics in manifest.waiting.values() for refs in topics.values() for ref in refs}
