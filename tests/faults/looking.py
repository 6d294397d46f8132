"""Holds what the stores of ``every_kind.py`` show, at both levels, against what is known of them."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import program
from every_kind import COMMITTED, GLOBAL, PARTITIONS, STORES, UNCOMMITTED, USERS, rows_of
from known import known, states

from penstock import ConfigError
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.query.application import ApplicationStores, open_stores
from penstock.storage.base import LocalStorage


class Looker:
    """Holds what stores show against what is known.

    Attributes:
        commits: the commits that were looked at, by store.
        asked: how often a running program was asked for what is not committed, by store.
        ahead: how often rows beyond the newest commit were seen, by store.
    """

    def __init__(self, folder: Path, stores: ApplicationStores):
        self._storage = LocalStorage(folder / "state" / "checkpoint")
        self._count = int((folder / "log" / "count").read_text())
        self._stores = stores
        self.commits: dict[str, set[int]] = {name: set() for name in (*STORES, *GLOBAL)}
        self.asked: Counter[str] = Counter()
        self.ahead: Counter[str] = Counter()
        self.everywhere = dict.fromkeys(GLOBAL, (-1, 0))
        """The newest commit of each global table that was looked at, and its rows then."""

    def look(self) -> None:
        """Look at all stores at both levels."""
        for name in STORES:
            before = self.look_at_committed(name)
            self.look_at_uncommitted(name, before)
        for name in GLOBAL:
            self.look_at_global(name)

    def look_at_global(self, name: str) -> None:
        """A state of the topic, at both levels: none is older than one that was seen before."""
        with self._stores.view(name, COMMITTED).snapshot() as now:
            count, commit = count_of_global(name, now), now.commit
        assert count >= self.everywhere[name][1], f"{name}, commit {commit}: {count} after {self.everywhere[name]}"
        self.everywhere[name] = commit, count
        self.commits[name].add(commit)
        try:
            view = self._stores.view(name, UNCOMMITTED)
        except ConfigError:  # it does not run
            return
        assert count_of_global(name, view) >= count, f"{name}: uncommitted rows are older than commit {commit}"
        self.asked[name] += 1

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
            self.asked[name] += 1
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


def count_of_global(name: str, view: Any) -> int:
    """How many records of its topic are in a global table."""
    rows = {(key, value, time) for key, value, time in view.all()}
    count = max((time for *_, time in rows), default=-1) + 1
    assert rows == {(f"g{n % USERS}", n, n) for n in range(max(count - USERS, 0), count)}, f"{name}: {rows}"
    return count


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
    told = {name: (len(found), looker.asked[name], looker.ahead[name]) for name, found in looker.commits.items()}
    print(json.dumps(told), flush=True)
