"""Grouped streams in time windows, before their aggregation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, overload

from penstock.dsl.aggregates import or_by_name
from penstock.dsl.aggregations import aggregation_of, burn_count_name, reduction_of
from penstock.dsl.functions import Aggregator, Merger, Reducer
from penstock.dsl.graph import K, R, V
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized, kept_as, materialized_of
from penstock.dsl.windows import (
    EmitStrategy,
    OwnWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)
from penstock.errors import ConfigError, TopologyError
from penstock.plan import names, nodes
from penstock.plan.aggregates.named import NamedAggregate
from penstock.plan.functions import caller
from penstock.plan.own_windows import ends_of_windows, own_windows_of, refuse_ignored
from penstock.processor import RecordContext
from penstock.record import Windowed
from penstock.serdes import INT, Serde, SessionWindowedSerde, TimeWindowedSerde, WindowedSerde
from penstock.serdes.nullable import NullableSerde
from penstock.usage.java_names import KafkaNames

if TYPE_CHECKING:
    from penstock.dsl.grouped import KGroupedStream


class TimeWindowedKStream(KafkaNames, Generic[K, V]):
    """A grouped stream cut into tumbling, hopping, sliding or unlimited windows.

    Penstock drops and counts records with a null key, and with sliding windows also records with a null value.
    """

    def __init__(
        self,
        grouped: KGroupedStream[K, V],
        windows: TimeWindows | SlidingWindows | UnlimitedWindows | OwnWindows,
        emit: EmitStrategy | None = None,
    ):
        self._grouped = grouped
        self._windows = windows
        self._emit = emit or EmitStrategy.on_window_update()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._grouped!r} in {self._windows}>"

    def emit_strategy(self, strategy: EmitStrategy) -> TimeWindowedKStream[K, V]:
        """Choose when these windows send their results.

        Raises:
            TopologyError: the strategy asks for final results of unlimited windows, which never close.
        """
        check_emit_strategy(strategy)
        if strategy.final and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError(
                f"emit_strategy at {caller()}: an unlimited window never closes, so it has no final result; "
                "use EmitStrategy.on_window_update(), or windows that end"
            )
        return TimeWindowedKStream(self._grouped, self._windows, strategy)

    def count(
        self, store: str | Materialized | None = None, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable[Windowed[K], int]:
        """Count the records of each key in each window. The keys of the result are ``Windowed``."""
        given = materialized_of(materialized, store)
        if not isinstance(self._windows, SlidingWindows):
            burn_count_name(self._grouped._graph, given)
        return self._aggregate(names.STREAM_AGGREGATE, nodes.Aggregation(kind="count"), given, INT, name)

    def reduce(
        self,
        reducer: Reducer[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each key and window with a function of (aggregate, value)."""
        given = materialized_of(materialized, store)
        return self._aggregate(names.STREAM_REDUCE, reduction_of(reducer), given, self._grouped._value, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R, RecordContext], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
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
    ) -> KTable[Windowed[K], R]: ...

    @overload
    def aggregate(
        self,
        *,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        **aggregates: NamedAggregate,
    ) -> KTable[Windowed[K], Any]: ...

    @or_by_name
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Aggregator[K, V, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]:
        """Aggregate the values of each key and window with a function of (key, value, aggregate)."""
        value, given = kept_as("aggregate", value, materialized, store)
        aggregation, result = aggregation_of(initializer, aggregator, value)
        return self._aggregate(names.STREAM_AGGREGATE, aggregation, given, result, name)

    @property
    def _aggregated(self) -> tuple[Serde, bool]:
        """The type of the values that are aggregated, and whether they are rows that change."""
        return self._grouped._value, False

    def _aggregate(
        self, prefix: str, aggregation: nodes.Aggregation, given: Materialized | None, value: Serde, name: str | None
    ) -> KTable[Any, Any]:
        return windowed_table(
            self._grouped,
            self._windows,
            self._emit,
            prefix,
            aggregation=aggregation,
            given=given,
            value=value,
            name=name,
        )

    def distinct(
        self,
        named: str | Materialized | None = None,
        materialized: Materialized | None = None,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """Keep the first record of each key and window, and drop the later ones (KIP-655).

        Args:
            named: the step's name; ``name`` is the same.
            materialized: the options of the table's store. Without a name, you can pass it as the first argument.
            store: the store's name.

        >>> from penstock.testing import pipe
        >>> ten = TimeWindows.of_size_with_no_grace(10)
        >>> pipe(lambda stream: stream.group_by_key().windowed_by(ten).distinct(),
        ...      [("a", 1, 4), ("a", 2, 5), ("a", 3, 12)])
        [(Windowed(key='a', start=0, end=10), 1), (Windowed(key='a', start=10, end=20), 3)]

        Raises:
            TopologyError: the windows overlap, so that a record would come out several times.
        """
        windows = self._windows
        if kind := _overlapping(windows):
            raise TopologyError(
                f"distinct at {caller()}: {kind} windows overlap, so a record would be multiplied instead of "
                "deduplicated; use tumbling windows or sessions"
            )
        given, own_name = _distinct_as(named, materialized, name, store)
        return distinct_table(self._grouped, windows, self._emit, nodes.WindowDistinct, given, own_name)


class SessionWindowedKStream(KafkaNames, Generic[K, V]):
    """A grouped stream cut into sessions. Records with a null key are dropped and counted."""

    def __init__(self, grouped: KGroupedStream[K, V], windows: SessionWindows, emit: EmitStrategy | None = None):
        self._grouped = grouped
        self._windows = windows
        self._emit = emit or EmitStrategy.on_window_update()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._grouped!r} in {self._windows}>"

    def emit_strategy(self, strategy: EmitStrategy) -> SessionWindowedKStream[K, V]:
        """Choose when these sessions send their results.

        Raises:
            TopologyError: the strategy asks for final results of sessions that never close (the form of KIP-94, without
                a grace period).
        """
        check_emit_strategy(strategy)
        if strategy.final and not self._windows.closes:
            raise TopologyError(
                f"emit_strategy at {caller()}: sessions of SessionWindows.inactivity_gap() have no grace period and "
                "never close; use SessionWindows.of_inactivity_gap_and_grace(gap, grace)"
            )
        return SessionWindowedKStream(self._grouped, self._windows, strategy)

    def count(
        self, store: str | Materialized | None = None, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable[Windowed[K], int]:
        """Count the records in each session. If sessions merge, the old sessions get null values.

        >>> from penstock.testing import pipe
        >>> sessions = SessionWindows.of_inactivity_gap_with_no_grace(5)
        >>> for row in pipe(lambda stream: stream.group_by_key().windowed_by(sessions).count(),
        ...                 [("a", "x", 3), ("a", "y", 6)]):
        ...     print(row)
        (Windowed(key='a', start=3, end=3), 1)
        (Windowed(key='a', start=3, end=3), None)
        (Windowed(key='a', start=3, end=6), 2)
        """
        given = materialized_of(materialized, store)
        burn_count_name(self._grouped._graph, given)
        return self._aggregate(names.STREAM_AGGREGATE, nodes.Aggregation(kind="count"), given, INT, name)

    def reduce(
        self,
        reducer: Reducer[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each session with a function of (aggregate, value), which also merges sessions."""
        given = materialized_of(materialized, store)
        return self._aggregate(names.STREAM_REDUCE, reduction_of(reducer), given, self._grouped._value, name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        merger: Merger[K, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]: ...

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R, RecordContext], R],
        merger: Merger[K, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
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
    ) -> KTable[Windowed[K], R]: ...

    @overload
    def aggregate(
        self,
        *,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        **aggregates: NamedAggregate,
    ) -> KTable[Windowed[K], Any]: ...

    @or_by_name
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Aggregator[K, V, R],
        merger: Merger[K, R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]:
        """Aggregate the values of each session with a function of (key, value, aggregate).

        Args:
            initializer: a function that returns the initial aggregate of a session.
            aggregator: a function of (key, value, aggregate).
            merger: a function of (key, one aggregate, other aggregate), for sessions that merge.
            value: the type of the aggregate.
            store: the store's name.
            materialized: the options of the table's store.
            name: the step's name.
        """
        value, given = kept_as("aggregate", value, materialized, store)
        aggregation, result = aggregation_of(initializer, aggregator, value, merger=merger)
        return self._aggregate(names.STREAM_AGGREGATE, aggregation, given, result, name)

    def distinct(
        self,
        named: str | Materialized | None = None,
        materialized: Materialized | None = None,
        *,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """Keep the first record of each new session, and drop records that extend or merge sessions (KIP-655)."""
        given, own_name = _distinct_as(named, materialized, name, store)
        return distinct_table(self._grouped, self._windows, self._emit, nodes.SessionDistinct, given, own_name)

    @property
    def _aggregated(self) -> tuple[Serde, bool]:
        """The type of the values that are aggregated, and whether they are rows that change."""
        return self._grouped._value, False

    def _aggregate(
        self, prefix: str, aggregation: nodes.Aggregation, given: Materialized | None, value: Serde, name: str | None
    ) -> KTable[Any, Any]:
        return windowed_table(
            self._grouped,
            self._windows,
            self._emit,
            prefix,
            aggregation=aggregation,
            given=given,
            value=value,
            name=name,
        )


def _overlapping(windows: Any) -> str:
    """The kind of windows of which a record may be in several; empty for others."""
    if isinstance(windows, OwnWindows):
        return "" if windows.calendar is not None else f"nothing says whether {type(windows.windows).__name__}"
    if isinstance(windows, SlidingWindows):
        return "sliding"
    return "hopping" if windows.advance_ms < windows.size_ms else ""


def _distinct_as(
    named: str | Materialized | None, materialized: Materialized | None, name: str | None, store: str | None
) -> tuple[Materialized | None, str | None]:
    """Sort out how a ``distinct`` is kept and named; the KIP's text has it take either argument, or both."""
    if isinstance(named, Materialized):
        if materialized is not None:
            raise ConfigError(f"distinct at {caller()} got two Materialized: {named!r} and {materialized!r}; give one")
        named, materialized = None, named
    if named is not None and name is not None:
        raise ConfigError(f"distinct at {caller()}: named= and name= are the same; got {named!r} and {name!r}")
    return materialized_of(materialized, store), name if named is None else named


def distinct_table(
    grouped: KGroupedStream[K, V],
    windows: Any,
    emit: EmitStrategy,
    node: type[Any],
    given: Materialized | None,
    name: str | None,
) -> KTable[Any, Any]:
    """Build the table of the first records of windows; its store has null as a value like any other."""
    if emit.final:
        raise TopologyError(
            f"distinct at {caller()} sends the first record of a window at once, and no other; remove "
            "emit_strategy(EmitStrategy.on_window_close())"
        )
    graph = grouped._graph
    spec = graph.store(given, names.DISTINCT, key=grouped._key, value=grouped._value)
    own_name = graph.names.node(names.DISTINCT, name)
    assert spec.key is not None
    assert spec.value is not None
    made = node(
        name=own_name,
        parents=(grouped.parent_for(spec.name),),
        where=caller(),
        aggregation=nodes.Aggregation(kind="count"),
        windows=windows,
        store=replace(spec, value=NullableSerde(spec.value)),
    )
    return KTable(graph, graph.add(made), windowed_key(spec.key, windows), spec.value)


def windowed_table(
    grouped: KGroupedStream[K, V],
    windows: Any,
    emit: EmitStrategy,
    prefix: str,
    aggregation: nodes.Aggregation,
    given: Materialized | None,
    value: Serde,
    name: str | None,
) -> KTable[Any, Any]:
    """Build the table of a windowed aggregation."""
    graph = grouped._graph
    spec = graph.store(given, prefix, key=grouped._key, value=value)
    own_name = graph.names.node(prefix, name)
    node = node_type(windows)(
        name=own_name,
        parents=(grouped.parent_for(spec.name),),
        where=caller(),
        aggregation=aggregation,
        windows=windows,
        final=emit.final,
        store=spec,
    )
    assert spec.key is not None
    assert spec.value is not None
    return KTable(graph, graph.add(node), windowed_key(spec.key, windows), spec.value)


def _said(windows: Any) -> str:
    if isinstance(windows, type):
        return f"the class {windows.__name__} itself, which has no size"
    return f"{windows!r} of type {type(windows).__name__}"


def checked_windows(windows: Any) -> Any:
    """Return windows as steps take them; raise ``TopologyError`` if the argument is no kind of windows."""
    if isinstance(windows, Windows):
        return own_windows_of(windows)
    if not isinstance(windows, TimeWindows | SlidingWindows | UnlimitedWindows | SessionWindows):
        raise TopologyError(
            f"windowed_by at {caller()} takes TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, for "
            f"example TimeWindows.of_size_and_grace(...); got {_said(windows)}"
        )
    refuse_ignored(windows, "windowed_by")
    return windows


def node_type(windows: Any) -> type[Any]:
    """The kind of step that aggregates in windows of this kind."""
    if isinstance(windows, SessionWindows):
        return nodes.SessionAggregate
    return nodes.SlidingAggregate if isinstance(windows, SlidingWindows) else nodes.WindowAggregate


def windowed_key(key: Serde, windows: Any) -> WindowedSerde:
    """The type of keys with windows of this kind."""
    if isinstance(windows, SessionWindows):
        return SessionWindowedSerde(key)
    return TimeWindowedSerde(key, ends_of_windows(windows))


def check_emit_strategy(strategy: Any) -> None:
    if not isinstance(strategy, EmitStrategy):
        raise ConfigError(
            f"emit_strategy takes EmitStrategy.on_window_update() or EmitStrategy.on_window_close(), got {strategy!r}"
        )
