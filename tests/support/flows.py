"""Topologies run on rows of (key, value, timestamp), and all that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock import StreamsBuilder, Windowed
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver

Row = tuple[Any, ...]
"""(key, value, timestamp) for the topic ``in``, or (topic, key, value, timestamp)."""

Driver = TopologyTestDriver | CutDriver


class Ran:
    """A topology that has processed its input."""

    def __init__(self, driver: Driver):
        self.driver = driver

    def output(self, topic: str = "out") -> list[Row]:
        """(key, value, timestamp) of all records that were written to a topic."""
        return [record[:3] for record in self.driver.read_output(topic)]

    def store(self, name: str) -> list[Row]:
        """(key, value, timestamp) of all rows of a store, sorted."""
        return sorted(self.driver.store(name).all(), key=lambda row: str(row[0]))

    def counted(self, name: str) -> dict[tuple[str, str], int]:
        """What one of the counters counted, by node and reason."""
        return {(m.node, m.reason): count for m, count in self.driver.metrics().items() if m.name == name}

    def dropped(self) -> dict[tuple[str, str], int]:
        """How many records were dropped by Kafka's rules, by node and reason."""
        return self.counted("dropped-records-total")


Run = Callable[..., Ran]
"""Runs a topology: ``run(builder, rows, **settings)``."""


def pipe_rows(driver: Driver, rows: Iterable[Row]) -> None:
    """Pipe rows in, one after the other."""
    for row in rows:
        topic, key, value, timestamp = row if len(row) == 4 else ("in", *row)
        driver.pipe_input(topic, key, value, timestamp)


def of_rows(builder: StreamsBuilder, rows: Iterable[Row], **settings: Any) -> Ran:
    """What comes of rows, record by record; for tests that are not about an operator."""
    driver = TopologyTestDriver(builder.build(), **{"statestore_cache_max_bytes": 0, **settings})
    pipe_rows(driver, rows)
    return Ran(driver)


def windowed(key: Any, start: int, end: int) -> Windowed:
    """A windowed key, short enough for a table."""
    return Windowed(key, start, end)


def source(**types: Any) -> tuple[StreamsBuilder, Any]:
    """A builder, and a stream of its topic ``in``."""
    builder = StreamsBuilder()
    return builder, builder.stream("in", **types)
