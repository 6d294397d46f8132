"""A table: the newest value of every key, as a stream of its changes (KTable)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from penstock.dsl.dataframes import TABLE_MODES, Asked, add_table_sink
from penstock.dsl.functions import KEY_VALUE, VALUE, OfKeyValue
from penstock.dsl.graph import K2, V2, K, R, V
from penstock.dsl.joins import WHERE_IT_WAS
from penstock.dsl.kstream import KStream
from penstock.dsl.materialized import Materialized, kept_as, kept_with_context, materialized_of
from penstock.dsl.predicates import predicate_of
from penstock.dsl.processors import store_names
from penstock.dsl.repartitioned import Grouped, grouped_of
from penstock.dsl.results import Annotated, annotated, key_type, value_type
from penstock.dsl.sinks import KEEP, MAX_BEHIND, RETRY_FOR, Limits, Wanted, add_sink
from penstock.dsl.suppressed import Suppressed
from penstock.dsl.table_joins import TableJoins
from penstock.errors import ConfigError, TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import UserFunction, caller, user_function
from penstock.plan.names import check_name
from penstock.plan.node import StoreSpec
from penstock.plan.options import in_place_of
from penstock.plan.passes.closing import window_wait
from penstock.plan.processors import transformer_function
from penstock.processor import RecordContext
from penstock.serdes import Serde
from penstock.values.durations import Duration

if TYPE_CHECKING:
    from penstock.dsl.grouped import KGroupedTable
    from penstock.sinks.protocol import Sink


class KTable(TableJoins[K, V]):
    """A table: each key has at most one value, and each record changes the value of one key.

    A null value deletes its key. Penstock passes deletions on without a call of your functions.
    """

    def filter(
        self,
        predicate: OfKeyValue[K, V, Any],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Keep the rows for which a function of (key, value) is true. A row for which it becomes false is deleted."""
        return self._filter(predicate, False, materialized_of(materialized, store), name)

    def filter_not(
        self,
        predicate: OfKeyValue[K, V, Any],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Keep the rows for which a function of (key, value) is false. A row for which it becomes true is deleted."""
        return self._filter(predicate, True, materialized_of(materialized, store), name)

    def _filter(
        self, predicate: OfKeyValue[K, V, Any], negate: bool, given: Materialized | None, name: str | None
    ) -> KTable[K, V]:
        function = predicate_of(predicate, negate)
        key, value, spec = self._spec(given, names.TABLE_FILTER, self._value, function)
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
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[K, V, RecordContext], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...

    def map_values(
        self,
        mapper: Callable[..., Any],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Give each row a new value, from a function of (value) or (key, value)."""
        value, given = kept_as("map_values", value, materialized, store)
        function = user_function(mapper, "map_values", VALUE, KEY_VALUE, context=True)
        result = value_type(value, annotated(function), self._value)
        key, values, spec = self._spec(given, names.TABLE_MAP_VALUES, result, function)
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
        *stores: str | Materialized,
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Give each row a new value, from your own transformer, which may keep state (KIP-292).

        Args:
            supplier: a ``ValueTransformerWithKey`` class, a supplier with ``get()``, or a function without arguments
                that returns a new transformer. For a deleted row, the transformer gets None.
            stores: the names of the stores that the transformer uses. You can pass a ``Materialized`` before them, as
                in Kafka Streams.
            value: the type of the new values; by default the annotation of ``transform``, or else the type of this
                table's values.
            store: the name of a store to keep them in.
            materialized: how to keep them.
            name: the step's name.

        Raises:
            TopologyError: the supplier is none of these; when the topology is built, that there is no such store.
            ProcessingError: while it runs: the transformer forwards a record, which only a processor may do, or
                schedules a punctuation outside of ``init``; or it schedules one although other steps read its table,
                which has no store.
        """
        first, *others = (*stores, None)
        materialized, first = in_place_of(Materialized, first, materialized, "transform_values", "materialized")
        connected = [name for name in (first, *others) if name is not None]
        given = materialized_of(materialized, store)
        function = transformer_function(supplier, "transform_values")
        result = value_type(value, Annotated(function.returns, None), self._value)
        key, values, spec = self._spec(given, names.TABLE_TRANSFORM_VALUES, result)
        node = nodes.TableTransformValues(
            name=self._name(names.TABLE_TRANSFORM_VALUES, name),
            mapper=function.function,
            value=values,
            store=spec,
            materialized=given is not None,
            supplier=function,
            store_names=store_names(self._graph, supplier, connected, "transform_values"),
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
        """Return the table's changes as a stream, with deletions as null values. A function of (key, value) may return
        new keys.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.to_table().to_stream(), [("a", 1), ("a", None)])
        [('a', 1), ('a', None)]
        """
        if mapper is None and key is not None:
            raise TopologyError(
                f"to_stream at {caller()}: key= is the type of new keys, which a function of (key, value) gives; "
                f"got key={key!r} and no function"
            )
        node = nodes.ToStream(name=self._name(names.TO_STREAM, name), **self._at())
        stream: KStream[K, V] = KStream(self._graph, self._graph.add(node), self._key, self._value)
        if mapper is None:
            return stream
        renamed = stream._select_key(mapper, "to_stream", key, None)
        return stream._next(renamed, key=renamed.key)

    def to_spark_table(
        self,
        table: str | None = None,
        mode: str = "upsert",
        *,
        path: Path | str | None = None,
        format: str | None = None,
        key: str = "key",
        value: str = "value",
        timestamp: str | None = None,
        name: str | None = None,
        trigger: Duration | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep another table equal to this one: in Spark's catalog, at a path, or in a database (docs/spark.md).

        The table merges each change by its key: a new key adds a row, a known key changes its row, a deletion removes
        its row. The program starts, watches and stops the Spark query that writes the table.

        Args:
            table: the table's name, such as ``"lake.shop.totals"``; if it does not exist and ``format`` is
                given, the program creates it.
            mode: ``"upsert"``; ``to_stream().to_spark_table(...)`` appends each change.
            path: the folder or URL of the table, in place of ``table``.
            format: Spark's name for the kind of table: ``"delta"``, ``"iceberg"``, ``"parquet"``, ``"jdbc"``. By
                default that of a table that exists, or of its catalog.
            key: the name of the column of the keys. Structs become their fields, and a windowed
                key its key, ``window_start`` and ``window_end``.
            value: the name of the column of the values; structs become their fields.
            timestamp: the name of a column with the records' times; none by default.
            name: names the internal topic and the query; required if the table's name has other characters than
                letters, digits and dots. Keep it when you change the program.
            trigger: how often the query writes; by default every second.
            options: Spark's options of the format; for ``"jdbc"``, these include ``url``, ``user`` and ``password``.
                Give secrets as ``"env:NAME"`` or ``"file:/path"``.

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> totals = builder.stream("orders", key=str, value=int).group_by_key().count("totals")
        >>> totals.to_spark_table("lake.shop.totals", format="delta", key="customer", value="orders")

        Raises:
            TopologyError: the target does not have the mode, or the arguments do not fit together.
        """
        names_ = {"key": key, "value": value, "timestamp": timestamp, "name": name}
        asked = Asked(table, mode, path, format, trigger=trigger, options=options, **names_)
        add_table_sink(self.to_stream()._handle, "to_spark_table", asked, TABLE_MODES)

    def to_sink(
        self,
        sink: Sink,
        name: str,
        *,
        key: str = "key",
        value: str = "value",
        timestamp: str | None = "timestamp",
        max_behind: int = MAX_BEHIND,
        retry_for: Duration = RETRY_FOR,
        keep: Duration = KEEP,
        missing: Literal["stop", "skip"] = "stop",
    ) -> None:
        """Write the changes into a sink, exactly once. Each key has one row there, and a deleted key has no row
        (docs/sinks.md).

        The arguments are those of ``KStream.to_sink``, but ``key`` cannot be None.

        Raises:
            TopologyError: an argument is not valid.

        >>> from penstock import StreamsBuilder
        >>> from penstock.sinks import SqliteSink
        >>> builder = StreamsBuilder()
        >>> totals = builder.stream("orders", key=str).group_by_key().count("totals")
        >>> totals.to_sink(SqliteSink("shop.db", "totals"), "totals", key="customer", value="orders")
        """
        limits = Limits(max_behind, retry_for, keep, missing)
        add_sink(self.to_stream()._handle, Wanted(sink, name, (key, value, timestamp), limits, is_table=True))

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Hold back updates: all except the final result of each window, or within limits of time and memory (KIP-328).

        Args:
            suppressed: the choice of the updates to hold back; see :class:`penstock.Suppressed`.

        Raises:
            TopologyError: ``suppressed`` asks for final results, but the table has no windows.

        >>> from penstock import BufferConfig, TimeWindows
        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
        ...      .suppress(Suppressed.until_window_closes(BufferConfig.unbounded())),
        ...      [("a", "x", 3), ("a", "y", 4), ("a", "z", 12)])
        [(Windowed(key='a', start=0, end=10), 2)]
        """
        if not isinstance(suppressed, Suppressed):
            raise ConfigError(
                f"suppress at {caller()} takes a Suppressed, such as "
                f"Suppressed.until_window_closes(BufferConfig.unbounded()); got {suppressed!r}"
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
        grouped: Grouped | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group the rows by new keys: a function of (key, value) returns the new key and the value to aggregate. This
        repartitions.

        When a row changes, the aggregation subtracts its old value from the old group, and adds its new value to the
        new group. You can also give types and name in a ``Grouped``: after the function, as in Kafka Streams, or as
        ``grouped=``.
        """
        from penstock.dsl.grouped import KGroupedTable

        grouped, key = in_place_of(Grouped, key, grouped, "group_by", "grouped")
        given = grouped_of("group_by", grouped, key, value, name)
        function = user_function(mapper, "group_by", KEY_VALUE, why_not=WHERE_IT_WAS)
        said = annotated(function)
        keys, values = key_type(given.key, said.key, self._key), value_type(given.value, said.value, self._value)
        node = nodes.TableGroupBy(
            name=self._name(names.TABLE_SELECT, given.name), mapper=function, key=keys, value=values, **self._at()
        )
        return KGroupedTable(self._graph, self._graph.add(node), keys, values, given.name)

    @property
    def queryable_store_name(self) -> str | None:
        """The name of the table's store, for ``streams.store(...)``; None if the program does not name the store.

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=float, store="prices")
        >>> prices.queryable_store_name, prices.filter(lambda key, price: price > 0).queryable_store_name
        ('prices', None)
        """
        spec = self._node.store
        return spec.name if spec is not None and spec.named_by_user else None

    # --- inside --------------------------------------------------------------------------------------------------

    def _name(self, prefix: str, given: str | None) -> str:
        return self._graph.names.node(prefix, given)

    def _at(self) -> dict[str, Any]:
        return {"parents": (self._node,), "where": caller()}

    def _spec(
        self, given: Materialized | None, prefix: str, value: Serde, function: UserFunction | None = None
    ) -> tuple[Serde, Serde, StoreSpec | None]:
        """The types of a derived table, and its store if it was given a name for one, or has to have one."""
        given = kept_with_context(given, function)
        if given is None:
            return self._key, value, None
        spec = self._graph.store(given, prefix, key=self._key, value=value)  # uses up a number without a name
        assert spec.key is not None
        assert spec.value is not None
        is_kept = spec.named_by_user or (function is not None and function.wants_context)
        return spec.key, spec.value, spec if is_kept else None
