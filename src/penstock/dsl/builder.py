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
        """Read the records of one or more topics, or the rows of a streaming DataFrame, as a stream.

        A DataFrame may come from any source of Spark (docs/spark.md). The program starts, watches and stops its query,
        and keeps the rows in an internal topic, ``<application id>-<name>-source``. Rows with a column ``_change_type``
        are a change feed: deletions become records without a value.

        Args:
            topic: the name of a topic, a list of names, or ``re.compile(...)``: all topics whose whole names match.
                Penstock adds topics that appear later within a second, and begins them at ``offset_reset``.
            key: the type of the keys: ``str`` (default), ``int``, ``float``, ``bytes``, a serde.
            value: the type of the values: one of these types, or a dict, a dataclass or a ``msgspec.Struct`` (JSON). By
                default any JSON.
            timestamp: the time of a record: a field of the value such as ``"at"`` or ``"order.at"``, or a function of
                (value) or (key, value). Times are milliseconds since 1970, a ``datetime`` or text in ISO 8601 (UTC
                without a zone). It may also be a ``TimestampExtractor``, which gets the whole record. By default it is
                the timestamp of the record.
            name: the step's name.
            offset_reset: where an application begins that has not read the topic yet: ``"earliest"``, ``"latest"``,
                ``"none"`` (its start fails), or an ``AutoOffsetReset``. A ``timedelta`` begins with records that are
                not older, a ``datetime`` with records of that time or later. By default the setting
                ``auto_offset_reset`` decides.
            consumed: these options in a ``Consumed``. You can also pass it after the topic, as in Kafka Streams.
            timestamp_unit: the unit of the numbers in the field ``timestamp``, counted from 1970: ``"s"``, ``"ms"``
                (default), ``"us"`` or ``"ns"``.
            order: for a DataFrame: the column with the order in which rows arrived, or two columns: the partition, and
                the offset in it. By default the rows of a micro-batch are sorted by their times.
            partitions: the number of partitions of a DataFrame's topic. The default is 8, or the number of the topics
                with which it is joined.
            trigger: for a DataFrame: the time between two micro-batches; by default each one starts when the previous
                one has ended.
            headers: for a DataFrame: the column with the headers, an ``array<struct<key: string, value: binary>>``; by
                default records have no headers.
            format: the envelope of the topic's values, in place of ``value``: ``debezium(Order)``, ``maxwell(Order)``,
                ``cloud_event(Order)``, ``json_lines(Order)``. ``timestamp`` then names a field of the data in the
                envelope.

        For a DataFrame, ``key``, ``value`` and ``timestamp`` name columns, as for :func:`penstock.write`. A list of
        columns makes one key, which functions get as a dict. ``value`` may also be a type that whole rows are read as.
        ``name`` is required. Keep it when you change the program, because it identifies the rows and the query's
        progress.

        Raises:
            TopologyError: there is no topic, ``offset_reset`` is none of these, or an option is given twice. For a
                DataFrame: it has no name, is not a stream, or lacks a column.
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
            raise TopologyError(
                f"stream at {caller()} reads at least one topic; got an empty {type(topic).__name__}; name a topic"
            )
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
        """Read the records of a topic as a table: each record has the new value of its key, and a null value deletes
        the key.

        As for ``stream``, a streaming DataFrame may replace the topic; ``key`` names the column with its keys. The rows
        of a change feed (``_change_type``) are updates and deletions.

        The table has a store if you name one, or if a later step needs it. The types of its ``Materialized`` are also
        those of the topic. ``offset_reset`` and ``Consumed`` mean the same as for ``stream``.

        For change data, give ``format=debezium(Order)`` or ``format=maxwell(Order)`` in place of ``value``. Unless you
        give ``key=bytes``, Penstock takes keys out of their envelopes, and repartitions the table by them.

        Raises:
            TopologyError: ``key`` or ``value`` differs from the type of the ``Materialized``, or an option is given
                twice.
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
        """Add a store, which processors use by its name. Returns the builder, so you can chain calls.

        Args:
            builder: the result of ``Stores.key_value_store_builder`` or a similar function.

        Raises:
            TopologyError: the argument is not a builder of a store, or another store has this name.
        """
        add_store(self._graph, builder)
        return self

    def build(self) -> Topology:
        """Return the finished topology.

        Warn with a ``PartitioningWarning`` if a processor with a store comes after a step that changes keys, or if the
        two sides of a join are partitioned in different ways. Each warning shows the line of the step.

        Raises:
            TopologyError: the topology cannot run; the message says where and why.
        """
        return Topology(self._graph.declared, self._graph.stores.values()).checked()
