"""Where reading a topic begins or ends, as given by options of Spark's Kafka source."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError, OffsetOutOfRangeError
from penstock.log.base import Log
from penstock.messages import nearest, show
from penstock.values.offset_reset import AutoOffsetReset
from penstock.values.times import moment, to_timestamp, wall_clock_ms

_LATEST, _EARLIEST = -1, -2
"""The JSON values for the end of a partition and for its first record."""
_STARTING = "startingOffsets"
_BY = "by_"
"""The prefix of the forms of ``AutoOffsetReset`` that give a time."""


@dataclass(frozen=True)
class Edge(ABC):
    """Where reading begins or ends in each partition."""

    option: str
    """The option that gives it."""

    @property
    def is_by_time(self) -> bool:
        """Whether it depends on the records' times."""
        return False

    @property
    def is_an_end(self) -> bool:
        """Whether it names the end of some partition, where records are still to come."""
        return False

    @abstractmethod
    def resolved(self, log: Log, topic: str, firsts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """The offset in each partition.

        Args:
            firsts: the offset of each partition's first record that is still there.
            ends: the offset that each partition's next record will get.

        Raises:
            ConfigError: the option names other partitions than the topic has.
            OffsetOutOfRangeError: a partition does not have the offset, or no record of the time.
        """

    def _check_partitions(self, topic: str, given: Mapping[int, int], count: int) -> None:
        if set(given) != set(range(count)):
            raise ConfigError(
                f'format("penstock"): the option {self.option} names the partitions {_listed(given)} of topic '
                f"{topic!r}, which has the partitions {_listed(range(count))}. Name each of them"
            )


@dataclass(frozen=True)
class EdgeByOffsets(Edge):
    """At an offset of each partition, at its first record, or at its end."""

    offsets: Mapping[int, int]

    @property
    def is_an_end(self) -> bool:
        return _LATEST in self.offsets.values()

    def resolved(self, log: Log, topic: str, firsts: Sequence[int], ends: Sequence[int]) -> list[int]:
        self._check_partitions(topic, self.offsets, len(ends))
        bounds = enumerate(zip(firsts, ends, strict=True))
        return [self._offset(topic, partition, first, end) for partition, (first, end) in bounds]

    def _offset(self, topic: str, partition: int, first: int, end: int) -> int:
        offset = self.offsets[partition]
        if offset < 0:
            return end if offset == _LATEST else first
        if first <= offset <= end:
            return offset
        raise OffsetOutOfRangeError(
            f'format("penstock"): topic {topic!r}, partition {partition}: the option {self.option} says offset '
            f"{offset}, but the partition has the offsets from {first} to its end at {end}. Nothing was read. Give an "
            f"offset in between, or {_special(self.option)}"
        )


@dataclass(frozen=True)
class EdgeByTimes(Edge):
    """At the first record of a given time or later, with a time for each partition."""

    times: Mapping[int, int]
    is_strict: bool
    """Whether a partition must have such a record; otherwise its end is used."""

    @property
    def is_by_time(self) -> bool:
        return True

    def resolved(self, log: Log, topic: str, firsts: Sequence[int], ends: Sequence[int]) -> list[int]:
        self._check_partitions(topic, self.times, len(ends))
        return [self._at(log, topic, partition, end) for partition, end in enumerate(ends)]

    def _at(self, log: Log, topic: str, partition: int, end: int) -> int:
        time = self.times[partition]
        found = log.offset_at(topic, partition, time)
        if found is None and self.is_strict:
            raise OffsetOutOfRangeError(
                f'format("penstock"): topic {topic!r}, partition {partition}: the option {self.option} says '
                f"{moment(time)}, but no record is from then or later. Nothing was read. Give an earlier time, or set "
                "startingOffsetsByTimestampStrategy to latest to begin such partitions at their end"
            )
        return end if found is None else min(found, end)


@dataclass(frozen=True)
class SameEdge(Edge):
    """At the same place in all partitions: their first records, their ends, or a time."""

    reset: AutoOffsetReset
    is_strict: bool = False

    @property
    def is_by_time(self) -> bool:
        return self.reset.policy.startswith(_BY)

    @property
    def is_an_end(self) -> bool:
        return self.reset.policy == "latest"

    def resolved(self, log: Log, topic: str, firsts: Sequence[int], ends: Sequence[int]) -> list[int]:
        if not self.is_by_time:
            return list(ends if self.is_an_end else firsts)
        times = dict.fromkeys(range(len(ends)), self.reset.begins_at(wall_clock_ms()))
        return EdgeByTimes(self.option, times, self.is_strict).resolved(log, topic, firsts, ends)


def edge_of_offsets(option: str, text: str, topic: str) -> Edge:
    """Return the edge for ``earliest``, ``latest``, JSON by partition, or a time as in ``auto_offset_reset``.

    Raises:
        ConfigError: it is none of them.

    >>> edge_of_offsets("startingOffsets", '{"t": {"0": 23, "1": -1}}', "t").offsets
    {0: 23, 1: -1}
    """
    if text.startswith("{"):
        return EdgeByOffsets(option, _by_partition(option, text, topic, "offsets", _offset))
    is_start = option == _STARTING
    forms = ["earliest", "latest"] if is_start else ["latest"]
    if text.lower() in forms:
        return SameEdge(option, AutoOffsetReset(text.lower()))
    if is_start and text.startswith(_BY):
        return SameEdge(option, AutoOffsetReset.of(text, f'format("penstock"): the option {option}'))
    raise ConfigError(
        f'format("penstock"): the option {option} is {", ".join(forms)}{", by_duration:1 hour" if is_start else ""} or '
        f"JSON such as {_example(topic, 23)}; got {text!r}{nearest(text, forms)}"
    )


def edge_at(option: str, text: str, is_strict: bool = False) -> Edge:
    """Return the edge at the first records of a time or later.

    Raises:
        ConfigError: it is no time.
    """
    return SameEdge(option, AutoOffsetReset("by_timestamp", _time(option, text)), is_strict)


def edge_of_times(option: str, text: str, topic: str, is_strict: bool = False) -> Edge:
    """Return the edge at the first records of a time or later, with a time for each partition. Raise ``ConfigError``.

    >>> edge_of_times("endingOffsetsByTimestamp", '{"t": {"0": 1000}}', "t").times
    {0: 1000}
    """
    return EdgeByTimes(option, _by_partition(option, text, topic, "times", _time), is_strict)


def _by_partition(
    option: str, text: str, topic: str, what: str, value_of: Callable[[str, Any], int]
) -> Mapping[int, int]:
    """Return the values in JSON for each partition of the topic."""
    example = _example(topic, 23 if what == "offsets" else 1_700_000_000_000)
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    found = given.get(topic) if isinstance(given, dict) else None
    if isinstance(given, dict) and (found is None or len(given) > 1):
        raise ConfigError(
            f'format("penstock"): the option {option} has {what} for the topics {", ".join(map(show, given))}, but the '
            f"DataFrame reads topic {topic!r}. Write it like {example}"
        )
    if not isinstance(found, dict) or not all(name.isdecimal() for name in found):
        raise ConfigError(
            f'format("penstock"): the option {option} is JSON with the {what} of each partition; got {show(text)}. '
            f"Write it like {example}"
        )
    return {int(name): value_of(option, one) for name, one in found.items()}


def _offset(option: str, given: Any) -> int:
    least = _EARLIEST if option == _STARTING else _LATEST
    if type(given) is int and given >= least:
        return given
    raise ConfigError(
        f'format("penstock"): the option {option} has a whole number from 0 on for each partition, or '
        f"{_special(option)}; got {show(given)}"
    )


def _special(option: str) -> str:
    return "-2 for the first record, -1 for the end" if option == _STARTING else "-1 for the end"


def _time(option: str, given: Any) -> int:
    is_number = isinstance(given, str) and given.strip().isdecimal()
    return to_timestamp(int(given) if is_number else given, f'format("penstock"): the option {option}')


def _example(topic: str, value: int) -> str:
    return json.dumps({topic: {"0": value}})


def _listed(partitions: Any) -> str:
    numbers = sorted(partitions)
    return ", ".join(map(str, numbers)) if len(numbers) <= 5 else f"{numbers[0]} to {numbers[-1]}"
