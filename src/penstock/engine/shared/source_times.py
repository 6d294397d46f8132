"""Checks timestamps of sources: warns when the first records seem to use another unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from penstock.plan.node import Node
from penstock.plan.timestamps import Extractor
from penstock.plan.topology import Topology
from penstock.values.strange_times import SAY_UNIT, tell_of_strange_times

_IN_A_FIELD = SAY_UNIT.replace(" says", " where the source is read says")
_CARRIED = SAY_UNIT.replace(" says", " where they are produced says")


class SourceTimes:
    """Checks the stream time of each source once, after it has read its first records.

    Args:
        carried: whether to check the times that records carry, too.
    """

    def __init__(self, topology: Topology, carried: bool = True):
        parts = (part for sub in topology.sub_topologies for part in sub.parts if part.kind == "source")
        self._left = {
            part.name: part for part in parts if part.node.is_source and (carried or part.node.timestamp is not None)
        }

    def after(self, tasks: Iterable[Mapping[str, Mapping[str, int]]]) -> None:
        """Warn about implausible times of the sources that have been read for the first time.

        Args:
            tasks: the numbers of each task.
        """
        every = list(tasks) if self._left else []
        for name, part in list(self._left.items()):
            now = max((numbers.get(name, {}).get("stream_time", -1) for numbers in every), default=-1)
            if now < 0:
                continue
            del self._left[name]
            tell_of_strange_times(", ".join(part.topics), np.array([now]), _way_out(part.node))


def _way_out(source: Node) -> str:
    given = source.timestamp
    if given is None:
        return _CARRIED
    function = given.function if isinstance(given, Extractor) else given
    if not function.method:
        return _IN_A_FIELD
    return f"they seem to be {{name}}: have {function.name} at {function.location()} return milliseconds"
