"""A store as of one commit, and its sources: the newest version at each call, or always the same one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.query.position import Position
from penstock.state.store import StateStore


@dataclass(frozen=True)
class Version:
    """A store after a commit, in all tasks that have it."""

    commit: int
    """-1 before the first."""
    tasks: Mapping[str, Any]
    """The store of each task, by task name."""
    positions: Mapping[str, Position] = field(default_factory=dict)
    """The position up to which each task has read its input."""
    at: int = 0
    """When the commit was made, in milliseconds since 1970; 0 if unknown."""
    stores: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stores", tuple(self.tasks.values()))

    @property
    def position(self) -> Position:
        """The position up to which all tasks together have read their input."""
        return Position.merged(self.positions.values())


class Source(Protocol):
    """The source of a view."""

    def now(self) -> Version:
        """The store as it is now."""

    def pinned(self) -> Source:
        """The store as it is now, which will not change."""


class Pinned:
    """One version of a store."""

    def __init__(self, version: Version):
        self._version = version

    def now(self) -> Version:
        return self._version

    def pinned(self) -> Pinned:
        return self


class OnePartition:
    """One partition of a store."""

    def __init__(self, below: Source, partition: int):
        self.below = below
        self._partition = partition

    def now(self) -> Version:
        version = self.below.now()
        tasks = {task: store for task, store in version.tasks.items() if partition_of(task) == self._partition}
        positions = {task: version.positions[task] for task in tasks if task in version.positions}
        return Version(version.commit, tasks, positions, version.at)

    def pinned(self) -> OnePartition:
        return OnePartition(self.below.pinned(), self._partition)


def partition_of(task: str) -> int:
    """The partition of a task.

    >>> partition_of("0_2")
    2
    """
    return int(task.rpartition("_")[2])


class Live:
    """The stores of this process's own tasks, which show writes at once."""

    def __init__(self, stores: Mapping[str, StateStore], positions: Mapping[str, Position] | None = None):
        self._stores = stores
        self._positions = positions or {}

    def now(self) -> Version:
        return Version(0, self._stores, self._positions)

    def pinned(self) -> Pinned:
        return Pinned(Version(0, copy.deepcopy(dict(self._stores)), dict(self._positions)))
