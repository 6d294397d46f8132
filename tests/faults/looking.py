"""Holds what the stores of ``every_kind.py`` show, at both levels, against what is known of them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import program
from every_kind import COMMITTED, PARTITIONS, STORES, UNCOMMITTED, rows_of
from known import known, states

from penstock import ConfigError
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.query.application import ApplicationStores, open_stores
from penstock.storage.base import LocalStorage


class Looker:
    """Holds what stores show against what is known.

    Attributes:
        commits: the commits that were looked at, by store.
        ahead: how often rows beyond the newest commit were seen, by store.
    """

    def __init__(self, folder: Path, stores: ApplicationStores):
        self._storage = LocalStorage(folder / "state" / "checkpoint")
        self._count = int((folder / "log" / "count").read_text())
        self._stores = stores
        self.commits: dict[str, set[int]] = {name: set() for name in STORES}
        self.ahead: Counter[str] = Counter()

    def look(self) -> None:
        """Look at all stores at both levels."""
        for name in STORES:
            before = self.look_at_committed(name)
            self.look_at_uncommitted(name, before)

    def look_at_committed(self, name: str) -> dict[int, int]:
        """The state of a commit, in all partitions; how many records of each are in it."""
        with self._stores.view(name, COMMITTED).snapshot() as now:
            offsets = now.position().partitions(program.INPUT)
            counts = {partition: offsets.get(partition, -1) + 1 for partition in range(PARTITIONS)}
            for partition, count in counts.items():
                found = rows_of(name, now.of_partition(partition)) if count else set()
                expected = known(name, partition, count)
                assert found == expected, f"{name}, commit {now.commit}, {count}: {different(found, expected)}"
            assert counts == self._counts_of(now.commit, counts), f"{name}: no state at commit {now.commit}"
            self.commits[name].add(now.commit)
        return counts

    def _counts_of(self, commit: int, if_gone: dict[int, int]) -> dict[int, int]:
        """How far a commit is; the manifests of old ones are removed."""
        try:
            manifest: Manifest = Manifests(self._storage).read(commit)
        except FileNotFoundError:
            return if_gone
        tasks = {name: entry.offsets for name, entry in manifest.tasks.items()}
        return {p: tasks.get(f"0_{p}", {}).get(program.INPUT, 0) for p in range(PARTITIONS)}

    def look_at_uncommitted(self, name: str, before: dict[int, int]) -> bool:
        """A state at a commit or behind it; whether somebody could be asked."""
        try:
            view = self._stores.view(name, UNCOMMITTED)
        except ConfigError:  # it does not run
            return False
        for partition, at_least in before.items():
            found = rows_of(name, view.of_partition(partition))
            fitting = [n for n, expected in states(name, partition, at_least, self._count) if expected == found]
            assert fitting, (
                f"{name}, partition {partition}: no state from {at_least} on: "
                f"{different(found, known(name, partition, at_least))}"
            )
            offsets = self._stores.view(name, COMMITTED).position().partitions(program.INPUT)
            self.ahead[name] += fitting[0] > offsets.get(partition, -1) + 1
        return True

    def shows(self, name: str, count: int) -> bool:
        """Whether the uncommitted rows of a store are those after so many records of each partition."""
        view = self._stores.view(name, UNCOMMITTED)
        partitions = range(PARTITIONS)
        return all(rows_of(name, view.of_partition(p)) == known(name, p, count) for p in partitions)


def different(found: set[Any], expected: set[Any]) -> str:
    return f"{sorted(map(str, found - expected))[:5]} in place of {sorted(map(str, expected - found))[:5]}"


def read(folder: Path) -> None:
    """Look again and again, from a process of its own."""
    done = folder / "done"
    while Manifests(LocalStorage(folder / "state" / "checkpoint")).newest() is None:
        time.sleep(0.05)
    stores = open_stores(folder / "state")
    looker = Looker(folder, stores)
    is_last = False
    while not is_last:
        is_last = done.exists()
        looker.look()
    stores.close()
    print(min(map(len, looker.commits.values())), looker.ahead.total(), flush=True)
