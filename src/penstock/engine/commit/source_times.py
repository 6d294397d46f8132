"""Checks the times that records carry: warns when the first ones seem to use another unit."""

from __future__ import annotations

import numpy as np

from penstock.engine.shared.manifest import Manifest
from penstock.plan.topology import Topology
from penstock.values.strange_times import tell_of_strange_times

_CARRIED = 'timestamp_unit="{unit}" where they are produced says that they are in {name}'


class SourceTimes:
    """Checks the stream time of each source once, after it has read its first records.

    The operator of a source that takes times from fields or functions checks these itself.
    """

    def __init__(self, topology: Topology):
        parts = (part for sub in topology.sub_topologies for part in sub.parts if part.kind == "source")
        self._left = {p.name: p for p in parts if p.node.is_source and p.node.timestamp is None}

    def after(self, manifest: Manifest) -> None:
        """Warn about implausible times of the sources that were first read in this commit."""
        for name, part in list(self._left.items()):
            now = max((one.numbers.get(name, {}).get("stream_time", -1) for one in manifest.tasks.values()), default=-1)
            if now < 0:
                continue
            del self._left[name]
            tell_of_strange_times(", ".join(part.topics), np.array([now]), _CARRIED)
