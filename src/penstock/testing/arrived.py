"""Records that reached the steps with windows or deduplication, and what the engine did with them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.columns.batch import Batch
from penstock.errors import ConfigError
from penstock.ops.core.seen import CLOSED, DUPLICATE, GONE, TAKEN, Seen
from penstock.ops.windows.cogroup import SidedColumn
from penstock.plan.nodes import Deduplicate, WindowedAggregate
from penstock.plan.topology import Topology
from penstock.plan.windows import SessionWindows
from penstock.testing.timeline import Came, Timeline, Window

_MOST = 200_000
"""How many batches of records, and of results of them, are remembered of each step: the last ones."""


@dataclass
class _Record:
    """A record of the key, and the windows by what the step did with it."""

    timestamp: int
    value: Any
    stream_time: int
    windows: dict[int, set[Window]] = field(default_factory=lambda: {TAKEN: set(), CLOSED: set(), GONE: set()})
    is_duplicate: bool = False
    cause: int = 0

    def came(self, is_in_windows: bool) -> Came:
        if not is_in_windows:
            goes_on = bool(self.windows[TAKEN])
            fate = self.is_duplicate, goes_on, self.cause
            return Came(self.timestamp, self.value, self.stream_time, (), (), *fate)
        taken, closed = (tuple(sorted(self.windows[fate])) for fate in (TAKEN, CLOSED))
        return Came(self.timestamp, self.value, self.stream_time, taken, closed, cause=self.cause)


class Arrived:
    """Remembers the records that reached such steps, and the steps' results, in order.

    Args:
        cause: returns the number of records that were piped one by one so far.
    """

    def __init__(self, topology: Topology, cause: Callable[[], int]):
        self._cause = cause
        self._nodes = {node.name: node for node in topology.nodes if isinstance(node, WindowedAggregate | Deduplicate)}
        self._events: dict[str, deque[tuple[int, Batch | Seen]]] = {name: deque(maxlen=_MOST) for name in self._nodes}
        self._counts: Counter[str] = Counter()

    def note(self, name: str, event: Batch | Seen) -> None:
        """Remember a batch that reached a step, or the step's result."""
        if name in self._events:
            self._events[name].append((self._cause(), event))
            self._counts[name] += 1

    def saw(self, seen: Seen) -> None:
        """Remember what a step did with records that reached it."""
        self.note(seen.step, seen)

    def mark(self) -> Counter[str]:
        """Return a mark that ``forget`` can return to."""
        return self._counts.copy()

    def forget(self, mark: Counter[str]) -> None:
        """Forget everything since the mark: it was rolled back."""
        for name, events in self._events.items():
            for _ in range(min(self._counts[name] - mark[name], len(events))):
                events.pop()
        self._counts = mark

    def timelines(self, key: Any, node: str | None = None) -> list[Timeline]:
        """Return a key's records in all steps, or in one; raises ``ConfigError`` if the step does not exist."""
        if node is not None and (not isinstance(node, str) or node not in self._nodes):
            there = f"they are: {', '.join(self._nodes)}" if self._nodes else "this topology has none"
            raise ConfigError(f"{node!r} is not a step that aggregates in windows; {there}")
        return [self._timeline(name, key) for name in (self._nodes if node is None else [node])]

    def _timeline(self, name: str, key: Any) -> Timeline:
        records: list[_Record] = []
        arrived: dict[tuple[int, ...], _Record] = {}
        now = -1
        for cause, event in self._events[name]:
            if isinstance(event, Batch):
                arrived = dict(_of_key(event, key, now, cause))
                records += arrived.values()
            else:
                now = max(now, *event.times.tolist())
                _tell(event, arrived)
        node, spans = self._nodes[name], dict[Window, None]()
        for record in records:
            for window in record.windows[GONE]:
                spans.pop(window, None)
            spans |= dict.fromkeys(sorted(record.windows[TAKEN]))
        if isinstance(node, Deduplicate):
            return Timeline(name, key, 0, now, tuple(record.came(False) for record in records))
        windows = node.windows
        closes = windows.final_after_ms if isinstance(windows, SessionWindows) else windows.grace_period_ms
        return Timeline(name, key, closes, now, tuple(record.came(True) for record in records), tuple(sorted(spans)))


def _of_key(batch: Batch, key: Any, now: int, cause: int) -> Iterator[tuple[tuple[int, ...], _Record]]:
    """Yield the records of a key, with the place of each in the order of all."""
    values = batch.value.decoded()
    for row, other in enumerate(batch.key.decoded()):
        if other == key:
            value = values[row][1] if isinstance(batch.value, SidedColumn) else values[row]
            yield _place(batch, row), _Record(int(batch.timestamp[row]), value, now, cause=cause)


def _tell(seen: Seen, arrived: dict[tuple[int, ...], _Record]) -> None:
    """Record what a step did with the key's records."""
    rows = {row: record for row in range(len(seen.batch)) if (record := arrived.get(_place(seen.batch, row)))}
    for row, record in rows.items():
        record.stream_time = int(seen.times[row])
    columns = (column.tolist() for column in (seen.row, seen.start, seen.end, seen.fate))
    for row, start, end, fate in zip(*columns, strict=True):
        if fate == DUPLICATE and row in rows:
            rows[row].is_duplicate = True
        elif row in rows:
            rows[row].windows[fate].add((start, end))


def _place(batch: Batch, row: int) -> tuple[int, ...]:
    return tuple(column if isinstance(column, int) else int(column[row]) for column in batch.order)
