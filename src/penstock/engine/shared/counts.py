"""How many partitions the topics of DataFrames and sources get."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.log.base import Log
from penstock.plan.topology import Topology

PARTITIONS = 8
"""The default number. It is fixed, so that a batch gives the same results anywhere."""


def counts_of(topology: Topology, sources: Iterable[str], log: Log | None, count: int | None) -> dict[str, int]:
    """Return the partition counts of some topics: those of the log's topics that they are joined with."""
    counts = dict.fromkeys(sources, count or PARTITIONS)
    for copartition in topology.copartitions if log is not None and count is None else ():
        assert log is not None
        of_log = [
            log.topic(topic).partitions for topic in copartition.topics if topic not in counts and log.exists(topic)
        ]
        for topic in copartition.topics:
            if topic in counts and of_log:
                counts[topic] = of_log[0]
    return counts
