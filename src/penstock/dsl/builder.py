"""The start of a topology: turns topics into streams and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

from penstock.dsl.consumed import Consumed, OffsetReset, consumed_of, consumed_whole
from penstock.dsl.global_table import GlobalKTable
from penstock.dsl.graph import Graph, K, V
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized
from penstock.dsl.processors import add_store
from penstock.dsl.table_types import kept_where, table_types
from penstock.errors import TopologyError
from penstock.java_names import KafkaNames
from penstock.plan import names, nodes
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.plan.functions import caller, check_topic
from penstock.plan.passes.partitioning import warn_of_misplaced
from penstock.plan.processors import checked_builder, processor_function
from penstock.plan.sources import pattern_of
from penstock.plan.timestamps import Timestamp, timestamp_of
from penstock.plan.topology import Topology


class StreamsBuilder(KafkaNames):
    """Collects the steps of a topology.

    >>> builder = StreamsBuilder()
    >>> builder.stream("words", value=str).group_by(lambda key, word: word).count("counts").to_stream().to("counts")
    >>> topology = builder.build()
    """

    def __init__(self) -> None:
        self._graph = Graph()

    @overload
    def stream(self, topic: str | Sequence[str] | re.Pattern[str], key: Consumed[K, V]) -> KStream[K, V]: ...

    @overload
    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        key: type[K],
        value: type[V],
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KStream[K, V]: ...

    @overload
    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        key: type[K],
        value: Any = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KStream[K, Any]: ...

    @overload
    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        key: None = None,
        *,
        value: type[V],
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KStream[str, V]: ...

    @overload
    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        key: Any = None,
        value: Any = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KStream[Any, Any]: ...

    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str],
        key: Any = None,
        value: Any = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KStream[Any, Any]:
        """The records of one or more topics as a stream.

        Args:
            topic: the topic's name, several of them, or ``re.compile(...)``: all topics whose whole names match, and
                those that appear later, which are begun as ``offset_reset`` says (``metadata.max.age.ms`` is a second).
            key: the type of the keys: ``str`` (default), ``int``, ``float``, ``bytes``, a serde.
            value: the type of the values: one of these, a dict, dataclass or ``msgspec.Struct`` (JSON); anything JSON
                can say by default.
            timestamp: the time of a record: a field of the value such as ``"at"`` or ``"order.at"``, or a function of
                (value) or (key, value). Times are milliseconds since 1970, a ``datetime`` or text in ISO 8601 (UTC
                where no zone is given). It may also be a ``TimestampExtractor``, which gets the whole record. Without
                it the time is the one the record carries.
            name: the step's name.
            offset_reset: where an application begins that has not read the topic yet: ``"earliest"``, ``"latest"``,
                ``"none"`` (its start fails), or an ``AutoOffsetReset``. A ``timedelta`` takes records that are not
                older, a ``datetime`` those of that time or later. By default the setting ``auto_offset_reset`` says it.
            consumed: all of this in a ``Consumed``; it may also stand behind the topic, as in Kafka Streams.
            timestamp_unit: what the numbers in the field that ``timestamp`` names count since 1970: ``"s"``, ``"ms"``
                (default), ``"us"`` or ``"ns"``.

        Raises:
            TopologyError: there is no topic, ``offset_reset`` is none of these, or something was said twice.
        """
        read = consumed_of("stream", consumed, key, value, timestamp, name, offset_reset, timestamp_unit)
        pattern = pattern_of(topic)
        topics = () if pattern else tuple(topic) if isinstance(topic, list | tuple) else (topic,)
        if not topics and pattern is None:
            raise TopologyError(f"stream at {caller()} reads at least one topic; got an empty {type(topic).__name__}")
        for one in topics:
            check_topic(one, "the topic of stream")
        values = read.value or DEFAULT_VALUE
        node = nodes.StreamSource(
            name=self._graph.names.node(names.SOURCE, read.name),
            where=caller(),
            topics=topics,
            pattern=pattern,
            key=read.key or DEFAULT_KEY,
            value=values,
            timestamp=timestamp_of(read.timestamp, values, read.timestamp_unit),
            offset_reset=read.offset_reset,
        )
        return KStream(self._graph, self._graph.add(node), node.key, node.value)

    @overload
    def table(
        self,
        topic: str,
        key: Consumed[K, V],
        value: Materialized | None = None,
        *,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
    ) -> KTable[K, V]: ...

    @overload
    def table(
        self,
        topic: str,
        key: type[K],
        value: type[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KTable[K, V]: ...

    @overload
    def table(
        self,
        topic: str,
        key: type[K],
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KTable[K, Any]: ...

    @overload
    def table(
        self,
        topic: str,
        key: None = None,
        *,
        value: type[V],
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KTable[str, V]: ...

    @overload
    def table(
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KTable[Any, Any]: ...

    def table(
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
    ) -> KTable[Any, Any]:
        """The records of a topic as a table: each is the newest value of its key, a null value deletes it.

        The table has a store when it is given a name for one, or when a later step needs it. Types that its
        ``Materialized`` has are those of the topic. With ``offset_reset`` it begins as ``stream`` says, and as there a
        ``Consumed`` may say how the topic is read.

        Raises:
            TopologyError: ``key`` or ``value`` is one type and that of the ``Materialized`` another, or something was
                said twice.
        """
        key, value, given = kept_where("table", key, value, materialized, store)
        read = consumed_of("table", consumed, key, value, timestamp, name, offset_reset, timestamp_unit)
        check_topic(topic, "the topic of table", "a table is made of one topic")
        graph = self._graph
        keys, values = table_types("table", read, given)
        spec = graph.store(given, f"{topic}-", key=keys, value=values)
        source = graph.names.suffixed(read.name, "-source", names.SOURCE)
        node = nodes.TableSource(
            name=graph.names.node(names.TABLE_SOURCE, read.name),
            where=caller(),
            topic=topic,
            source_name=source,
            key=keys,
            value=values,
            store=spec,
            timestamp=timestamp_of(read.timestamp, values, read.timestamp_unit),
            offset_reset=read.offset_reset,
        )
        return KTable(graph, graph.add(node), keys, values)

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
        """The records of a topic as a table of which every task has all, to join streams with by any key.

        New records of the topic count from the next batch on; the batch's own streams do not need its partitions.
        A ``Consumed`` may say how the topic is read, as for ``stream``.

        Raises:
            TopologyError: the table is declared as versioned, which global tables cannot be, or has two types; the
                ``Consumed`` says where the topic is begun, and it is read as a whole.

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

    def add_state_store(self, builder: Any) -> StreamsBuilder:
        """Add a store for processors, which are connected to it by its name; the builder again, to chain.

        Args:
            builder: what ``Stores.key_value_store_builder`` and its like give.

        Raises:
            TopologyError: it is no such builder, or another store has its name.
        """
        add_store(self._graph, builder)
        return self

    def add_global_store(
        self,
        builder: Any,
        topic: str,
        supplier: Any,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> StreamsBuilder:
        """Add a store that every task has as a whole, and the processor that keeps it from a topic's records.

        All processors read it without being connected to it; only this one writes it. A global table does that by
        itself where the store has just what the topic has.

        Args:
            builder: the builder of the store.
            topic: the topic, which all tasks read as a whole.
            supplier: the processor's class or supplier; it gets the topic's records and puts into the store.
            key: the type of the topic's keys; ``str`` by default.
            value: the type of its values; anything JSON can say by default.
            name: the processor's name.
            consumed: types, name and timestamp extractor in a ``Consumed``; it may also stand in front of the
                processor, as in Kafka Streams.

        >>> from penstock import Stores
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
            TopologyError: it is no builder, the supplier is none, or another store has its name.
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

    def build(self) -> Topology:
        """The finished topology.

        Warns of processors with stores behind steps that change keys (``PartitioningWarning``), each in its own line.

        Raises:
            TopologyError: it cannot be run as it is; the message says where and why.
        """
        topology = Topology(self._graph.declared, self._graph.stores.values()).checked()
        warn_of_misplaced(topology.declared)
        return topology
