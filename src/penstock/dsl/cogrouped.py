"""Several grouped streams before their joint aggregation (KIP-150)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from penstock.dsl.aggregations import aggregator_of, initializer_of, merger_of
from penstock.dsl.functions import Aggregator, Merger
from penstock.dsl.graph import K, R, V
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized, kept_as
from penstock.dsl.results import aggregated_type
from penstock.dsl.windowed import checked_windows, node_type, windowed_key
from penstock.dsl.windows import OwnWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import UserFunction, caller
from penstock.record import Windowed
from penstock.usage.java_names import KafkaNames

if TYPE_CHECKING:
    from penstock.dsl.grouped import KGroupedStream

Groups = tuple[tuple["KGroupedStream[Any, Any]", UserFunction], ...]
"""The streams, each with its aggregator."""


class CogroupedKStream(KafkaNames, Generic[K, R]):
    """Several grouped streams that share one aggregate for each key. Each stream has its own function of (key, value,
    aggregate).

    Records with a null key or a null value are dropped and counted.
    """

    def __init__(self, groups: Groups):
        self._groups = groups

    def cogroup(self, grouped: KGroupedStream[K, V], aggregator: Aggregator[K, V, R]) -> CogroupedKStream[K, R]:
        """Add another stream with its aggregator. If the stream is already there, it gets the new aggregator."""
        from penstock.dsl.grouped import KGroupedStream

        if not isinstance(grouped, KGroupedStream):
            raise TopologyError(
                f"cogroup at {caller()} takes a grouped stream, such as stream.group_by_key(), and an aggregator; "
                f"got {grouped!r} of type {type(grouped).__name__}"
            )
        if self._groups and grouped._graph is not self._groups[0][0]._graph:
            raise TopologyError(
                f"cogroup at {caller()}: the grouped streams come from different builders; begin all with the same one"
            )
        if self._groups and grouped._key != self._groups[0][0]._key:
            raise TopologyError(
                f"cogroup at {caller()}: the streams have keys of type {self._groups[0][0]._key.name} and "
                f"{grouped._key.name}, so equal keys are not equal bytes. Bring one to the other's type with select_key"
            )
        groups = dict(self._groups)
        groups[grouped] = aggregator_of(aggregator, "cogroup")
        return CogroupedKStream(tuple(groups.items()))

    def aggregate(
        self,
        initializer: Callable[[], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]:
        """Aggregate the values that each key has in all streams, from an initial value.

        >>> from penstock.testing import pipe
        >>> def visits_and_orders(stream):
        ...     visits, orders = stream.filter(lambda k, v: v > 0), stream.filter(lambda k, v: v < 0)
        ...     both = visits.group_by_key().cogroup(lambda key, value, total: total + value)
        ...     both = both.cogroup(orders.group_by_key(), lambda key, value, total: total + 10 * value)
        ...     return both.aggregate(lambda: 0, value=int)
        >>> pipe(visits_and_orders, [("a", 1), ("a", -2), ("a", 3)])
        [('a', 1), ('a', -19), ('a', -16)]
        """
        value, given = kept_as("aggregate", value, materialized, store)
        return cogrouped_table(self._groups, initializer, None, None, value=value, given=given, name=name)

    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows | Windows
    ) -> TimeWindowedCogroupedKStream[K, R]: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, R]: ...

    def windowed_by(self, windows: Any) -> TimeWindowedCogroupedKStream[K, R] | SessionWindowedCogroupedKStream[K, R]:
        """Aggregate by key and window of time."""
        windows = checked_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._groups, windows)
        return TimeWindowedCogroupedKStream(self._groups, windows)


class TimeWindowedCogroupedKStream(KafkaNames, Generic[K, R]):
    """Grouped streams cut into tumbling, hopping, sliding or unlimited windows.

    >>> from penstock import TimeWindows
    >>> from penstock.testing import pipe
    >>> def sums(stream):
    ...     both = stream.group_by_key().cogroup(lambda key, value, total: total + value)
    ...     windows = TimeWindows.of_size_with_no_grace(10)
    ...     return both.windowed_by(windows).aggregate(lambda: 0, value=int)
    >>> pipe(sums, [("a", 1, 3), ("a", 2, 4)])
    [(Windowed(key='a', start=0, end=10), 1), (Windowed(key='a', start=0, end=10), 3)]
    """

    def __init__(self, groups: Groups, windows: TimeWindows | SlidingWindows | UnlimitedWindows | OwnWindows):
        self._groups = groups
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]:
        """Aggregate the values that each key and window has in all streams, from an initial value."""
        value, given = kept_as("aggregate", value, materialized, store)
        return cogrouped_table(self._groups, initializer, None, self._windows, value=value, given=given, name=name)


class SessionWindowedCogroupedKStream(KafkaNames, Generic[K, R]):
    """Grouped streams cut into sessions.

    >>> from penstock import SessionWindows
    >>> from penstock.testing import pipe
    >>> def sums(stream):
    ...     both = stream.group_by_key().cogroup(lambda key, value, total: total + value)
    ...     gap = SessionWindows.of_inactivity_gap_with_no_grace(10)
    ...     return both.windowed_by(gap).aggregate(lambda: 0, lambda key, left, right: left + right, value=int)
    >>> pipe(sums, [("a", 1, 3), ("a", 2, 30)])
    [(Windowed(key='a', start=3, end=3), 1), (Windowed(key='a', start=30, end=30), 2)]
    """

    def __init__(self, groups: Groups, windows: SessionWindows):
        self._groups = groups
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], R],
        merger: Merger[K, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]:
        """Aggregate the values that each session has in all streams; ``merger`` combines two sessions that merge."""
        merge = merger_of(merger)
        value, given = kept_as("aggregate", value, materialized, store)
        return cogrouped_table(self._groups, initializer, merge, self._windows, value=value, given=given, name=name)


def cogrouped_table(
    groups: Groups,
    initializer: Callable[[], R],
    merge: UserFunction | None,
    windows: Any,
    value: Any,
    given: Materialized | None,
    name: str | None,
) -> KTable[Any, Any]:
    """Build the table of an aggregation of several streams."""
    graph, where = groups[0][0]._graph, caller()
    functions = [function for _, function in groups]
    initialize = initializer_of(initializer)
    result = aggregated_type(value, functions, initialize, is_cogroup=True)
    store = graph.store(given, names.COGROUP_AGGREGATE, key=groups[0][0]._key, value=result)
    sides = tuple(
        graph.add(
            nodes.CogroupInput(
                name=graph.names.suffixed(name, f"-cogroup-agg-{side}", names.COGROUP_AGGREGATE),
                parents=(parent,),
                where=where,
                side=side,
                shared=store,
            )
        )
        for side, parent in enumerate([grouped.parent_for(store.name) for grouped, _ in groups])
    )
    merged = graph.names.suffixed(name, "-cogroup-merge", names.COGROUP_MERGE)
    aggregation = nodes.Aggregation(kind="aggregate", add=_by_side(functions), initialize=initialize.call, merge=merge)
    facts: dict[str, Any] = {"name": merged, "parents": sides, "where": where, "aggregation": aggregation}
    key, kept = store.types
    if windows is None:
        return KTable(graph, graph.add(nodes.StreamAggregate(store=store, **facts)), key, kept)
    node = graph.add(node_type(windows)(store=store, windows=windows, **facts))
    return KTable(graph, node, windowed_key(key, windows), kept)


def _by_side(functions: list[UserFunction]) -> UserFunction:
    """A function of (key, (side, value), aggregate) that calls the side's own."""
    calls = [(function.call, function.wants_context) for function in functions]

    def aggregate(key: Any, sided: tuple[int, Any], aggregate: Any, *context: Any) -> Any:
        side, value = sided
        call, wants_context = calls[side]
        return call(key, value, aggregate, *context) if wants_context else call(key, value, aggregate)

    wants_context = any(function.wants_context for function in functions)
    return UserFunction(aggregate, 3, False, functions[0].where, wants_context, "cogroup")
