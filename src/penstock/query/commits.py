"""The commits of an application as readers see them: those of this process, or those in a checkpoint."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.shared.children import Child, children_of
from penstock.engine.shared.formats import StoreFormat, formats_of
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.engine.shared.moved import Moved, last_moved
from penstock.engine.shared.starts import Start, Starts
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.topology import Topology
from penstock.serdes import Serde, from_name
from penstock.storage.base import Storage

_SETTLED_SECONDS = 0.05
"""For how long after a change a folder's modification time may miss further changes."""


@dataclass(frozen=True)
class StoreShape:
    """The kind of a store, and the types of its keys and values."""

    name: str
    format: StoreFormat
    key: Serde
    value: Serde


class Committing(Protocol):
    """The source of commits: an application of this process, or its checkpoint as it was read."""

    @property
    def topology(self) -> Topology: ...

    @property
    def storage(self) -> Storage: ...

    @property
    def manifests(self) -> Manifests: ...

    @property
    def manifest(self) -> Manifest: ...

    @property
    def moved(self) -> Moved | None:
        """Notes when it moves; None if its checkpoint says so."""


class Commits(ABC):
    """Finds the newest commit, and the application's stores."""

    storage: Storage
    manifests: Manifests
    _last: tuple[tuple[str, str], Start] | None = None
    """The start that was read last, by its file and its application: such files never change."""

    @abstractmethod
    def newest(self) -> Manifest:
        """The newest commit; raises ``ConfigError`` before the first one."""

    @abstractmethod
    def is_newest(self, commit: int) -> bool:
        """True if a commit that was the newest still is; cheap."""

    @abstractmethod
    def shapes(self, manifest: Manifest) -> dict[str, StoreShape]:
        """All stores as of a commit."""

    def moved_at(self, newest: Manifest) -> int:
        """When the application last moved, with its newest commit or after it, in ms."""
        return max(newest.at, last_moved(self.storage))

    def children(self) -> tuple[Child, ...]:
        """The queries of Spark that belong to the program, as it wrote them down last."""
        return children_of(self.storage)

    def start_of(self, manifest: Manifest) -> Start | None:
        """The start to which a commit belongs; None in checkpoints of earlier releases."""
        if not manifest.start:
            return None
        key = manifest.start, manifest.application
        last = self._last
        if last is None or last[0] != key:
            last = self._last = key, Starts(self.storage).read(*key)
        return last[1]

    def shape(self, name: str, manifest: Manifest) -> StoreShape:
        """One store; raises ``ConfigError`` if it does not exist."""
        return shape_named(name, self.shapes(manifest))


class OwnCommits(Commits):
    """The commits of an application whose topology is available."""

    def __init__(self, committing: Committing):
        self._committing = committing
        self.storage = committing.storage
        self.manifests = committing.manifests
        self._shapes = shapes_of(committing.topology)

    def newest(self) -> Manifest:
        return self._committing.manifest

    def is_newest(self, commit: int) -> bool:
        return self._committing.manifest.commit == commit

    def moved_at(self, newest: Manifest) -> int:
        moved = self._committing.moved
        return super().moved_at(newest) if moved is None else max(newest.at, moved.at)

    def shapes(self, manifest: Manifest) -> dict[str, StoreShape]:
        return self._shapes


class StoredCommits(Commits):
    """The commits in a checkpoint, whichever process makes them.

    Args:
        storage: the checkpoint's.
        max_age: how many seconds the newest commit counts as the newest without a new check.
    """

    def __init__(self, storage: Storage, max_age: float = 0.0):
        self.storage = storage
        self.manifests = Manifests(storage)
        self._max_age = max_age
        self._looked_at = 0.0
        self._number = -1
        """The number of the newest commit at the last check."""
        self._changed_at: int | None = None
        self._seen_at = 0.0
        """When it was first seen, by this process's clock: the folder's clock may be another machine's."""
        self._is_settled = False
        self._known: tuple[str, dict[str, StoreShape]] = ("", {})

    def newest(self) -> Manifest:
        number = self._look()
        if number < 0:
            raise no_commit(self.storage)
        return self.manifests.read(number)

    def is_newest(self, commit: int) -> bool:
        if self._max_age and time.monotonic() - self._looked_at < self._max_age:
            return self._number == commit
        if self._is_settled and self.manifests.changed_at() == self._changed_at:
            return self._number == commit
        return self._look() == commit

    def _look(self) -> int:
        """Find the number of the newest commit."""
        changed_at = self.manifests.changed_at()
        now = self._looked_at = time.monotonic()
        if changed_at != self._changed_at:
            self._changed_at, self._seen_at = changed_at, now
        self._is_settled = changed_at is not None and now - self._seen_at > _SETTLED_SECONDS
        numbers = self.manifests.numbers()
        self._number = numbers[-1] if numbers else -1
        return self._number

    def shapes(self, manifest: Manifest) -> dict[str, StoreShape]:
        name, known = self._known
        if name != manifest.start:
            start = self.start_of(manifest)
            formats = {} if start is None else start.stores
            known = {name: _shape(name, format_) for name, format_ in formats.items() if format_.is_known}
            self._known = manifest.start, known
        return known

    def shape(self, name: str, manifest: Manifest) -> StoreShape:
        if not self.shapes(manifest) and ((start := self.start_of(manifest)) is None or start.topology is None):
            raise ConfigError(
                f"the checkpoint {self.storage.shown} does not describe its stores: an earlier version wrote it. Start "
                "the application once with this version"
            )
        return super().shape(name, manifest)


def shapes_of(topology: Topology) -> dict[str, StoreShape]:
    """The stores of a topology that can be read from outside, by name."""
    specs = topology.facts.named()
    return {name: StoreShape(name, format_, *specs[name].types) for name, format_ in formats_of(topology).items()}


def shape_named(name: str, known: dict[str, StoreShape]) -> StoreShape:
    """The store with a name; raises ``ConfigError`` if it does not exist."""
    if not isinstance(name, str) or name not in known:
        there = f"the stores are {', '.join(known)}" if known else "the application has no stores"
        raise ConfigError(f"there is no store {show(name)}; {there}")
    return known[name]


def no_commit(storage: Storage) -> ConfigError:
    """The error for a place without any commit."""
    return ConfigError(
        f"there is no commit in {storage.shown}: the application has not processed anything yet, or its state is in "
        "another folder"
    )


class AtCommit(StoredCommits):
    """The commits in a checkpoint up to a given one."""

    def __init__(self, storage: Storage, commit: int):
        super().__init__(storage)
        self._commit = commit

    def newest(self) -> Manifest:
        return self.manifests.read(self._commit)

    def is_newest(self, commit: int) -> bool:
        return commit == self._commit


def _shape(name: str, format_: StoreFormat) -> StoreShape:
    return StoreShape(name, format_, from_name(format_.key), from_name(format_.value))
