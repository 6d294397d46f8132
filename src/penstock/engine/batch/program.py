"""The program of a batch's tasks, which is sent to each of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from penstock.engine.batch.feed import RowsOf
from penstock.engine.shared.layout import Layout, TaskId
from penstock.engine.shared.manifest import TaskEntry
from penstock.log.base import TopicInfo
from penstock.plan import nodes
from penstock.plan.topology import Topology
from penstock.serdes import BYTES, Serde
from penstock.settings import Settings

APPLICATION = "batch"
"""The application id that processors see if the batch belongs to no application."""


@dataclass(frozen=True)
class Continuation:
    """The application whose next commit the batch is.

    Attributes:
        storage: the URL of its checkpoint.
        identity: the identity of the checkpoint.
        commit: the number of the commit.
        attempt: the name of the attempt at it, with which the names of all files start.
        entries: the position of each task.
        to_topics: whether the output goes into the topics of the log; otherwise it is returned.
    """

    storage: str
    identity: str
    commit: int
    attempt: str
    entries: dict[str, TaskEntry]
    to_topics: bool

    def entry(self, task: TaskId) -> TaskEntry:
        """Return a task's position; that of a new task if it has done nothing yet."""
        return self.entries.get(str(task), TaskEntry())


@dataclass(frozen=True)
class Program:
    """The common part of all stages.

    Attributes:
        topics: all topics that the topology reads and writes.
        place: where the real log is; None if all input is DataFrames.
        continuation: the application that the batch continues, if any.
    """

    topology: Topology
    layout: Layout
    settings: Settings
    topics: tuple[TopicInfo, ...]
    place: Any
    continuation: Continuation | None = None

    def turn(self, number: int) -> tuple[int, str]:
        """Return the commit and the attempt of a task's local commit. Its memory decides how many it needs."""
        if self.continuation is None:
            return number, f"batch-{number}"
        return self.continuation.commit, f"{self.continuation.attempt}{f'x{number}' if number else ''}"


@dataclass(frozen=True)
class Range:
    """The offsets of a partition of a topic of the log."""

    start: int
    end: int


@dataclass(frozen=True)
class Stage:
    """One sub-topology.

    Attributes:
        inputs: the topics that come as rows; empty if all are read from the log.
        ranges: the offsets to read from topics of the log, by partition.
        sent: the topics that other stages read, with their numbers.
        stores: the stores whose rows are results.
        is_packed: whether the topics that come as rows come in blocks, because other stages send all of them.
    """

    sub: int
    inputs: tuple[RowsOf, ...]
    ranges: dict[str, tuple[Range, ...]]
    sent: dict[str, int]
    stores: tuple[str, ...]
    is_packed: bool = False

    @property
    def name(self) -> str:
        """The name shown to users."""
        return str(self.sub)


@dataclass(frozen=True)
class CyclicStage:
    """Sub-topologies that send to each other, all of whose tasks run in one Spark task."""

    stages: tuple[Stage, ...]

    @property
    def inputs(self) -> tuple[RowsOf, ...]:
        """The topics that come as rows."""
        return tuple(one for stage in self.stages for one in stage.inputs)

    @property
    def name(self) -> str:
        """The name shown to users."""
        return ", ".join(stage.name for stage in self.stages)


class TopicTypes:
    """The types of keys and values of the topics that a topology writes.

    Args:
        dead_letters: the topics of failed records, which keep their bytes.
    """

    def __init__(self, topology: Topology, dead_letters: Collection[str]):
        chosen = next(iter(topology.dynamic_sinks), None)
        self._known: dict[str, tuple[Serde, Serde]] = dict.fromkeys(dead_letters, (BYTES, BYTES))
        self._others = (BYTES, BYTES) if chosen is None else (chosen.key, chosen.value)
        for part in (part for sub in topology.sub_topologies for part in sub.parts):
            if isinstance(part.node, nodes.Sink):
                for topic in part.topics:
                    self._known.setdefault(topic, (part.node.key, part.node.value))

    def of(self, topic: str) -> tuple[Serde, Serde]:
        """Return the types of one topic, which may have been chosen record by record."""
        return self._known.get(topic, self._others)
