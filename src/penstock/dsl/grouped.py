"""Streams and tables grouped by key, on the way to an aggregation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl.graph import DEFAULT_VALUE, Graph, result_type
from penstock.dsl.kstream import repartition_node
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized, materialized_of
from penstock.dsl.windows import TimeWindows
from penstock.plan import names, nodes
from penstock.plan.functions import UserFunction, caller, check_type, user_function
from penstock.serdes import INT, Serde

REDUCER = ("aggregate", "value")
AGGREGATOR = ("key", "value", "aggregate")


class KGroupedStream:
    """A stream grouped by key. Records with a null key or a null value are dropped and counted."""

    def __init__(
        self, graph: Graph, node: nodes.Node, key: Serde, value: Serde, name: str | None, repartition_required: bool
    ):
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._name = name
        self._repartition_required = repartition_required
        self._repartition: nodes.Repartition | None = None

    def count(
        self, store: str | None = None, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable:
        """How many records each key has.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().count(), [("a", "x"), ("b", "y"), ("a", "z")])
        [('a', 1), ('b', 1), ('a', 2)]
        """
        given = materialized_of(materialized, store)
        burn_count_name(self._graph, given)
        return self._aggregate(names.STREAM_AGGREGATE, nodes.Aggregation(kind="count"), given, INT, name)

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key made into one by a function of (aggregate, value), from the first value on.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().reduce(lambda total, value: total + value), [("a", 1), ("a", 2)])
        [('a', 1), ('a', 3)]
        """
        aggregation = nodes.Aggregation(kind="reduce", add=user_function(reducer, "reduce", REDUCER))
        given = materialized_of(materialized, store)
        return self._aggregate(names.STREAM_REDUCE, aggregation, given, self._value, name)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key made into one by a function of (key, value, aggregate), from an initial value.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().aggregate(list, lambda key, value, seen: [*seen, value]),
        ...      [("a", 1), ("a", 2)])
        [('a', [1]), ('a', [1, 2])]
        """
        aggregation, result = aggregation_of(initializer, aggregator, value)
        given = materialized_of(materialized, store)
        return self._aggregate(names.STREAM_AGGREGATE, aggregation, given, result, name)

    def windowed_by(self, windows: TimeWindows) -> TimeWindowedKStream:
        """Aggregate by key and window of time.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count(),
        ...      [("a", "x", 3), ("a", "y", 12)])
        [(Windowed(key='a', start=0, end=10), 1), (Windowed(key='a', start=10, end=20), 1)]
        """
        check_type(windows, TimeWindows, "the windows of windowed_by", "for example TimeWindows.of_size_and_grace(...)")
        return TimeWindowedKStream(self, windows)

    # --- inside --------------------------------------------------------------------------------------------------

    def _aggregate(
        self, prefix: str, aggregation: nodes.Aggregation, given: Materialized | None, value: Serde, name: str | None
    ) -> KTable:
        spec = self._graph.store(given, prefix, key=self._key, value=value)
        own_name = self._graph.names.node(prefix, name)
        parent = self.parent_for(spec.name)
        assert spec.key is not None
        assert spec.value is not None
        node = nodes.StreamAggregate(
            name=own_name, parents=(parent,), where=caller(), aggregation=aggregation, store=spec
        )
        return KTable(self._graph, self._graph.add(node), spec.key, spec.value)

    def parent_for(self, store: str) -> nodes.Node:
        """What an aggregation into this store reads: the stream itself, or a repartition topic."""
        if not self._repartition_required:
            return self._node
        node = repartition_node(self._graph, self._node, self._name or store, self._key, self._value)
        if self._repartition is None or self._name is None:
            self._repartition = node
        return self._graph.add(self._repartition)


class TimeWindowedKStream:
    """A grouped stream cut into windows of time. Records with a null key are dropped and counted."""

    def __init__(self, grouped: KGroupedStream, windows: TimeWindows):
        self._grouped = grouped
        self._graph = grouped._graph
        self._windows = windows

    def count(
        self, store: str | None = None, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable:
        """How many records each key has in each window; the keys of the result are ``Windowed``."""
        given = materialized_of(materialized, store)
        burn_count_name(self._graph, given)
        return self._aggregate(names.STREAM_AGGREGATE, nodes.Aggregation(kind="count"), given, INT, name)

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key and window made into one by a function of (aggregate, value)."""
        aggregation = nodes.Aggregation(kind="reduce", add=user_function(reducer, "reduce", REDUCER))
        given = materialized_of(materialized, store)
        return self._aggregate(names.STREAM_REDUCE, aggregation, given, self._grouped._value, name)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each key and window made into one by a function of (key, value, aggregate)."""
        aggregation, result = aggregation_of(initializer, aggregator, value)
        given = materialized_of(materialized, store)
        return self._aggregate(names.STREAM_AGGREGATE, aggregation, given, result, name)

    def _aggregate(
        self, prefix: str, aggregation: nodes.Aggregation, given: Materialized | None, value: Serde, name: str | None
    ) -> KTable:
        from penstock.serdes import TimeWindowedSerde

        spec = self._graph.store(given, prefix, key=self._grouped._key, value=value)
        own_name = self._graph.names.node(prefix, name)
        node = nodes.WindowAggregate(
            name=own_name,
            parents=(self._grouped.parent_for(spec.name),),
            where=caller(),
            aggregation=aggregation,
            windows=self._windows,
            store=spec,
        )
        assert spec.key is not None
        assert spec.value is not None
        key = TimeWindowedSerde(spec.key, self._windows.size_ms)
        return KTable(self._graph, self._graph.add(node), key, spec.value)


class KGroupedTable:
    """A table grouped anew. A row's old value leaves its old group before its new value joins its new one."""

    def __init__(self, graph: Graph, node: nodes.Node, key: Serde, value: Serde, name: str | None):
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._name = name
        self._repartition: nodes.Repartition | None = None

    def count(
        self, store: str | None = None, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable:
        """How many rows each group has.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.to_table().group_by(lambda key, city: (city, key)).count(),
        ...      [("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Rome")])
        [('Oslo', 1), ('Oslo', 2), ('Oslo', 1), ('Rome', 1)]
        """
        given = materialized_of(materialized, store)
        return self._aggregate(names.TABLE_AGGREGATE, nodes.Aggregation(kind="count"), given, INT, name)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each group made into one by functions of (aggregate, value): one adds, one takes out again."""
        aggregation = nodes.Aggregation(
            kind="reduce",
            add=user_function(adder, "reduce", REDUCER),
            subtract=user_function(subtractor, "reduce", REDUCER),
        )
        given = materialized_of(materialized, store)
        return self._aggregate(names.TABLE_REDUCE, aggregation, given, self._value, name)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable:
        """The values of each group made into one by functions of (key, value, aggregate), one of which takes out again.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.to_table().group_by(lambda key, v: (v["city"], v["age"]))
        ...      .aggregate(int, lambda city, age, total: total + age, lambda city, age, total: total - age),
        ...      [("ann", {"city": "Oslo", "age": 30}), ("ann", {"city": "Oslo", "age": 31})])
        [('Oslo', 30), ('Oslo', 31)]
        """
        aggregation, result = aggregation_of(initializer, adder, value, subtractor)
        given = materialized_of(materialized, store)
        return self._aggregate(names.TABLE_AGGREGATE, aggregation, given, result, name)

    def _aggregate(
        self, prefix: str, aggregation: nodes.Aggregation, given: Materialized | None, value: Serde, name: str | None
    ) -> KTable:
        graph = self._graph
        spec = graph.store(given, names.TABLE_AGGREGATE, key=self._key, value=value)
        sink = graph.names.suffixed(name, "-sink", names.SINK)
        source = graph.names.suffixed(name, "-source", names.SOURCE)
        own_name = graph.names.node(prefix, name)
        if self._repartition is None or self._name is None:
            self._repartition = nodes.Repartition(
                name=source,
                parents=(self._node,),
                where=caller(),
                topic=(self._name or spec.name) + names.REPARTITION_SUFFIX,
                sink_name=sink,
                source_name=source,
                filter_name=None,
                key=self._key,
                value=self._value,
            )
        graph.add(self._repartition)
        node = nodes.TableAggregate(
            name=own_name, parents=(self._repartition,), where=caller(), aggregation=aggregation, store=spec
        )
        assert spec.key is not None
        assert spec.value is not None
        return KTable(graph, graph.add(node), spec.key, spec.value)


def aggregation_of(initializer: Any, adder: Any, value: Any, subtractor: Any = None) -> tuple[nodes.Aggregation, Serde]:
    """The aggregation of an ``aggregate`` call, and the type it results in."""
    initialize: UserFunction = user_function(initializer, "aggregate", ())
    add = user_function(adder, "aggregate", AGGREGATOR)
    subtract = None if subtractor is None else user_function(subtractor, "aggregate", AGGREGATOR)
    annotation = add.returns()
    if annotation is None and initializer in (int, float, str):
        annotation = initializer
    aggregation = nodes.Aggregation(kind="aggregate", add=add, initialize=initialize.call, subtract=subtract)
    return aggregation, result_type(value, annotation, DEFAULT_VALUE)


def burn_count_name(graph: Graph, given: Materialized | None) -> None:
    """Kafka Streams uses up one more number for a ``count`` with a ``Materialized`` that has no name."""
    if given is not None and given.store is None:
        graph.names.store(names.STREAM_AGGREGATE)
