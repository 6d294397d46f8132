"""The start of a topology: turns topics into streams and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from penstock.dsl.consumed import Consumed, OffsetReset, consumed_of
from penstock.dsl.dataframes import taken
from penstock.dsl.formats import check_rows, opened, refuse_frame
from penstock.dsl.graph import K, V
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized
from penstock.dsl.processors import add_store
from penstock.dsl.sources import OwnSources
from penstock.dsl.table_types import kept_where, table_types
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.plan.functions import caller, check_topic
from penstock.plan.sources import pattern_of
from penstock.plan.timestamps import Timestamp, timestamp_of
from penstock.plan.topology import Topology
from penstock.serdes.formats.base import Format
from penstock.values.durations import Duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StreamsBuilder(OwnSources):
    """Collects the steps of a topology.

    >>> builder = StreamsBuilder()
    >>> builder.stream("words", value=str).group_by(lambda key, word: word).count("counts").to_stream().to("counts")
    >>> topology = builder.build()
    """

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
        *,
        format: Format | None = None,
    ) -> KStream[Any, Any]: ...

    @overload
    def stream(
        self,
        topic: DataFrame,
        key: str | Sequence[str] | None = None,
        value: str | type[Any] | None = None,
        timestamp: str | None = None,
        name: str | None = None,
        *,
        timestamp_unit: str | None = None,
        order: str | Sequence[str] | None = None,
        partitions: int | None = None,
        trigger: Duration | None = None,
        headers: str | None = None,
    ) -> KStream[Any, Any]: ...

    def stream(
        self,
        topic: str | Sequence[str] | re.Pattern[str] | DataFrame,
        key: Any = None,
        value: Any = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
        order: str | Sequence[str] | None = None,
        partitions: int | None = None,
        trigger: Duration | None = None,
        headers: str | None = None,
        format: Format | None = None,
    ) -> KStream[Any, Any]:
        """The records of one or more topics, or the rows of a streaming DataFrame, as a stream.

        A DataFrame may come from any source of Spark (docs/spark.md). The program starts its query, watches it and
        stops it, and keeps the rows in a topic of its own, ``<application id>-<name>-source``. Rows with a column
        ``_change_type`` are a change feed: deletions become records without a value.

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
            timestamp_unit: the unit of the numbers in the field ``timestamp``, counted from 1970: ``"s"``, ``"ms"``
                (default), ``"us"`` or ``"ns"``.
            order: of a DataFrame the column that says in which order rows arrived, or two: the partition, and the
                offset in it. By default the rows of a micro-batch are taken by their times.
            partitions: how many partitions the topic of a DataFrame gets; by default 8, or as many as the topics have
                with which it is joined.
            trigger: how often rows of a DataFrame are looked for; by default as soon as the last ones are there.
            headers: the column of a DataFrame with the records' headers, an
                ``array<struct<key: string, value: binary>>``; by default records have none.
            format: the format of the topic whose values are envelopes, in place of ``value``: ``debezium(Order)``,
                ``maxwell(Order)``, ``cloud_event(Order)``, ``json_lines(Order)``. ``timestamp`` then names a field of
                the rows.

        Of a DataFrame ``key``, ``value`` and ``timestamp`` name columns, as for :func:`penstock.write`; several columns
        are a key together, which functions get as a dict. ``value`` may also be the type that whole rows are read as.
        ``name`` is needed, and stays the same in later versions of the program: the rows and the query's progress are
        kept under it.

        Raises:
            TopologyError: there is no topic, ``offset_reset`` is none of these, or something was said twice; of a
                DataFrame, that it has no name, is not a stream, or lacks a column.
            ConfigError: a topic cannot keep a column of the DataFrame.
        """
        given = taken(
            "stream", topic, key, value, timestamp, timestamp_unit, name, order, partitions, trigger, headers,
            offset_reset=offset_reset, consumed=consumed,
        )  # fmt: skip
        topic, key, value, timestamp, timestamp_unit, frame = given
        read = consumed_of("stream", consumed, key, value, timestamp, name, offset_reset, timestamp_unit)
        pattern = pattern_of(topic)
        topics = () if pattern else tuple(topic) if isinstance(topic, list | tuple) else (topic,)
        if not topics and pattern is None:
            raise TopologyError(f"stream at {caller()} reads at least one topic; got an empty {type(topic).__name__}")
        for one in topics:
            check_topic(one, "the topic of stream")
        topics = tuple(dict.fromkeys(topics))  # as in Kafka Streams, one that is named twice is read once
        refuse_frame("stream", frame, format)
        if format is not None:
            return KStream._of(opened("stream", self._graph, topics, pattern, read, format))
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
            outside=frame,
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
        *,
        format: Format | None = None,
    ) -> KTable[Any, Any]: ...

    @overload
    def table(
        self,
        topic: DataFrame,
        key: str | Sequence[str],
        value: str | type[Any] | None = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: str | None = None,
        name: str | None = None,
        *,
        timestamp_unit: str | None = None,
        order: str | Sequence[str] | None = None,
        partitions: int | None = None,
        trigger: Duration | None = None,
        headers: str | None = None,
    ) -> KTable[Any, Any]: ...

    def table(
        self,
        topic: str | DataFrame,
        key: Any = None,
        value: Any = None,
        store: str | Materialized | None = None,
        materialized: Materialized | None = None,
        timestamp: Timestamp | None = None,
        name: str | None = None,
        offset_reset: OffsetReset | None = None,
        consumed: Consumed[Any, Any] | None = None,
        timestamp_unit: str | None = None,
        order: str | Sequence[str] | None = None,
        partitions: int | None = None,
        trigger: Duration | None = None,
        headers: str | None = None,
        format: Format | None = None,
    ) -> KTable[Any, Any]:
        """The records of a topic as a table: each is the newest value of its key, a null value deletes it.

        A streaming DataFrame may stand in place of the topic, as for ``stream``; ``key`` names the column of its keys.
        The rows of a change feed (``_change_type``) are updates and deletions.

        The table has a store when it is given a name for one, or when a later step needs it. Types that its
        ``Materialized`` has are those of the topic. With ``offset_reset`` it begins as ``stream`` says, and as there a
        ``Consumed`` may say how the topic is read.

        Change data is a table with ``format=debezium(Order)`` or ``format=maxwell(Order)``, in place of ``value``.
        Unless ``key=bytes``, keys lose their envelopes, and the table is repartitioned by the new ones.

        Raises:
            TopologyError: ``key`` or ``value`` is one type and that of the ``Materialized`` another, or something was
                said twice.
        """
        taken_ = taken(
            "table", topic, key, value, timestamp, timestamp_unit, name, order, partitions, trigger, headers,
            offset_reset=offset_reset, consumed=consumed,
        )  # fmt: skip
        topic, key, value, timestamp, timestamp_unit, frame = taken_
        key, value, given = kept_where("table", key, value, materialized, store)
        read = consumed_of("table", consumed, key, value, timestamp, name, offset_reset, timestamp_unit)
        check_topic(topic, "the topic of table", "a table is made of one topic")
        graph = self._graph
        refuse_frame("table", frame, format)
        if format is not None:
            check_rows("table", format)
            return KStream._of(opened("table", graph, (topic,), None, read, format)).to_table(materialized=given)
        keys, values = table_types("table", read, given)
        spec = graph.store(given, f"{topic}-", key=keys, value=values)
        node = nodes.TableSource(
            source_name=graph.names.suffixed(read.name, "-source", names.SOURCE),  # takes its number first
            name=graph.names.node(names.TABLE_SOURCE, read.name),
            where=caller(),
            topic=topic,
            key=keys,
            value=values,
            store=spec,
            timestamp=timestamp_of(read.timestamp, values, read.timestamp_unit),
            offset_reset=read.offset_reset,
            outside=frame,
        )
        return KTable(graph, graph.add(node), keys, values)

    def add_state_store(self, builder: Any) -> StreamsBuilder:
        """Add a store for processors, which are connected to it by its name; the builder again, to chain.

        Args:
            builder: the result of ``Stores.key_value_store_builder`` or a similar function.

        Raises:
            TopologyError: it is no such builder, or another store has its name.
        """
        add_store(self._graph, builder)
        return self

    def build(self) -> Topology:
        """The finished topology.

        Warns of processors with stores behind steps that change keys, and of joins of streams that are partitioned in
        two ways (``PartitioningWarning``), each in its own line.

        Raises:
            TopologyError: it cannot be run as it is; the message says where and why.
        """
        return Topology(self._graph.declared, self._graph.stores.values()).checked()
