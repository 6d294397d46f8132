"""A table: the newest value of every key, as a stream of its changes (KTable)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from penstock.dsl.graph import (
    DEFAULT_KEY,
    DEFAULT_VALUE,
    K2,
    V2,
    Graph,
    Handle,
    K,
    R,
    V,
    pair_annotation,
    result_type,
    shown,
)
from penstock.dsl.joins import METHODS, join_tables, join_tables_by_foreign_key
from penstock.dsl.kstream import KStream
from penstock.dsl.materialized import Materialized, materialized_of
from penstock.dsl.processors import store_names
from penstock.dsl.stream import KEY_VALUE, VALUE
from penstock.dsl.suppressed import Suppressed
from penstock.errors import ConfigError, TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import caller, user_function
from penstock.plan.names import check_name
from penstock.plan.node import Node, StoreSpec
from penstock.plan.passes.closing import window_wait
from penstock.plan.processors import transformer_function
from penstock.serdes import Serde, of

if TYPE_CHECKING:
    from penstock.dsl.grouped import KGroupedTable

LATEST = "latest"
COMPLETE = "complete"
"""What a join of versioned tables emits for records out of order: nothing, or all results that they change."""


class KTable(Generic[K, V]):
    """A table: each key has at most one value, and every record is the change of one key.

    Functions are only called with values that are there; a deletion (a null value) passes as it is.
    """

    def __init__(self, graph: Graph, node: Node, key: Serde, value: Serde):
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value

    def __repr__(self) -> str:
        return shown(type(self).__name__, self._key, self._value, self._node)

    def filter(
        self,
        predicate: Callable[[K, V], Any],
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The rows for which a function of (key, value) is true; a row that ceases to be one is deleted."""
        return self._filter(predicate, False, materialized_of(materialized, store), name)

    def filter_not(
        self,
        predicate: Callable[[K, V], Any],
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The rows for which a function of (key, value) is false; a row that ceases to be one is deleted."""
        return self._filter(predicate, True, materialized_of(materialized, store), name)

    def _filter(
        self, predicate: Callable[[K, V], Any], negate: bool, given: Materialized | None, name: str | None
    ) -> KTable[K, V]:
        function = user_function(predicate, "filter_not" if negate else "filter", KEY_VALUE)
        key, value, spec = self._spec(given, names.TABLE_FILTER, self._value)
        node = nodes.TableFilter(
            name=self._name(names.TABLE_FILTER, name),
            predicate=function,
            negate=negate,
            store=spec,
            materialized=given is not None,
            **self._at(),
        )
        return KTable(self._graph, self._graph.add(node), key, value)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...

    def map_values(
        self,
        mapper: Callable[..., Any],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """This table with new values, from a function of (value) or (key, value)."""
        function = user_function(mapper, "map_values", VALUE, KEY_VALUE)
        result = result_type(value, function.returns(), DEFAULT_VALUE)
        given = materialized_of(materialized, store)
        key, values, spec = self._spec(given, names.TABLE_MAP_VALUES, result)
        node = nodes.TableMapValues(
            name=self._name(names.TABLE_MAP_VALUES, name),
            mapper=function,
            value=values,
            store=spec,
            materialized=given is not None,
            **self._at(),
        )
        return KTable(self._graph, self._graph.add(node), key, values)

    def transform_values(
        self,
        supplier: Any,
        *stores: str,
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """This table with new values, from a transformer of yours that may keep state (KIP-292).

        Args:
            supplier: a ``ValueTransformerWithKey`` class, a supplier of them with ``get()``, or a function without
                arguments that returns a new one. It is asked for deleted rows too, with None.
            stores: the names of the stores it is connected to.
            value: the type of the new values; by default anything that JSON can say.
            store: the name of a store to keep them in.
            materialized: how to keep them.
            name: the step's name.

        Raises:
            TopologyError: the supplier is none of these; when the topology is built, that there is no such store.
        """
        given = materialized_of(materialized, store)
        key, values, spec = self._spec(
            given, names.TABLE_TRANSFORM_VALUES, DEFAULT_VALUE if value is None else of(value)
        )
        function = transformer_function(supplier, "transform_values")
        node = nodes.TableTransformValues(
            name=self._name(names.TABLE_TRANSFORM_VALUES, name),
            mapper=function.function,
            value=values,
            store=spec,
            materialized=given is not None,
            supplier=function,
            store_names=store_names(self._graph, supplier, stores, "transform_values"),
            **self._at(),
        )
        return KTable(self._graph, self._graph.add(node), key, values)

    @overload
    def to_stream(self, mapper: None = None, key: None = None, name: str | None = None) -> KStream[K, V]: ...

    @overload
    def to_stream(self, mapper: Callable[[K, V], K2], key: Any = None, name: str | None = None) -> KStream[K2, V]: ...

    def to_stream(
        self, mapper: Callable[[K, V], Any] | None = None, key: Any = None, name: str | None = None
    ) -> KStream[Any, V]:
        """The table's changes as a stream, deletions as null values; under new keys if a function of (key, value)
        gives them.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.to_table().to_stream(), [("a", 1), ("a", None)])
        [('a', 1), ('a', None)]
        """
        node = nodes.ToStream(name=self._name(names.TO_STREAM, name), **self._at())
        stream: KStream[K, V] = KStream(self._graph, self._graph.add(node), self._key, self._value)
        return stream if mapper is None else stream.select_key(mapper, key=key)

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Hold updates back: all but the final result of each window, or for some time, or in some memory (KIP-328).

        Args:
            suppressed: what to hold back, see :class:`penstock.Suppressed`.

        Raises:
            TopologyError: final results are asked for of a table that has no windows.

        >>> from penstock import BufferConfig, TimeWindows
        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
        ...      .suppress(Suppressed.until_window_closes(BufferConfig.unbounded())),
        ...      [("a", "x", 3), ("a", "y", 4), ("a", "z", 12)])
        [(Windowed(key='a', start=0, end=10), 2)]
        """
        if not isinstance(suppressed, Suppressed):
            raise ConfigError(
                "suppress takes a Suppressed, such as Suppressed.until_window_closes(BufferConfig.unbounded()); "
                f"got {suppressed!r}"
            )
        own_name = self._graph.names.node(names.SUPPRESS) if suppressed.name is None else check_name(suppressed.name)
        wait = window_wait(self._node) if suppressed.time_ms is None else suppressed.time_ms
        store = self._graph.names.store(names.SUPPRESS) if suppressed.name is None else f"{own_name}-store"
        spec = StoreSpec(name=store, named_by_user=False, key=self._key, value=self._value)
        node = nodes.Suppress(name=own_name, suppressed=suppressed, wait_ms=wait, store=spec, **self._at())
        return KTable(self._graph, self._graph.add(node), self._key, self._value)

    def group_by(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group the rows by the keys, and with the values, that a function of (key, value) gives; this repartitions.

        When a row changes, its old value leaves its old group and its new value joins its new one.
        """
        from penstock.dsl.grouped import KGroupedTable

        function = user_function(mapper, "group_by", KEY_VALUE)
        key_annotation, value_annotation = pair_annotation(function.returns())
        keys = result_type(key, key_annotation, DEFAULT_KEY)
        values = result_type(value, value_annotation, DEFAULT_VALUE)
        node = nodes.TableGroupBy(
            name=self._name(names.TABLE_SELECT, name), mapper=function, key=keys, value=values, **self._at()
        )
        return KGroupedTable(self._graph, self._graph.add(node), keys, values, name)

    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, R]: ...

    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, R]: ...

    def join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, Any]:
        """The keys that both tables have, with what a function of (left value, right value), or of (key, left value,
        right value), makes of the two; every change of either side changes the result.

        >>> from penstock.testing import pipe
        >>> def doubled_and_itself(stream):
        ...     table = stream.to_table()
        ...     return table.map_values(lambda value: 2 * value).join(table, lambda left, right: [left, right])
        >>> pipe(doubled_and_itself, [("a", 1), ("a", None)])
        [('a', [2, 1]), ('a', [2, 1])]

        Args:
            other: the right side; it has keys of the same type, and topics of as many partitions.
            joiner: makes a value of both values.
            value: the type of the results.
            store, materialized: how the result is kept; without them it is kept nowhere.
            name: the step's name.
            foreign_key: a function of (value) or (key, value) that gives the key of the other table's row that a row
                of this one belongs to. Without it, rows of equal keys belong together. Rows of windows meet nothing any
                more when their store has let go of them (``Materialized.with_retention``). As in Kafka Streams, a value
                of no bytes in the other table, such as an empty string, counts as none here.
            versioned_join: what to emit for out-of-order records of versioned tables: by default nothing, as in Kafka
                Streams (KIP-914), so that the newest result is right. With "complete" every result that such a record
                changes, at its time, so that the results, read as a versioned table, are right at every timestamp
                that both tables' history retentions reach. Both tables must be versioned, and what is made of the
                result is versioned, too; give a store of it the longer history retention of the two.

        Raises:
            TopologyError: a complete join has a table, or is itself to be kept in a store, that is not versioned; the
                two sides have keys of different types.

        >>> from penstock import Materialized, StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int, materialized=Materialized.as_versioned("prices", "1 day"))
        >>> stocks = builder.table("stocks", value=int, materialized=Materialized.as_versioned("stocks", "1 day"))
        >>> joined = prices.join(stocks, lambda price, stock: f"{price} x {stock}",
        ...                      versioned_join="complete")
        >>> joined.to_stream().to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for topic, value, timestamp in [("stocks", 7, 0), ("prices", 30, 5), ("prices", 20, 2)]:
        ...         driver.pipe_input(topic, "tea", value, timestamp)
        ...     [(record.value, record.timestamp) for record in driver.read_output("out")]
        [('30 x 7', 5), ('20 x 7', 2)]
        """
        return self._join(
            nodes.INNER, other, joiner, value, materialized_of(materialized, store), name, versioned_join, foreign_key
        )

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, R]: ...

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, R]: ...

    def left_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, Any]:
        """Every key of this table, joined as by ``join``; where the other one has no value the function gets None."""
        return self._join(
            nodes.LEFT, other, joiner, value, materialized_of(materialized, store), name, versioned_join, foreign_key
        )

    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, R]: ...

    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, R]: ...

    def outer_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any = None,
        store: str | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, Any]:
        """Every key of either table, joined as by ``join``; where one has no value the function gets None for it."""
        return self._join(nodes.OUTER, other, joiner, value, materialized_of(materialized, store), name, versioned_join)

    def _join(
        self,
        kind: str,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any,
        given: Materialized | None,
        name: str | None,
        versioned_join: str,
        foreign_key: Callable[..., Any] | None = None,
    ) -> KTable[K, Any]:
        if versioned_join not in (LATEST, COMPLETE):
            raise ConfigError(
                f"versioned_join at {caller()} must be {LATEST!r} or {COMPLETE!r}; got {versioned_join!r}"
            )
        if foreign_key is not None and versioned_join == COMPLETE:
            raise ConfigError(
                f"the join at {caller()} is by a foreign key, for which there is no versioned_join={COMPLETE!r}; leave "
                "one of the two out"
            )
        if not isinstance(other, KTable):
            raise TopologyError(f"{METHODS[kind]} at {caller()} joins a table with a table; got {other!r}")
        if foreign_key is not None:
            made = join_tables_by_foreign_key(
                kind, self._handle, other._handle, foreign_key, joiner, value, given, name
            )
        else:
            complete = versioned_join == COMPLETE
            made = join_tables(kind, self._handle, other._handle, joiner, value, given, name, complete)
        return KTable(made.graph, made.node, made.key, made.value)

    # --- inside --------------------------------------------------------------------------------------------------

    @property
    def _handle(self) -> Handle:
        return Handle(self._graph, self._node, self._key, self._value)

    def _name(self, prefix: str, given: str | None) -> str:
        return self._graph.names.node(prefix, given)

    def _at(self) -> dict[str, Any]:
        return {"parents": (self._node,), "where": caller()}

    def _spec(self, given: Materialized | None, prefix: str, value: Serde) -> tuple[Serde, Serde, StoreSpec | None]:
        """The types of a derived table, and its store if it was given a name for one."""
        if given is None:
            return self._key, value, None
        spec = self._graph.store(given, prefix, key=self._key, value=value)  # uses up a number without a name
        assert spec.key is not None
        assert spec.value is not None
        return spec.key, spec.value, spec if spec.named_by_user else None
