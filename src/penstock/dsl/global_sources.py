"""Tables and stores of which every task has all: where a topology reads topics as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, overload

from penstock.dsl.consumed import Consumed, consumed_whole
from penstock.dsl.global_table import GlobalKTable
from penstock.dsl.graph import Graph, K, V
from penstock.dsl.materialized import Materialized
from penstock.dsl.table_types import kept_where, table_types
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.plan.functions import caller, check_topic
from penstock.plan.processors import checked_builder, processor_function
from penstock.plan.timestamps import Timestamp, timestamp_of
from penstock.usage.java_names import KafkaNames


class GlobalSources(KafkaNames):
    """The global tables and stores of a topology, which every task has as a whole; users have a ``StreamsBuilder``."""

    def __init__(self) -> None:
        self._graph = Graph()

    @overload
    def global_table(
        self,
        topic: str,
        key: Consumed[K, V],
        value: Materialized | None = None,
        *,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
    ) -> GlobalKTable[K, V]: ...

    @overload
    def global_table(
        self,
        topic: str,
        key: type[K],
        value: type[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> GlobalKTable[K, V]: ...

    @overload
    def global_table(
        self,
        topic: str,
        key: type[K],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> GlobalKTable[K, Any]: ...

    @overload
    def global_table(
        self,
        topic: str,
        key: None = None,
        *,
        value: type[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> GlobalKTable[str, V]: ...

    @overload
    def global_table(
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> GlobalKTable[Any, Any]: ...

    def global_table(
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> GlobalKTable[Any, Any]:
        """Read the records of a topic as a table that every task has completely. Streams can join it by any key.

        Tasks see new records of the topic from the next commit on. The topic may have another number of partitions than
        the streams. ``Consumed`` means the same as for ``stream``.

        Raises:
            TopologyError: the table is versioned, which global tables cannot be, or has two types; or the ``Consumed``
                says where to begin, but Penstock reads the whole topic.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> airports = builder.global_table("airports", value=str)
        >>> flights = builder.stream("flights", value=str)
        >>> city = lambda flight, airport: f"to {airport}"
        >>> flights.join(airports, city, key_selector=lambda flight, code: code).to("out")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("airports", "BGO", "Bergen")
        >>> driver.pipe_input("flights", "DY600", "BGO")
        >>> [(record.key, record.value) for record in driver.read_output("out")]
        [('DY600', 'to Bergen')]
        """
        graph = self._graph
        check_topic(topic, "the topic of global_table")
        key, value, given = kept_where("global_table", key, value, materialized, store)
        read = consumed_whole("global_table", consumed, key, value, timestamp, name, timestamp_unit=timestamp_unit)
        if given is not None and given.history_retention_ms is not None:
            raise TopologyError(
                f"the global table of topic {topic!r} at {caller()} cannot be versioned (KIP-914): it is read without "
                "regard to time, so the version that is valid at a record's time is not known. Use a table, or a "
                "global table in an unversioned store"
            )
        keys, values = table_types("global_table", read, given)
        spec = graph.store(given, f"{topic}-", key=keys, value=values)
        source = graph.names.suffixed(read.name, "-source", names.SOURCE)
        node = nodes.GlobalTable(
            name=graph.names.node(names.TABLE_SOURCE, read.name),
            where=caller(),
            topic=topic,
            source_name=source,
            key=keys,
            value=values,
            store=replace(spec, named_by_user=True, caching=False),
            timestamp=timestamp_of(read.timestamp, values, read.timestamp_unit),
        )
        return GlobalKTable(graph.add(node), keys, values)

    def add_global_store(
        self,
        builder: Any,
        topic: str,
        supplier: Any,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> Self:
        """Add a store that every task has completely, and the processor that fills it with a topic's records.

        All processors can read the store without a connection to it; only this processor writes it. If the store has
        the same rows as the topic, use a global table instead.

        Args:
            builder: the builder of the store.
            topic: the topic, which all tasks read completely.
            supplier: the processor's class or supplier; it gets the topic's records and puts into the store.
            key: the type of the topic's keys; ``str`` by default.
            value: the type of its values; by default any JSON.
            name: the processor's name.
            consumed: types, name and timestamp extractor in a ``Consumed``. You can also pass it before the processor,
                as in Kafka Streams.

        >>> from penstock import Stores, StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> def by_city(record, context):
        ...     context.get_state_store("airports").put(record.value["city"], record.key)
        >>> def airport_of(record, context):
        ...     context.forward(record.with_value(context.get_state_store("airports").get(record.value)))
        >>> builder = StreamsBuilder()
        >>> airports = Stores.key_value_store_builder(Stores.in_memory_key_value_store("airports"), str, str)
        >>> _ = builder.add_global_store(airports, "airports", by_city)
        >>> builder.stream("trips", value=str).process(airport_of).to("out")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("airports", "BGO", {"city": "Bergen"})
        >>> driver.pipe_input("trips", "ann", "Bergen")
        >>> [record.value for record in driver.read_output("out")]
        ['BGO']

        Raises:
            TopologyError: the builder or the supplier is not valid, or another store has this name.
        """
        graph = self._graph
        check_topic(topic, "the topic of add_global_store")
        if isinstance(supplier, Consumed):
            supplier, key = key, supplier
        read = consumed_whole("add_global_store", consumed, key, value, name=name)
        values = read.value or DEFAULT_VALUE
        spec = checked_builder(builder, graph.builders, "add_global_store")
        function = processor_function(supplier, "add_global_store")
        source = graph.names.suffixed(read.name, "-source", names.SOURCE)
        graph.add(
            nodes.GlobalStore(
                name=graph.names.node(names.TABLE_SOURCE, read.name),
                where=caller(),
                topic=topic,
                source_name=source,
                key=read.key or DEFAULT_KEY,
                value=values,
                timestamp=timestamp_of(read.timestamp, values, read.timestamp_unit),
                store=replace(spec, named_by_user=True, caching=False),
                supplier=function,
            )
        )
        return self
