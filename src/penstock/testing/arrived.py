"""What reached the steps of a topology that have windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from penstock.batch import Batch
from penstock.errors import ConfigError
from penstock.ops.windows.cogroup import SidedColumn
from penstock.plan.nodes import WindowedAggregate
from penstock.plan.topology import Topology
from penstock.testing.timeline import Arrival, Timeline, timeline_of

_MOST = 100_000
"""How many records, or batches of them, are remembered of each step: the last ones."""


class Arrived:
    """Remembers the records that reached steps with windows, in order."""

    def __init__(self, topology: Topology):
        steps = [node for node in topology.nodes if isinstance(node, WindowedAggregate)]
        self._nodes = {node.name: node for node in steps}
        self._came: dict[str, deque[Batch]] = {name: deque(maxlen=_MOST) for name in self._nodes}

    def note(self, name: str, batch: Batch) -> None:
        """Remember what reached a step."""
        if name in self._came:
            self._came[name].append(batch)

    def timelines(
        self, key: Any, node: str | None = None, is_near: Callable[[Any], bool] = lambda key: True
    ) -> list[Timeline]:
        """A key's records in all steps, or in one; raises ``ConfigError`` where there is no such step."""
        if node is not None and node not in self._nodes:
            there = f"these have: {', '.join(self._nodes)}" if self._nodes else "this topology has none that does"
            raise ConfigError(f"no step named {node!r} aggregates in windows; {there}")
        names = list(self._nodes) if node is None else [node]
        return [timeline_of(self._nodes[name], self._arrivals(name), key, is_near) for name in names]

    def _arrivals(self, name: str) -> Iterator[Arrival]:
        for batch in self._came[name]:
            keys, values, sides = batch.key.decoded(), batch.value.decoded(), [0] * len(batch)
            if isinstance(batch.value, SidedColumn):
                sides, values = [side for side, _ in values], [value for _, value in values]
            yield from zip(keys, values, batch.timestamp.tolist(), sides, strict=True)
