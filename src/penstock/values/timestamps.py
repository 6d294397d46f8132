"""Timestamp extractors: where the time of an input record comes from (``TimestampExtractor``, KIP-32, KIP-258)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

from penstock.record import ConsumerRecord
from penstock.values.times import wall_clock_ms

_log = logging.getLogger(__name__)


class TimestampExtractor(ABC):
    """Computes the time of a record from the whole record, for ``builder.stream(..., timestamp=...)``.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> class FromHeader(TimestampExtractor):
    ...     def extract(self, record, partition_time):
    ...         return int(dict(record.headers).get("at", partition_time))
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", timestamp=FromHeader()).to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_input("in", "a", 1, headers=[("at", b"500")])
    >>> driver.pipe_input("in", "a", 2)
    >>> [record.timestamp for record in driver.read_output("out")]
    [500, 500]
    """

    @abstractmethod
    def extract(self, record: ConsumerRecord, partition_time: int) -> int | datetime:
        """The time of a record.

        Args:
            record: the whole record: key, value, timestamp, headers, topic, partition and offset.
            partition_time: the highest time that was extracted in its partition so far, -1 before the first.

        Returns:
            Milliseconds since 1970, or a ``datetime``. A record with a negative time is dropped and counted.
        """


class InvalidTimestampExtractor(TimestampExtractor):
    """Takes the time that a record carries; what to do if that is negative, is for others to say."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """The record's own time, or what ``on_invalid_timestamp`` gives."""
        if record.timestamp < 0:
            return self.on_invalid_timestamp(record, partition_time)
        return record.timestamp

    @abstractmethod
    def on_invalid_timestamp(self, record: ConsumerRecord, partition_time: int) -> int:
        """The time of a record that carries a negative one."""


class FailOnInvalidTimestamp(InvalidTimestampExtractor):
    """Takes the timestamp of a record, and fails if it is negative (the default).

    >>> FailOnInvalidTimestamp().extract(ConsumerRecord("a", 1, 5, (), "in", 0, 0), -1)
    5
    """

    def on_invalid_timestamp(self, record: ConsumerRecord, partition_time: int) -> int:
        """Raise ``ValueError``."""
        raise ValueError(
            f"the record has the invalid (negative) timestamp {record.timestamp}, perhaps because a producer wrote "
            "none; read the topic with another timestamp extractor, such as UsePartitionTimeOnInvalidTimestamp"
        )


class LogAndSkipOnInvalidTimestamp(InvalidTimestampExtractor):
    """Takes the timestamp of a record. If it is negative, Penstock logs, drops and counts the record.

    >>> LogAndSkipOnInvalidTimestamp().extract(ConsumerRecord("a", 1, -1, (), "in", 0, 0), 7)
    -1
    """

    def on_invalid_timestamp(self, record: ConsumerRecord, partition_time: int) -> int:
        """The negative time, so that the record is dropped."""
        _log.warning(
            "topic %r, partition %d, offset %d: dropped, since it has the invalid timestamp %d",
            *(record.topic, record.partition, record.offset, record.timestamp),
        )
        return record.timestamp


class UsePartitionTimeOnInvalidTimestamp(InvalidTimestampExtractor):
    """Takes the timestamp of a record, or if it is negative, the highest one of its partition so far.

    >>> UsePartitionTimeOnInvalidTimestamp().extract(ConsumerRecord("a", 1, -1, (), "in", 0, 0), 7)
    7
    """

    def on_invalid_timestamp(self, record: ConsumerRecord, partition_time: int) -> int:
        """The partition's time; raises ``ValueError`` when it has none yet."""
        if partition_time < 0:
            raise ValueError(
                f"the record has the invalid timestamp {record.timestamp}, and its partition has no time yet"
            )
        return partition_time


class WallclockTimestampExtractor(TimestampExtractor):
    """Gives each record the time at which Penstock processes it. A record that is processed again gets another time.

    >>> import time
    >>> now = WallclockTimestampExtractor().extract(ConsumerRecord("a", 1, -1, (), "in", 0, 0), -1)
    >>> abs(now - time.time() * 1000) < 60_000
    True
    """

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """Now, by the wall clock."""
        return wall_clock_ms()


READY: dict[str, type[TimestampExtractor]] = {
    one.__name__: one
    for one in (
        FailOnInvalidTimestamp,
        LogAndSkipOnInvalidTimestamp,
        UsePartitionTimeOnInvalidTimestamp,
        WallclockTimestampExtractor,
    )
}


def is_extractor(given: Any) -> bool:
    """Return whether a value is an extractor, or a class of extractors, and not a plain function."""
    return callable(getattr(given, "extract", None))
