"""The part of a topic that a DataFrame reads: options with the names and meanings of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.engine.spark.edges import Edge, edge_at, edge_of_offsets, edge_of_times
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.messages import nearest

_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STRATEGY = "startingOffsetsByTimestampStrategy"
_STRATEGIES = ("error", "latest")
_PER_TRIGGER = "maxOffsetsPerTrigger"
_TASKS = "minPartitions"
HEADERS = "includeHeaders"

HEADERS_COLUMN = "headers"
"""The additional column for headers, if requested."""

READ_OPTIONS = (*_STARTS, _STRATEGY, *_ENDS, _PER_TRIGGER, _TASKS, HEADERS)

Range = tuple[int, int, int]
"""A partition, the first offset to read, and the offset where reading stops."""


@dataclass(frozen=True)
class ReadOptions:
    """The reading options of a DataFrame."""

    start: Edge
    end: Edge
    per_trigger: int | None
    """Most offsets that a micro-batch advances by; None for no limit."""
    tasks: int
    """The minimum number of ranges that a read is cut into."""
    headers: bool

    @classmethod
    def of(cls, options: Mapping[str, str], topic: str) -> ReadOptions:
        """Parse the options; the topic's partitions are checked when the topic is read.

        Raises:
            ConfigError: a value is invalid, or two options contradict each other.
        """
        given = _Given({name.lower(): value for name, value in options.items()}, topic)
        per_trigger = given.number(_PER_TRIGGER)
        return cls(given.start(), given.end(), per_trigger, given.number(_TASKS) or 1, given.switch(HEADERS))

    def ranges(self, log: Log, topic: str) -> list[Range]:
        """Return the ranges that a batch reads, partition by partition.

        Raises:
            ConfigError: the options name other partitions than the topic has, or end before they begin.
            OffsetOutOfRangeError: the topic does not have an offset that they name, or no record of a time.
        """
        firsts, ends = log.start_offsets(topic), log.end_offsets(topic)
        starts = self.start.resolved(log, topic, firsts, ends)
        stops = self.end.resolved(log, topic, firsts, ends)
        is_meant = not self.start.is_by_time or self.end.is_by_time
        for partition, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            if start > stop and is_meant:
                raise ConfigError(
                    f'format("penstock"): topic {topic!r}, partition {partition}: {self.start.option} begins at offset '
                    f"{start}, behind offset {stop}, where {self.end.option} ends. Begin before the end"
                )
        return [(p, start, max(start, stop)) for p, (start, stop) in enumerate(zip(starts, stops, strict=True))]

    def first_offsets(self, log: Log, topic: str) -> list[int]:
        """Return the first offset of a new stream in each partition; raises like ``ranges``."""
        return self.start.resolved(log, topic, log.start_offsets(topic), log.end_offsets(topic))

    def cut(self, ranges: Sequence[Range]) -> list[Range]:
        """Return the same records in at least ``tasks`` ranges, or one for each record. Long ranges are cut more
        often.
        """
        filled = [(partition, start, stop) for partition, start, stop in ranges if start < stop]
        if len(filled) >= self.tasks:
            return filled
        total = sum(stop - start for _, start, stop in filled)
        pieces = []
        for partition, start, stop in filled:
            size = stop - start
            parts = min(-(-self.tasks * size // total), size)
            cuts = [start + size * part // parts for part in range(parts + 1)]
            pieces += [(partition, begin, end) for begin, end in pairwise(cuts)]
        return pieces


def check_for_batch(options: Mapping[str, str], asked: ReadOptions) -> None:
    """Raise ``ConfigError`` for options or values that only a stream can have."""
    _refuse(
        options,
        (_PER_TRIGGER,),
        "is for spark.readStream: a batch has no triggers and reads its topic once. Leave it out, or bound the batch "
        "with endingOffsets",
    )
    if asked.start.is_an_end:
        raise ConfigError(
            'format("penstock"): the option startingOffsets names the end (latest, or -1), where a batch has nothing '
            "to read. Begin with earliest, an offset or a time, or use spark.readStream"
        )


def check_for_stream(options: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` for options that only a batch can have."""
    _refuse(
        options,
        _ENDS,
        "is for spark.read: a stream has no end, and continues with new records. Leave it out; "
        "trigger(availableNow=True) ends a query at the present end of the topic",
    )


def check_for_write(options: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` for options that only reading has."""
    _refuse(options, READ_OPTIONS, "is for reading: a topic is always written at its end. Leave it out")


def _refuse(options: Mapping[str, str], names: tuple[str, ...], why: str) -> None:
    given = {name.lower() for name in options}
    found = next((name for name in names if name.lower() in given), None)
    if found is not None:
        raise ConfigError(f'format("penstock"): the option {found} {why}')


def truth(options: Mapping[str, Any], name: str) -> bool:
    """Return a boolean option, False by default. Raise ``ConfigError`` for anything but true and false."""
    given = options.get(name.lower(), "false")
    if given.lower() not in ("true", "false"):
        raise ConfigError(f'format("penstock"): the option {name} is true or false, got {given!r}')
    return bool(given.lower() == "true")


class _Given:
    """Options by lower-case name, as Spark compares them."""

    def __init__(self, options: Mapping[str, str], topic: str):
        self._options = options
        self._topic = topic

    def start(self) -> Edge:
        is_strict = self._strategy() == "error"
        option, text = self._one_of(_STARTS)
        if option == "startingTimestamp":
            return edge_at(option, text, is_strict)
        if option == "startingOffsetsByTimestamp":
            return edge_of_times(option, text, self._topic, is_strict)
        return edge_of_offsets("startingOffsets", text or "earliest", self._topic)

    def end(self) -> Edge:
        option, text = self._one_of(_ENDS)
        if option == "endingTimestamp":
            return edge_at(option, text)
        if option == "endingOffsetsByTimestamp":
            return edge_of_times(option, text, self._topic)
        return edge_of_offsets("endingOffsets", text or "latest", self._topic)

    def number(self, name: str) -> int | None:
        given = self._options.get(name.lower())
        if given is None:
            return None
        if not given.strip().isdecimal() or int(given) < 1:
            raise ConfigError(f'format("penstock"): the option {name} is a number from 1 on, got {given!r}')
        return int(given)

    def switch(self, name: str) -> bool:
        return truth(self._options, name)

    def _one_of(self, names: tuple[str, ...]) -> tuple[str, str]:
        given = [name for name in names if name.lower() in self._options]
        if len(given) > 1:
            raise ConfigError(
                f'format("penstock"): the options {" and ".join(given)} say the same thing. Leave all but one out'
            )
        return (given[0], self._options[given[0].lower()].strip()) if given else ("", "")

    def _strategy(self) -> str:
        given = self._options.get(_STRATEGY.lower(), "error")
        if given.lower() not in _STRATEGIES:
            raise ConfigError(
                f'format("penstock"): the option {_STRATEGY} is error or latest, got {given!r}'
                f"{nearest(given.lower(), _STRATEGIES)}"
            )
        if _STRATEGY.lower() in self._options and not any(name.lower() in self._options for name in _STARTS[:2]):
            raise ConfigError(
                f'format("penstock"): the option {_STRATEGY} says what happens where no record has the time of '
                f"{_STARTS[0]} or {_STARTS[1]}, and neither is given. Give one, or leave it out"
            )
        return given.lower()
