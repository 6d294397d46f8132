"""The end of a sub-topology: gives records the types of their output topic, and picks the topic and partition if chosen
by a function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import Batch, Changes
from penstock.columns.column import Column, ValuesColumn
from penstock.errors import ConfigError, PenstockError
from penstock.handlers import PRODUCTION
from penstock.messages import show
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller, row_numbers
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.record_context import headers_of
from penstock.plan.functions import UserFunction
from penstock.serdes import Serde
from penstock.values.topic_names import is_topic_name

NOT_SENT = "no-partition"
_KAFKAS = [-1]
_A_TOPIC = "the name of a topic: letters, digits, dots, underscores and hyphens"


class Sink(Operator):
    """Checks that keys and values can be encoded; the context handles the records that cannot.

    Args:
        topic: the output topic; empty if it is chosen for each record.
        selector: chooses the topic; a function of (key, value).
        partitioner: chooses a record's partition; a function of (topic, key, value, partitions), (key, value,
            partitions) or (topic, key, value, headers, partitions).
        makes_topics: create chosen topics that do not exist.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        key: Serde,
        value: Serde,
        topic: str = "",
        selector: UserFunction | None = None,
        partitioner: UserFunction | None = None,
        makes_topics: bool = True,
    ):
        self._node = node
        self._context = context
        self._key = key
        self._value = value
        self._topic = topic
        self._selector = None if selector is None else Caller(node, selector, context, PRODUCTION)
        self._partitioner = None if partitioner is None else Caller(node, partitioner, context, PRODUCTION)
        self._makes_topics = makes_topics

    def step(self, batch: Batch, out: Collector) -> None:
        if self._selector is not None:
            batch = self._with_topics(batch, self._selector)
        if self._partitioner is not None:
            batch = self._with_partitions(batch, self._partitioner)
        batch = replace(batch, key=as_type(batch.key, self._key), value=as_type(batch.value, self._value))
        if isinstance(batch, Changes) and batch.old is not None:
            batch = replace(batch, old=as_type(batch.old, self._value))
        out.emit(self._context.encoded(self._node, batch, "key", "value", "old", kind=PRODUCTION))

    def _with_topics(self, batch: Batch, selector: Caller) -> Batch:
        batch, topics = selector.rows(batch, batch.key.decoded(), batch.value.decoded())
        batch, topics = selector.check(batch, topics, _is_name, _A_TOPIC)
        refused = {topic: error for topic in set(topics) if (error := self._refusal(topic)) is not None}
        for row, topic in enumerate(topics) if refused else ():
            if topic in refused:
                position = int(batch.position[row])
                self._context.failed(self._node, position, refused[topic], selector.function, kind=PRODUCTION)
        batch = replace(batch, to_topic=np.array(topics, object))
        return batch.keep(np.array([topic not in refused for topic in topics], np.bool_)) if refused else batch

    def _refusal(self, topic: str) -> PenstockError | None:
        """Why a topic does not accept records; None if it does."""
        if topic in self._context.facts.internal_topics:
            return ConfigError(f"topic {topic!r} is internal: the topology repartitions through it; choose another one")
        try:
            self._context.facts.partitions_of(topic, self._makes_topics, self._key, self._value)
        except PenstockError as error:
            return error
        return None

    def _with_partitions(self, batch: Batch, partitioner: Caller) -> Batch:
        topics = [self._topic] * len(batch) if batch.to_topic is None else batch.to_topic.tolist()
        counts = {topic: self._partitions_of(topic) for topic in set(topics)}
        keys, values, several = batch.key.decoded(), batch.value.decoded(), [counts[topic] for topic in topics]
        arguments: list[Any] = [keys, values, several]
        if partitioner.function.arity > 3:
            arguments.insert(0, topics)
        if partitioner.function.arity > 4:
            arguments.insert(3, list(headers_of(batch)))
        numbered = replace(batch, order=(*batch.order, np.arange(len(batch))))
        numbered, chosen = partitioner.rows(numbered, *arguments)
        numbered, chosen = self._only_fitting(numbered, chosen, several, partitioner)
        rows, lists = _last(numbered.order), list(map(_partitions, chosen))
        self._context.drop(self._node, batch.position[rows[[not one for one in lists]]], NOT_SENT)
        which, within = row_numbers([len(one) for one in lists])
        sent = batch.take(rows[which])
        partition = np.array([number for one in lists for number in one], np.int64)
        return replace(sent, to_partition=partition, order=(*sent.order, within))

    def _only_fitting(
        self, numbered: Batch, chosen: list[Any], several: list[int], partitioner: Caller
    ) -> tuple[Batch, list[Any]]:
        """Fail the records whose chosen partition does not exist, and return the others."""
        counts = [several[row] for row in _last(numbered.order).tolist()]
        fits = [_are_partitions(_partitions(one), count) for one, count in zip(chosen, counts, strict=True)]
        for row in [row for row, fit in enumerate(fits) if not fit]:
            expected = f"a partition from 0 to {counts[row] - 1}, several of them, or None for Kafka's own choice"
            problem = TypeError(f"the partitioner must return {expected}, got {show(chosen[row])}")
            self._context.failed(
                self._node, int(numbered.position[row]), problem, partitioner.function, kind=PRODUCTION
            )
        kept = np.flatnonzero(fits)
        return numbered.take(kept), [chosen[row] for row in kept.tolist()]

    def _partitions_of(self, topic: str) -> int:
        return self._context.facts.partitions_of(topic, self._makes_topics, self._key, self._value)


def _last(order: Any) -> IntArray:
    last = order[-1]
    assert isinstance(last, np.ndarray)
    return last


def _is_name(topic: Any) -> bool:
    return isinstance(topic, str) and is_topic_name(topic)


def _partitions(chosen: Any) -> Any:
    """A partitioner's choice as a list; that of None is Kafka's own choice."""
    if chosen is None:
        return _KAFKAS
    if isinstance(chosen, set | frozenset | list | tuple):
        return sorted(chosen) if all(type(one) is int for one in chosen) else [None]
    return [int(chosen) if isinstance(chosen, int | np.integer) and not isinstance(chosen, bool) else None]


def _are_partitions(chosen: list[Any], count: int) -> bool:
    return chosen is _KAFKAS or all(one is not None and 0 <= one < count for one in chosen)


def as_type(column: Column, serde: Serde) -> Column:
    """Convert a column to the type in which it is written."""
    return column if column.serde == serde else ValuesColumn(column.decoded(), serde)
