"""The times of incoming records (``RecordQueue``): from the record itself, or from an extractor. Records with negative
times are dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import Batch
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.record_context import headers_of, origins_of
from penstock.plan.timestamps import Extractor
from penstock.record import ConsumerRecord
from penstock.state.clock import StreamTime
from penstock.values.times import parsed

INVALID = "invalid-timestamp"
EXPECTED = "the record's time: a datetime, text in ISO 8601 or an int of milliseconds, such as int(seconds * 1000)"

_Place = tuple[str | None, int, int]
"""Topic, partition and offset of a record."""


class ExtractedTimes:
    """Sets the times of a source's records to those that an extractor returns.

    Args:
        clock: returns a clock by name; each partition has one, which is part of the commit.
    """

    def __init__(self, node: str, extractor: Extractor, context: Context, clock: Callable[[str], StreamTime]):
        self._node = node
        self._extractor = extractor
        self._context = context
        self._clock = clock

    def of(self, batch: Batch) -> Batch:
        """Return the records with their times; records with negative times are dropped."""
        if not len(batch):
            return batch
        if self._extractor.is_wall_clock:
            now = self._context.facts.wall_clock_ms()
            return replace(batch, timestamp=np.full(len(batch), now, np.int64))
        places = list(origins_of(self._context.facts, batch).rows())
        if self._extractor.is_of_carried_times and (batch.timestamp >= 0).all():
            self._advance(places, batch.timestamp)
            return batch
        return self._called(batch, places)

    def _called(self, batch: Batch, places: list[_Place]) -> Batch:
        caller = Caller(self._node, self._extractor.function, self._context)
        keys, values = ([None] * len(batch), [None] * len(batch))
        if self._extractor.looks_into_records:
            keys, values = batch.key.decoded(), batch.value.decoded()
        topics, partitions, offsets = zip(*places, strict=True)
        times = batch.timestamp.tolist()
        records = list(map(ConsumerRecord, keys, values, times, headers_of(batch), topics, partitions, offsets))
        batch, results = caller.each(self._time_of, batch, records)
        batch = replace(batch, timestamp=np.array(results, np.int64))
        self._context.drop(self._node, batch.position[batch.timestamp < 0], INVALID)
        return batch.keep(batch.timestamp >= 0)

    def _time_of(self, record: ConsumerRecord) -> int:
        """The time of a record; advances the clock of its partition."""
        clock = self._clock(clock_name(record.topic, record.partition))
        time = parsed(self._extractor.function.call(record, clock.now))
        if time is None or not is_time(time):
            raise TypeError(f"the extractor must return {EXPECTED}")
        clock.now = max(clock.now, time)
        return time

    def _advance(self, places: list[_Place], times: IntArray) -> None:
        first = places[0]
        if places[-1][:2] == first[:2] and all(place[:2] == first[:2] for place in places):
            self._clock(clock_name(*first[:2])).advance(times)
            return
        for place, time in zip(places, times.tolist(), strict=True):
            clock = self._clock(clock_name(*place[:2]))
            clock.now = max(clock.now, time)


def is_time(given: Any) -> bool:
    """True if a value is a valid time; negative times are valid, but their records are dropped."""
    time = parsed(given)
    return time is not None and -(2**63) <= time < 2**63


def clock_name(topic: str | None, partition: int) -> str:
    """The name under which the clock of a partition is kept."""
    return f"partition-time of {topic}/{partition}"
