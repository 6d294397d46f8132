"""Streams and tables grouped by key, on the way to an aggregation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, overload

from penstock.dsl.aggregates import or_by_name
from penstock.dsl.aggregations import NO_KEY, REDUCER, aggregation_of, burn_count_name, reducer_of, reduction_of
from penstock.dsl.cogrouped import CogroupedKStream
from penstock.dsl.functions import Aggregator, Merger, Reducer
from penstock.dsl.graph import Graph, K, R, V, shown
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized, kept_as, materialized_of
from penstock.dsl.stream import repartition_node
from penstock.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream, checked_windows
from penstock.dsl.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from penstock.errors import ConfigError
from penstock.plan import names, nodes
from penstock.plan.aggregates.named import NamedAggregate
from penstock.plan.functions import caller, user_function
from penstock.plan.node import Node
from penstock.processor import RecordContext
from penstock.record import Windowed
from penstock.serdes import INT, Serde
from penstock.usage.java_names import KafkaNames

_ANY_WINDOWS = (SessionWindows, TimeWindows, SlidingWindows, UnlimitedWindows, Windows)


class KGroupedStream(KafkaNames, Generic[K, V]):
    """A stream grouped by key. Its aggregations drop and count records with a null key or a null value."""

    def __init__(
        self, graph: Graph, node: Node, key: Serde, value: Serde, name: str | None, repartition_required: bool
    ):
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._name = name
        self._repartition_required = repartition_required
        self._repartition: nodes.Repartition | None = None

    def __repr__(self) -> str:
        return shown(type(self).__name__, self._key, self._value, self._node)

    @overload
    def count(
        self,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        windows: SessionWindows | None = None,
    ) -> KTable[K, int]: ...

    @overload
    def count(self, windows: SessionWindows, store: str | None = None, /) -> KTable[Windowed[K], int]: ...

    def count(
        self,
        store: Any = None,
        materialized: Any = None,
        name: str | None = None,
        windows: SessionWindows | None = None,
    ) -> KTable[Any, int]:
        """Count the records of each key, or with ``windows`` the records of each session of a key (KIP-94).

        KIP-94 writes ``count(windows, store)``.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().count(), [("a", "x"), ("b", "y"), ("a", "z")])
        [('a', 1), ('b', 1), ('a', 2)]
        """
        if isinstance(store, _ANY_WINDOWS):
            return self._sessions(store).count(materialized)
        if windows is not None:
            return self._sessions(windows).count(store, materialized, name)
        given = materialized_of(materialized, store)
        burn_count_name(self._graph, given)
        return self._aggregate(names.STREAM_AGGREGATE, nodes.Aggregation(kind="count"), given, INT, name)

    @overload
    def reduce(
        self,
        reducer: Reducer[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        windows: SessionWindows | None = None,
    ) -> KTable[K, V]: ...

    @overload
    def reduce(
        self, reducer: Reducer[V], windows: SessionWindows, store: str | None = None, /
    ) -> KTable[Windowed[K], V]: ...

    def reduce(
        self,
        reducer: Reducer[V],
        store: Any = None,
        materialized: Any = None,
        name: str | None = None,
        windows: SessionWindows | None = None,
    ) -> KTable[Any, V]:
        """Combine the values of each key with a function of (aggregate, value). The first value is the first aggregate.

        With ``windows``, combine the values of each session of a key. KIP-94 writes
        ``reduce(reducer, windows, store)``.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().reduce(lambda total, value: total + value), [("a", 1), ("a", 2)])
        [('a', 1), ('a', 3)]
        """
        if isinstance(store, _ANY_WINDOWS):
            return self._sessions(store).reduce(reducer, materialized)
        if windows is not None:
            return self._sessions(windows).reduce(reducer, store, materialized, name)
        given = materialized_of(materialized, store)
        return self._aggregate(names.STREAM_REDUCE, reduction_of(reducer), given, self._value, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        merger: Merger[K, R] | None = None,
        windows: SessionWindows | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R, RecordContext], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        merger: Merger[K, R] | None = None,
        windows: SessionWindows | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Aggregator[K, V, R],
        merger: Merger[K, R],
        windows: SessionWindows,
        value: Any = None,
        store: str | None = None,
        /,
    ) -> KTable[Windowed[K], R]: ...

    @overload
    def aggregate(
        self,
        *,
        value: type[R],
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        **aggregates: NamedAggregate,
    ) -> KTable[K, R]: ...

    @overload
    def aggregate(
        self,
        *,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        **aggregates: NamedAggregate,
    ) -> KTable[K, Any]: ...

    @or_by_name
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Aggregator[K, V, R],
        value: Any = None,
        store: Any = None,
        materialized: Any = None,
        name: str | None = None,
        merger: Merger[K, R] | None = None,
        windows: SessionWindows | None = None,
    ) -> KTable[Any, R]:
        """Aggregate the values of each key: a function of (key, value, aggregate) adds each value to an initial
        aggregate.

        With ``windows`` and a ``merger``, a function of (key, one aggregate, other aggregate), aggregate the values of
        each session of a key (KIP-94 writes ``aggregate(initializer, aggregator, merger, windows, value, store)``).

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().aggregate(list, lambda key, value, seen: [*seen, value]),
        ...      [("a", 1), ("a", 2)])
        [('a', [1]), ('a', [1, 2])]
        """
        if isinstance(store, SessionWindows):  # the arguments of the text's own form, in their positions
            merger, windows, value, store = value, store, materialized, name
            return self._sessions(windows).aggregate(initializer, aggregator, merger, value, store)
        if isinstance(value, _ANY_WINDOWS):  # as before KIP-114
            self._sessions(value)
        if windows is not None or merger is not None:
            if windows is None or merger is None:
                raise ConfigError("aggregate of sessions takes both windows= and merger=; give the other one too")
            sessions = self._sessions(windows)
            return sessions.aggregate(initializer, aggregator, merger, value, store, materialized, name)
        value, given = kept_as("aggregate", value, materialized, store)
        aggregation, result = aggregation_of(initializer, aggregator, value)
        return self._aggregate(names.STREAM_AGGREGATE, aggregation, given, result, name)

    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | Windows
    ) -> TimeWindowedKStream[K, V]: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...

    def windowed_by(self, windows: Any) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Aggregate by key and window of time.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count(),
        ...      [("a", "x", 3), ("a", "y", 12)])
        [(Windowed(key='a', start=0, end=10), 1), (Windowed(key='a', start=10, end=20), 1)]
        """
        windows = checked_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows)
        return TimeWindowedKStream(self, windows)

    @overload
    def cogroup(self, aggregator: Callable[[K, V, R], R]) -> CogroupedKStream[K, R]: ...

    @overload
    def cogroup(self, aggregator: Callable[[K, V, R, RecordContext], R]) -> CogroupedKStream[K, R]: ...

    def cogroup(self, aggregator: Aggregator[K, V, R]) -> CogroupedKStream[K, R]:
        """Aggregate this stream together with others, each with its own function of (key, value, aggregate)."""
        empty: CogroupedKStream[K, R] = CogroupedKStream(())
        return empty.cogroup(self, aggregator)

    # --- inside --------------------------------------------------------------------------------------------------

    def _sessions(self, windows: Any) -> SessionWindowedKStream[K, V]:
        if not isinstance(windows, SessionWindows):
            raise ConfigError(
                f"windows= takes SessionWindows, got {windows!r}; use windowed_by for other windows: "
                "group.windowed_by(windows).count(store), and reduce and aggregate alike"
            )
        return SessionWindowedKStream(self, windows)

    @property
    def _aggregated(self) -> tuple[Serde, bool]:
        """The type of the values that are aggregated, and whether they are rows that change."""
        return self._value, False

    def _aggregate(
        self, prefix: str, aggregation: nodes.Aggregation, given: Materialized | None, value: Serde, name: str | None
    ) -> KTable[Any, Any]:
        spec = self._graph.store(given, prefix, key=self._key, value=value)
        own_name = self._graph.names.node(prefix, name)
        parent = self.parent_for(spec.name)
        assert spec.key is not None
        assert spec.value is not None
        node = nodes.StreamAggregate(
            name=own_name, parents=(parent,), where=caller(), aggregation=aggregation, store=spec
        )
        return KTable(self._graph, self._graph.add(node), spec.key, spec.value)

    def parent_for(self, store: str) -> Node:
        """The step that an aggregation into this store reads: the stream itself, or a repartition topic."""
        if not self._repartition_required:
            return self._node
        node = repartition_node(self._graph, self._node, self._name or store, self._key, self._value)
        if self._repartition is None or self._name is None:
            self._repartition = node
        return self._graph.add(self._repartition)


class KGroupedTable(KafkaNames, Generic[K, V]):
    """A table grouped by new keys. If a row changes, its old value leaves the old group before its new value joins the
    new group."""

    def __init__(self, graph: Graph, node: Node, key: Serde, value: Serde, name: str | None):
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._name = name
        self._repartition: nodes.Repartition | None = None

    def __repr__(self) -> str:
        return shown(type(self).__name__, self._key, self._value, self._node)

    def count(
        self, store: str | Materialized | None = None, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable[K, int]:
        """Count the rows in each group.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.to_table().group_by(lambda key, city: (city, key)).count(),
        ...      [("ann", "Oslo"), ("bob", "Oslo"), ("ann", "Rome")])
        [('Oslo', 1), ('Oslo', 2), ('Oslo', 1), ('Rome', 1)]
        """
        given = materialized_of(materialized, store)
        return self._aggregate(names.TABLE_AGGREGATE, nodes.Aggregation(kind="count"), given, INT, name)

    def reduce(
        self,
        adder: Reducer[V],
        subtractor: Reducer[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Combine the values of each group with two functions of (aggregate, value): one adds a value, the other
        subtracts it."""
        aggregation = nodes.Aggregation(
            kind="reduce",
            add=reducer_of(adder, "adder"),
            subtract=user_function(subtractor, "reduce", REDUCER, hint=NO_KEY, context=True),
        )
        given = materialized_of(materialized, store)
        return self._aggregate(names.TABLE_REDUCE, aggregation, given, self._value, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        adder: Callable[[K, V, R], R],
        subtractor: Aggregator[K, V, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        adder: Callable[[K, V, R, RecordContext], R],
        subtractor: Aggregator[K, V, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def aggregate(
        self,
        *,
        value: type[R],
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        **aggregates: NamedAggregate,
    ) -> KTable[K, R]: ...

    @overload
    def aggregate(
        self,
        *,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        **aggregates: NamedAggregate,
    ) -> KTable[K, Any]: ...

    @or_by_name
    def aggregate(
        self,
        initializer: Callable[[], R],
        adder: Aggregator[K, V, R],
        subtractor: Aggregator[K, V, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]:
        """Aggregate the values of each group with two functions of (key, value, aggregate): one adds a value, the other
        subtracts it.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.to_table().group_by(lambda key, v: (v["city"], v["age"]))
        ...      .aggregate(int, lambda city, age, total: total + age, lambda city, age, total: total - age),
        ...      [("ann", {"city": "Oslo", "age": 30}), ("ann", {"city": "Oslo", "age": 31})])
        [('Oslo', 30), ('Oslo', 31)]
        """
        value, given = kept_as("aggregate", value, materialized, store)
        aggregation, result = aggregation_of(initializer, adder, value, subtractor)
        return self._aggregate(names.TABLE_AGGREGATE, aggregation, given, result, name)

    @property
    def _aggregated(self) -> tuple[Serde, bool]:
        """The type of the values that are aggregated, and whether they are rows that change."""
        return self._value, True

    def _aggregate(
        self, prefix: str, aggregation: nodes.Aggregation, given: Materialized | None, value: Serde, name: str | None
    ) -> KTable[Any, Any]:
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
                carries_changes=True,
            )
        graph.add(self._repartition)
        node = nodes.TableAggregate(
            name=own_name, parents=(self._repartition,), where=caller(), aggregation=aggregation, store=spec
        )
        assert spec.key is not None
        assert spec.value is not None
        return KTable(graph, graph.add(node), spec.key, spec.value)
