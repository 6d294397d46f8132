"""Replay of the records that reached a step with windows, to see what the engine does with each of them."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized
from penstock.metrics import LATE, total
from penstock.plan.nodes import CogroupInput, WindowedAggregate
from penstock.plan.windows import EmitStrategy, SessionWindows

_STORE = "counts"

Window = tuple[int, int]
"""Its start and its end."""


class Replayed(NamedTuple):
    """What the step did with a record."""

    windows: tuple[Window, ...]
    """The windows whose results it changed."""
    is_late: bool
    """True if the step counted it as late: some window that it belongs to was closed."""
    stream_time: int
    """That of the step, this record included; in a cogroup that of the record's stream."""


class Replay:
    """A step's windows once more, alone in a test driver: its engine says what becomes of each record.

    The step counts here. Which windows a record belongs to, and whether it is late, does not depend on what is
    aggregated.

    >>> from penstock.plan.windows import TimeWindows
    >>> builder = StreamsBuilder()
    >>> step = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    >>> replay = Replay(builder.build().nodes[-1])
    >>> replay.of(5), replay.of(20), replay.of(6)
    (Replayed(windows=((0, 10),), is_late=False, stream_time=5), \
Replayed(windows=((20, 30),), is_late=False, stream_time=20), Replayed(windows=(), is_late=True, stream_time=20))
    """

    def __init__(self, node: WindowedAggregate):
        from penstock.testing.driver import TopologyTestDriver  # which imports this module

        sides = max(1, sum(isinstance(parent, CogroupInput) for parent in node.parents))
        builder = StreamsBuilder()
        streams = [builder.stream(_topic(side), key=str, value=str) for side in range(sides)]
        _counted(streams, node).to_stream().to("out")
        self._clocks = [f"step-cogroup-agg-{side}" for side in range(sides)] if sides > 1 else ["step"]
        self._driver = TopologyTestDriver(builder.build(), statestore_cache_max_bytes=0)
        self._is_final = node.final
        self._late = 0.0

    @property
    def stream_time(self) -> int:
        """How far the step has come in time; the streams of a cogroup each have their own, and this is the highest."""
        return max(self._driver.stream_time(clock) for clock in self._clocks)

    def others(self, records: list[tuple[int, int, bool]]) -> None:
        """Take records of other keys, which move stream time: timestamp, side and whether the value is null."""
        for side, some in groupby(records, key=lambda record: record[1]):
            rows = [("other", None if is_null else "", timestamp) for timestamp, _, is_null in some]
            self._driver.pipe_record_list(_topic(side), rows)
        self._driver.read_output("out")
        self._late = total(self._driver.metrics(), LATE)

    def of(self, timestamp: int, side: int = 0, is_null: bool = False) -> Replayed:
        """Take a record of the key."""
        kept = self._kept() if self._is_final else {}
        self._driver.pipe_input(_topic(side), "key", None if is_null else "", timestamp)
        time = self._driver.stream_time(self._clocks[side])
        updates = [record for record in self._driver.read_output("out") if record.value is not None]
        changed = {(one.key.start, one.key.end) for one in updates}
        if self._is_final:  # what is final at once is in no store
            changed = {window for window in changed if window[0] <= timestamp <= window[1]}
            changed |= {window for window, count in self._kept().items() if kept.get(window) != count}
        before, self._late = self._late, total(self._driver.metrics(), LATE)
        return Replayed(tuple(sorted(changed)), self._late > before, time)

    def _kept(self) -> dict[Window, int]:
        """The counts of the key's windows that are in the store: final results do not show each change. A session whose
        retention ends just as it becomes final is not among them."""
        rows = self._driver.store(_STORE).all()
        return {(windowed.start, windowed.end): row[0] for windowed, *row in rows if windowed.key == "key"}


def _topic(side: int) -> str:
    return f"in-{side}"


def _counted(streams: list[KStream[str, str]], node: WindowedAggregate) -> KTable[Any, int]:
    """Count the records of streams in the windows of a step, in a store of the same kind that keeps them as long."""
    windows: Any = node.windows
    kept = Materialized(
        store=_STORE,
        kind="in_memory" if node.store.in_memory else "persistent",
        retention_ms=node.store.retention or windows.retention_ms,
        segment_interval_ms=node.store.segment_interval,
    )
    first, *others = [stream.group_by_key() for stream in streams]
    if not others:
        each: Any = first.windowed_by(windows)
        each = each.emit_strategy(EmitStrategy.on_window_close()) if node.final else each
        counted: KTable[Any, int] = each.count(materialized=kept, name="step")
        return counted
    grouped = first.cogroup(_add)
    for one in others:
        grouped = grouped.cogroup(one, _add)
    windowed: Any = grouped.windowed_by(windows)
    merger = (_merge,) if isinstance(windows, SessionWindows) else ()
    table: KTable[Any, int] = windowed.aggregate(_zero, *merger, value=int, materialized=kept, name="step")
    return table


def _zero() -> int:
    return 0


def _add(key: str, value: str, count: int) -> int:
    return count + 1


def _merge(key: str, one: int, other: int) -> int:
    return one + other
