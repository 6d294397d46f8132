"""The joins of a table: with another table, by the same key or by a foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from penstock.dsl.graph import V2, Graph, Handle, K, R, V, html_of, shown
from penstock.dsl.joined import TableJoined
from penstock.dsl.joins import METHODS, join_tables, join_tables_by_foreign_key
from penstock.dsl.materialized import Materialized, kept_as
from penstock.errors import ConfigError, TopologyError
from penstock.plan import nodes
from penstock.plan.functions import caller
from penstock.plan.node import Node
from penstock.plan.options import in_place_of, said_once
from penstock.plan.sinks import Partitioner
from penstock.serdes import Serde
from penstock.usage.java_names import KafkaNames

if TYPE_CHECKING:
    from penstock.dsl.ktable import KTable

LATEST = "latest"
COMPLETE = "complete"
"""Results of a join of versioned tables for out-of-order records: nothing, or all results that change."""


class TableJoins(KafkaNames, Generic[K, V]):
    """The joins of a table; users have a ``KTable``."""

    def __init__(self, graph: Graph, node: Node, key: Serde, value: Serde):
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        return shown(type(self).__name__, self._key, self._value, self._node)

    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]: ...

    def join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, Any]:
        """Join the rows whose keys are in both tables. The joiner is a function of (left value, right value), or of
        (key, left value, right value). Every change of either side changes the result.

        >>> from penstock.testing import pipe
        >>> def doubled_and_itself(stream):
        ...     table = stream.to_table()
        ...     return table.map_values(lambda value: 2 * value).join(table, lambda left, right: [left, right])
        >>> pipe(doubled_and_itself, [("a", 1), ("a", None)])
        [('a', [2, 1]), ('a', [2, 1])]

        Args:
            other: the right side. It must have keys of the same type, and topics with the same number of partitions.
            joiner: makes one value of both values.
            value: the type of the results.
            store: the name of a store for the result; without one, the result is not kept.
            materialized: how to keep the result.
            name: the step's name.
            foreign_key: a function of (value) or (key, value) that returns the key of the matching row in the other
                table. Without it, rows with equal keys match. Rows of windows match nothing after their store has
                dropped them (``Materialized.with_retention``). As in Kafka Streams, an empty value in the other table,
                such as an empty string, counts as no row.
            versioned_join: the results of out-of-order records of versioned tables. By default such a record has no
                result, as in Kafka Streams (KIP-914); the newest result is right. With "complete", the join sends every
                result that such a record changes, with its timestamp. If you read the results as a versioned table,
                they are right at every timestamp in both tables' history retentions. Both tables must be versioned, and
                the result is versioned, too: give its store the longer history retention of the two.
            partitioner: for a join by a foreign key: the partitioner of this table, if it is not Kafka's. It is a
                function as for ``KStream.to``, which gets the key, and None as the value (``TableJoined.with``,
                KIP-775).
            other_partitioner: the same for the other table.
            table_joined: for a join by a foreign key: the name and both partitioners in a ``TableJoined``. You can also
                pass it after the joiner, as in Kafka Streams.

        Raises:
            TopologyError: a complete join has a table or a result store that is not versioned; or the two sides have
                keys of different types.

        >>> from penstock import Materialized, StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int, materialized=Materialized.as_versioned("prices", "1 day"))
        >>> stocks = builder.table("stocks", value=int, materialized=Materialized.as_versioned("stocks", "1 day"))
        >>> joined = prices.join(stocks, lambda price, stock: f"{price} x {stock}", value=str,
        ...                      versioned_join="complete")
        >>> joined.to_stream().to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for topic, value, timestamp in [("stocks", 7, 0), ("prices", 30, 5), ("prices", 20, 2)]:
        ...         driver.pipe_input(topic, "tea", value, timestamp)
        ...     [(record.value, record.timestamp) for record in driver.read_output("out")]
        [('30 x 7', 5), ('20 x 7', 2)]
        """
        said = TableJoined(partitioner, other_partitioner, name)
        return self._join(
            nodes.INNER,
            other,
            joiner,
            value,
            materialized,
            store,
            said,
            versioned_join,
            foreign_key,
            table_joined,
        )

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]: ...

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]: ...

    def left_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        foreign_key: Callable[..., Any] | None = None,
        versioned_join: str = LATEST,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, Any]:
        """Join like :meth:`join`, but keep every key of this table: the joiner gets None if the other table has no
        value."""
        said = TableJoined(partitioner, other_partitioner, name)
        return self._join(
            nodes.LEFT,
            other,
            joiner,
            value,
            materialized,
            store,
            said,
            versioned_join,
            foreign_key,
            table_joined,
        )

    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        value: Any = None,
        store: str | Materialized | None = None,
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
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, R]: ...

    def outer_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        name: str | None = None,
        versioned_join: str = LATEST,
    ) -> KTable[K, Any]:
        """Join like :meth:`join`, but keep every key of both tables: the joiner gets None for a table without a
        value."""
        said = TableJoined(name=name)
        return self._join(nodes.OUTER, other, joiner, value, materialized, store, said, versioned_join)

    def _join(
        self,
        kind: str,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        value: Any,
        materialized: Materialized | None,
        store: str | Materialized | None,
        said: TableJoined,
        versioned_join: str,
        foreign_key: Callable[..., Any] | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, Any]:
        from penstock.dsl.ktable import KTable

        table_joined, value = in_place_of(TableJoined, value, table_joined, METHODS[kind], "table_joined")
        value, given = kept_as(METHODS[kind], value, materialized, store)
        joined = said_once(METHODS[kind], "table_joined", table_joined, said)
        partitioners = joined.partitioner, joined.other_partitioner

        if versioned_join not in (LATEST, COMPLETE):
            raise ConfigError(
                f"versioned_join at {caller()} must be {LATEST!r} or {COMPLETE!r}; got {versioned_join!r}"
            )
        if foreign_key is not None and versioned_join == COMPLETE:
            raise ConfigError(
                f"the join at {caller()} is by a foreign key, for which there is no versioned_join={COMPLETE!r}; leave "
                "one of the two out"
            )
        if foreign_key is None and partitioners != (None, None):
            raise TopologyError(
                f"{METHODS[kind]} at {caller()}: partitioner= and other_partitioner= are for joins by a foreign key; a "
                "join by key uses the partitions of the tables"
            )
        if not isinstance(other, KTable):
            raise TopologyError(f"{METHODS[kind]} at {caller()} joins a table with a table; got {other!r}")
        if foreign_key is not None:
            made = join_tables_by_foreign_key(
                kind, self._handle, other._handle, foreign_key, joiner, value, given, joined.name, partitioners
            )
        else:
            sides, complete = (self._handle, other._handle), versioned_join == COMPLETE
            made = join_tables(kind, *sides, joiner, value, given, joined.name, complete)
        return KTable(made.graph, made.node, made.key, made.value)

    @property
    def _handle(self) -> Handle:
        return Handle(self._graph, self._node, self._key, self._value)
