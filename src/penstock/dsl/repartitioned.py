"""Repartitioning, before an aggregation or on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import TopologyError
from penstock.plan.functions import caller, check_type
from penstock.plan.names import check_name, check_name_if_given
from penstock.plan.options import Options, in_place_of, named_first, option, said_once, types_given
from penstock.plan.sinks import Partitioner, partitioner_of
from penstock.serdes import Serde, of
from penstock.values.topic_names import MOST_PARTITIONS


@dataclass(frozen=True)
class Grouped(Options):
    """The options of a grouping: the types, and a name for the repartition topic, if one is needed.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.group_by(lambda key, value: value, Grouped.with_("by-number", int, int)).count(),
    ...      [("a", 7), ("b", 7)])
    [(7, 1), (7, 2)]
    """

    key: Serde | None = None
    value: Serde | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_name_if_given(self.name)

    @option
    def as_(self, name: str) -> Grouped:
        """With a name for the step, and for the repartition topic."""
        return self._but(name=check_name(name))

    @option
    def with_(self, *arguments: Any, **keywords: Any) -> Grouped:
        """``with_(name, key, value)`` or ``with_(key, value)``, also as keywords.

        >>> Grouped.with_("by-city", str, int) == Grouped.with_(str, int).with_name("by-city")
        True

        Raises:
            ConfigError: the arguments are neither.
        """
        said = named_first("Grouped.with_", ("name", "key", "value"), arguments, keywords)
        name = said.pop("name", None)
        typed = self._but(**types_given(**said))
        return typed if name is None else typed.with_name(name)

    @option
    def with_key_serde(self, key: Any) -> Grouped:
        """With this type of the groups' keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value_serde(self, value: Any) -> Grouped:
        """With this type of values."""
        return self._but(value=of(value, "value"))

    @option
    def with_name(self, name: str) -> Grouped:
        """With a name for the step, and for the repartition topic."""
        return self._but(name=check_name(name))

    key_serde = with_key_serde
    value_serde = with_value_serde


@dataclass(frozen=True)
class Repartitioned(Options):
    """The options of ``KStream.repartition``.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> wide = builder.stream("in").repartition(Repartitioned.as_("wide").with_number_of_partitions(4))
    >>> wide.to("out")
    >>> sorted(builder.build().internal_topics)
    ['wide-repartition']
    """

    key: Serde | None = None
    value: Serde | None = None
    name: str | None = None
    partitions: int | None = None
    partitioner: Partitioner | None = None

    def __post_init__(self) -> None:
        check_name_if_given(self.name)
        partitioner_of(self.partitioner, "repartition")
        if self.partitions is not None:
            check_type(self.partitions, int, "the partitions of repartition")
            where = f"the partitions of repartition at {caller()}"
            if self.partitions < 1:
                raise TopologyError(f"{where}: a topic has at least 1 partition, got {self.partitions}")
            if self.partitions > MOST_PARTITIONS:
                raise TopologyError(
                    f"{where}: a topic has at most {MOST_PARTITIONS:,} partitions, got {self.partitions:,}; each one "
                    "is a task"
                )

    @option
    def as_(self, name: str) -> Repartitioned:
        """With a name, from which that of the topic is made."""
        return self._but(name=check_name(name))

    @option
    def with_(self, key: Any = None, value: Any = None) -> Repartitioned:
        """With these types of keys and values."""
        return self._but(**types_given(key=key, value=value))

    @option
    def with_key_serde(self, key: Any) -> Repartitioned:
        """With this type of keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value_serde(self, value: Any) -> Repartitioned:
        """With this type of values."""
        return self._but(value=of(value, "value"))

    @option
    def with_number_of_partitions(self, partitions: int) -> Repartitioned:
        """With a topic of so many partitions.

        Raises:
            TopologyError: it is no number.
        """
        return self._but(partitions=partitions)

    @option
    def with_stream_partitioner(self, partitioner: Partitioner) -> Repartitioned:
        """With a function that chooses each record's partition; see ``partitioner=`` of ``KStream.to``."""
        return self._but(partitioner=partitioner)

    @option
    def with_name(self, name: str) -> Repartitioned:
        """With a name, from which that of the topic is made."""
        return self._but(name=check_name(name))

    number_of_partitions = with_number_of_partitions
    stream_partitioner = with_stream_partitioner


def grouped_of(method: str, given: Grouped | None, key: Any, value: Any, name: str | None) -> Grouped:
    """Combine the arguments of a method that groups a stream or a table: a ``Grouped`` and keywords.

    Raises:
        TopologyError: an argument was given twice.
    """
    return said_once(method, "grouped", given, Grouped(**types_given(key=key, value=value), name=name))


def repartitioned_of(
    given: Repartitioned | None,
    name: Any,
    partitions: int | None,
    key: Any,
    value: Any,
    partitioner: Partitioner | None,
) -> Repartitioned:
    """Combine the arguments of ``repartition``: a ``Repartitioned``, which may take the position of ``name``, and
    keywords.

    Raises:
        TopologyError: an argument was given twice.
    """
    given, name = in_place_of(Repartitioned, name, given, "repartition", "repartitioned")
    said = Repartitioned(**types_given(key=key, value=value), name=name, partitions=partitions, partitioner=partitioner)
    return said_once("repartition", "repartitioned", given, said)
