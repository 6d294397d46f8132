"""Sessions as Kafka Streams' text has them, record by record and as plainly as can be, to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Session = tuple[int, int, Any]
"""End, start and aggregate."""


@dataclass
class Reference:
    """Processes records; ``updates`` are (key, start, end, new), ``late`` and ``not_stored`` numbers of records.

    Args:
        fold: gives the aggregate of a value and the aggregates of the sessions that it joins.
        refused_before: what the store refuses at a stream time, and does not just hide.
    """

    gap: int
    grace: int
    retention: int
    fold: Callable[[Any, list[Any]], Any]
    refused_before: Callable[[int], int]
    live: dict[str, list[Session]] = field(default_factory=dict)
    updates: list[tuple[str, int, int, Any]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    not_stored: list[int] = field(default_factory=list)
    stream_time: int = -1
    records: int = 0

    def process(self, key: str, value: Any, time: int) -> None:
        visible_from = self.stream_time - self.retention + 1
        self.stream_time = max(self.stream_time, time)
        live = self.live.setdefault(key, [])
        low, high = max(time - self.gap, visible_from), time + self.gap
        found = [session for session in live if session[0] >= low and session[1] <= high]
        start = min([time, *(session[1] for session in found)])
        end = max([time, *(session[0] for session in found)])
        if end < self.stream_time - self.grace - self.gap:
            self.late.append(self.records)
        else:
            aggregate = self.fold(value, [session[2] for session in found])
            for session in found:
                live.remove(session)
                if start < end:
                    self.updates.append((key, session[1], session[0], None))
            self.updates.append((key, start, end, aggregate))
            if end < self.refused_before(self.stream_time):
                self.not_stored.append(self.records)
            if end > self.stream_time - self.retention:
                live[:] = sorted([*(other for other in live if other[:2] != (end, start)), (end, start, aggregate)])
        self.records += 1
