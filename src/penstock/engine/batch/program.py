"""What a batch's tasks need to know; it travels to each of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from penstock.engine.batch.feed import RowsOf
from penstock.engine.shared.layout import Layout
from penstock.log.base import TopicInfo
from penstock.plan import nodes
from penstock.plan.topology import Topology
from penstock.serdes import BYTES, Serde
from penstock.settings import Settings

APPLICATION = "batch"
"""What processors hear as the application's id."""


@dataclass(frozen=True)
class Program:
    """What all stages have in common.

    Attributes:
        topics: all topics that the topology reads and writes.
        place: where the real log is; None where all input is DataFrames.
    """

    topology: Topology
    layout: Layout
    settings: Settings
    topics: tuple[TopicInfo, ...]
    place: Any


@dataclass(frozen=True)
class Range:
    """The offsets of a partition of a topic of the log."""

    start: int
    end: int


@dataclass(frozen=True)
class Stage:
    """One sub-topology.

    Attributes:
        inputs: the topics that come as rows; none where all are read from the log.
        ranges: what is read of topics of the log, by partition.
        sent: the topics that other stages read, with their numbers.
        stores: the stores whose rows are results.
    """

    sub: int
    inputs: tuple[RowsOf, ...]
    ranges: dict[str, tuple[Range, ...]]
    sent: dict[str, int]
    stores: tuple[str, ...]

    @property
    def name(self) -> str:
        """For people."""
        return str(self.sub)


@dataclass(frozen=True)
class Circling:
    """Sub-topologies that send to each other, all tasks of which run in one task of Spark."""

    stages: tuple[Stage, ...]

    @property
    def inputs(self) -> tuple[RowsOf, ...]:
        """The topics that come as rows."""
        return tuple(one for stage in self.stages for one in stage.inputs)

    @property
    def name(self) -> str:
        """For people."""
        return ", ".join(stage.name for stage in self.stages)


class TopicTypes:
    """The types of keys and values of the topics that a topology writes.

    Args:
        dead_letters: the topics of records that failed, which stay as they came.
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
        """Of one topic, which may have been chosen by record."""
        return self._known.get(topic, self._others)
