"""A stream of records (KStream)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from penstock.dsl.awaited import AwaitedSteps
from penstock.dsl.branched import BranchedKStream
from penstock.dsl.dataframes import STREAM_MODES, Asked, add_table_sink, frame_of
from penstock.dsl.deduplicate import deduplicate, deduplicate_by_key, deduplicate_by_key_value
from penstock.dsl.deduplicated import Deduplicated
from penstock.dsl.functions import OfKeyValue
from penstock.dsl.graph import K2, K, V
from penstock.dsl.materialized import Materialized, materialized_of
from penstock.dsl.processors import process, process_values
from penstock.dsl.produced import Produced, produced_of
from penstock.dsl.repartitioned import Grouped, Repartitioned, grouped_of, repartitioned_of
from penstock.dsl.results import agreed
from penstock.dsl.sinks import KEEP, MAX_BEHIND, RETRY_FOR, Limits, Wanted, add_sink
from penstock.dsl.stateless import StatelessSteps
from penstock.dsl.stream import repartition_node
from penstock.dsl.stream_joins import StreamJoins
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.expressions.expression import Expression
from penstock.plan.functions import caller, check_type
from penstock.plan.options import in_place_of
from penstock.plan.sinks import Partitioner, TopicSelector, partitioner_of, sink_node
from penstock.processor import RecordContext
from penstock.values.durations import Duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.dsl.grouped import KGroupedStream
    from penstock.dsl.ktable import KTable
    from penstock.log.base import Log
    from penstock.log.cluster import Kafka
    from penstock.sinks.protocol import Sink


class KStream(StatelessSteps[K, V], AwaitedSteps[K, V], StreamJoins[K, V]):
    """A stream of records, each of which is an event.

    Each step returns a new stream, and leaves this one unchanged. Steps take functions of ``(key, value)`` or of
    ``(value)``. If a step changes the type of keys or values, name the new type with ``key=`` or ``value=``: a Python
    type or a serde. Without them, the function's annotations decide, or else the type stays the same. If a result does
    not fit its type, its record fails. Editors and type checkers see a ``KStream[K, V]`` with the types of its keys and
    values.
    """

    # --- processors ----------------------------------------------------------------------------------------------

    def process(
        self, supplier: Any, *stores: str, key: Any = None, value: Any = None, name: str | None = None
    ) -> KStream[Any, Any]:
        """Pass each record to your processor, which may keep state. The result has the records that it forwards
        (KIP-820).

        Penstock commits the processor's stores together with its output, so each record counts once even after a
        failure. The fields of the object are lost when its process ends.

        Args:
            supplier: a ``Processor`` class, a ``ProcessorSupplier``, a function without arguments that returns a new
                processor, or a plain function of (record, context). Each task gets a processor of its own.
            stores: the names of the stores that the processor uses: those that you added with
                ``builder.add_state_store``, and those of tables.
            key: the type of the keys that it forwards; by default the type of this stream's keys.
            value: the type of the values.
            name: the step's name.

        >>> from penstock.testing import pipe
        >>> def words(record, context):
        ...     for word in record.value.split():
        ...         context.forward(record.with_value(word))
        >>> pipe(lambda stream: stream.process(words), [("a", "x y"), ("b", "z")])
        [('a', 'x'), ('a', 'y'), ('b', 'z')]

        Raises:
            TopologyError: the supplier is none of these; when the topology is built, that there is no such store.
        """
        return self._of(process(self._handle, supplier, stores, key, value, name))

    def process_values(
        self, supplier: Any, *stores: str, value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Pass each record to a processor that keeps its key, so that no repartition is needed afterwards (KIP-820).

        Args:
            supplier: as for ``process``. A forwarded record has the key of the record that the processor got, so
                punctuations cannot forward.
            stores: the names of the stores it is connected to.
            value: the type of the values that it forwards; by default the type of this stream's values.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.process_values(lambda record, context: context.forward(
        ...     record.with_value(context.record_metadata.offset))), [("a", 5), ("b", 6)])
        [('a', 0), ('b', 1)]

        Raises:
            TopologyError: the supplier is none of these; when the topology is built, that there is no such store.
        """
        return self._of(process_values(self._handle, supplier, stores, value, name))

    # --- several streams -----------------------------------------------------------------------------------------

    def merge(self, other: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """Merge two streams into one.

        Raises:
            TopologyError: their types differ, or they belong to different builders.
        """
        check_type(other, KStream, "the other stream of merge", "use to_stream() on a table")
        if other._graph is not self._graph:
            raise TopologyError(
                f"merge at {caller()}: the two streams come from different builders; begin both with the same one"
            )
        keys, values = agreed(self._key, other._key), agreed(self._value, other._value)
        if keys is None or values is None:
            raise TopologyError(
                f"merge at {caller()}: the streams have different types, {self._key.name} -> {self._value.name} and "
                f"{other._key.name} -> {other._value.name}; bring them to the same ones with map or map_values"
            )
        merged = nodes.Merge(name=self._name(names.MERGE, name), parents=(self._node, other._node), where=caller())
        required = self._repartition_required or other._repartition_required
        return KStream(self._graph, self._graph.add(merged), keys, values, required)

    def split(self, name: str | None = None) -> BranchedKStream[K, V]:
        """Send each record to the first branch whose predicate is true.

        >>> from penstock.testing import pipe
        >>> def big(stream):
        ...     branches = stream.split().branch(lambda key, value: value > 9, name="big").default_branch(name="small")
        ...     return branches["big"]
        >>> pipe(big, [("a", 1), ("b", 10)])
        [('b', 10)]
        """
        node = nodes.Split(name=self._name(names.BRANCH, name), **self._at())
        return BranchedKStream(self, self._graph.add(node), name or "")

    # --- to topics and tables ------------------------------------------------------------------------------------

    def to(
        self,
        topic: str | TopicSelector,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        partitioner: Partitioner | None = None,
        create: bool = True,
        produced: Produced | None = None,
    ) -> None:
        """Write the records into a topic, each into the partition that Kafka's partitioner gives its key.

        Args:
            topic: the topic, which Penstock creates if it does not exist; or a function of (key, value) or (key, value,
                context) that returns the topic of each record (``TopicNameExtractor``).
            key: the type of the topic's keys.
            value: the type of its values.
            name: the step's name.
            partitioner: a function of (topic, key, value, partitions), of the last three, or of (topic, key, value,
                headers, partitions). It returns the partition of a record, several partitions, no partition (Penstock
                then drops and counts the record), or None for Kafka's choice (``StreamPartitioner``, KIP-837,
                KIP-1321).
            create: whether Penstock creates a topic that a function chooses, if it does not exist. With False, records
                for such a topic fail, and ``on_error`` decides what happens to them.
            produced: types, name and partitioner in a ``Produced``. You can also pass it after the topic, as in Kafka
                Streams.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=int).to(lambda key, value: "large" if value > 9 else "small")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_record_list("in", [("a", 5), ("b", 50)])
        >>> [record.key for record in driver.read_output("large")]
        ['b']
        """
        given = produced_of(produced, key, value, name, partitioner)
        types = given.key or self._key, given.value or self._value
        sink = sink_node(self._name(names.SINK, given.name), (self._node,), topic, types, given.partitioner, create)
        self._graph.add(sink)

    def to_spark_table(
        self,
        table: str | None = None,
        mode: str = "append",
        *,
        path: Path | str | None = None,
        format: str | None = None,
        key: str | None = "key",
        value: str = "value",
        timestamp: str | None = None,
        name: str | None = None,
        trigger: Duration | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Append each record once to a table: in Spark's catalog, at a path, or in a database (docs/spark.md).

        The program starts, watches and stops the Spark query that writes the table. The records pass through an
        internal topic, ``<application id>-<name>-sink``.

        Args:
            table: the table's name, such as ``"lake.shop.totals"``. If the table does not exist, Penstock creates it.
            mode: ``"append"``; the method of a ``KTable`` has ``"upsert"``.
            path: the folder or URL of the table, in place of ``table``.
            format: Spark's name for the kind of table: ``"delta"``, ``"iceberg"``, ``"parquet"``, ``"jdbc"``. By
                default that of a table that exists, or of its catalog.
            key: the name of the column of the keys, or None to leave them out. Structs become their fields, and a
                windowed key its key, ``window_start`` and ``window_end``.
            value: the name of the column of the values; structs become their fields.
            timestamp: the name of a column with the records' times; none by default.
            name: names the internal topic and the query; required if the table's name has other characters than
                letters, digits and dots. Keep it when you change the program.
            trigger: how often the query writes; by default every second.
            options: Spark's options of the format; for ``"jdbc"``, these include ``url``, ``user`` and ``password``.
                Give secrets as ``"env:NAME"`` or ``"file:/path"``.

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=int)
        >>> orders.to_spark_table("lake.shop.orders", format="delta", key="number", value="amount", timestamp="at")

        Raises:
            TopologyError: the target does not have the mode, or the arguments do not fit together.
        """
        names_ = {"key": key, "value": value, "timestamp": timestamp, "name": name}
        asked = Asked(table, mode, path, format, trigger=trigger, options=options, **names_)
        add_table_sink(self._handle, "to_spark_table", asked, STREAM_MODES)

    def to_sink(
        self,
        sink: Sink,
        name: str,
        *,
        key: str | None = "key",
        value: str = "value",
        timestamp: str | None = "timestamp",
        max_behind: int = MAX_BEHIND,
        retry_for: Duration = RETRY_FOR,
        keep: Duration = KEEP,
        missing: Literal["stop", "skip"] = "stop",
    ) -> None:
        """Write each record into a sink, exactly once (docs/sinks.md).

        As part of each commit, the program writes the records into an internal topic, ``<application id>-<name>-sink``.
        A thread of the program then passes the committed records to the sink, also after a crash. The sink stores a
        number with its rows, which tells Penstock how many records it has. Sinks work on every engine.

        Args:
            sink: a sink of your own (``penstock.sinks.Sink``), or a ready one of ``penstock.sinks``.
            name: names the internal topic, and the numbers in the sink. Keep it when you change the program.
            key: the name of the column of the keys, or None to leave them out. Structs become their fields, and a
                windowed key its key, ``window_start`` and ``window_end``.
            value: the name of the column of the values; structs become their fields.
            timestamp: the name of the column of the records' times, or None to leave them out.
            max_behind: the program makes no commit while the sink lacks more records than this.
            retry_for: how long Penstock retries a failing sink, with growing pauses. Then the program ends with
                ``SinkError``.
            keep: how long records stay in the topic after the sink has them. A sink that was restored from an older
                copy gets them again.
            missing: the reaction if the topic no longer has records that the sink lacks: ``"stop"`` the program, or
                ``"skip"`` the records.

        Raises:
            TopologyError: an argument is not valid.

        >>> from penstock import StreamsBuilder
        >>> from penstock.sinks import SqliteSink
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=int)
        >>> orders.to_sink(SqliteSink("shop.db", "orders"), "orders", key="number", value="amount")
        """
        limits = Limits(max_behind, retry_for, keep, missing)
        add_sink(self._handle, Wanted(sink, name, (key, value, timestamp), limits))

    def to_dataframe(self, spark: SparkSession, topic: str, log: Log | Kafka | Path | str | None = None) -> DataFrame:
        """Write the records into a topic, and return them as a streaming DataFrame with the types of this stream.

        Its columns are key, value, topic, partition, offset and timestamp. Keys and values are numbers, text and bytes;
        dataclasses are structs, windows are structs of key, start and end, and JSON without a type is text. Start
        queries of the DataFrame after the program has started.

        Args:
            spark: the session to read with.
            topic: the topic, as for ``to``.
            log: the place of the program's topics; by default that of the settings.

        Raises:
            ConfigError: Spark's processes cannot open the log.

        >>> def totals_of(builder, spark):
        ...     totals = builder.stream("orders", key=str).group_by_key().count("totals").to_stream()
        ...     return totals.to_dataframe(spark, "totals").where("value > 10")
        """
        self.to(topic)
        return frame_of(spark, topic, log, self._key, self._value)

    def repartition(
        self,
        name: str | Repartitioned | None = None,
        partitions: int | None = None,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
        repartitioned: Repartitioned | None = None,
    ) -> KStream[K, V]:
        """Send the records through an internal topic, so that records with equal keys are in one task. Null keys are
        left out.

        ``partitioner=`` chooses the partition of each record, as for ``to``. You can also give these options in a
        ``Repartitioned``: as the only argument, as in Kafka Streams, or as ``repartitioned=``.
        """
        given = repartitioned_of(repartitioned, name, partitions, key, value, partitioner)
        prefix = self._graph.names.node_or_next(names.REPARTITION, given.name)
        keys, values = given.key or self._key, given.value or self._value
        chosen = partitioner_of(given.partitioner, "repartition")
        node = repartition_node(self._graph, self._node, prefix, keys, values, given.partitions, partitioner=chosen)
        return KStream(self._graph, self._graph.add(node), keys, values)

    def to_table(
        self, store: str | Materialized | None = None, materialized: Materialized | None = None, name: str | None = None
    ) -> KTable[K, V]:
        """Read the stream as a table: each record has the new value of its key, and a null value deletes the key."""
        from penstock.dsl.ktable import KTable

        given = materialized_of(materialized, store)
        own_name = self._name(names.TO_TABLE, name)
        spec = self._graph.store(given, names.TO_TABLE, key=self._key, value=self._value)
        assert spec.key is not None
        assert spec.value is not None
        parent = self._node
        if self._repartition_required:
            parent = self._graph.add(repartition_node(self._graph, parent, own_name, spec.key, spec.value))
        node = nodes.ToTable(name=own_name, parents=(parent,), where=caller(), store=spec)
        return KTable(self._graph, self._graph.add(node), spec.key, spec.value)

    def group_by_key(
        self,
        name: str | Grouped | None = None,
        key: Any = None,
        value: Any = None,
        grouped: Grouped | None = None,
    ) -> KGroupedStream[K, V]:
        """Group the records by their key. ``name`` names the repartition topic, if one is needed.

        You can also give types and name in a ``Grouped``: as the only argument, as in Kafka Streams, or as
        ``grouped=``.
        """
        from penstock.dsl.grouped import KGroupedStream

        grouped, own_name = in_place_of(Grouped, name, grouped, "group_by_key", "grouped")
        given = grouped_of("group_by_key", grouped, key, value, own_name)
        keys, values = given.key or self._key, given.value or self._value
        return KGroupedStream(self._graph, self._node, keys, values, given.name, self._repartition_required)

    @overload
    def group_by(
        self,
        mapper: Expression,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        grouped: Grouped | None = None,
    ) -> KGroupedStream[Any, V]: ...

    @overload
    def group_by(
        self,
        mapper: Callable[[K, V], K2],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        grouped: Grouped | None = None,
    ) -> KGroupedStream[K2, V]: ...

    @overload
    def group_by(
        self,
        mapper: Callable[[K, V, RecordContext], K2],
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        grouped: Grouped | None = None,
    ) -> KGroupedStream[K2, V]: ...

    def group_by(
        self,
        mapper: OfKeyValue[K, V, K2] | Expression,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
        grouped: Grouped | None = None,
    ) -> KGroupedStream[Any, V]:
        """Group the records by the result of a function of (key, value), or of an expression such as ``col("city")``;
        this repartitions.

        Types and name can be said in a ``Grouped``, behind the function as in Kafka Streams or as ``grouped=``.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.group_by(lambda key, value: value["city"]).count(), [("a", {"city": "Oslo"})])
        [('Oslo', 1)]
        """
        from penstock.dsl.grouped import KGroupedStream

        grouped, key = in_place_of(Grouped, key, grouped, "group_by", "grouped")
        given = grouped_of("group_by", grouped, key, value, name)
        node = self._select_key(mapper, "group_by", given.key, given.name)
        return KGroupedStream(self._graph, node, node.key, given.value or self._value, given.name, True)

    # --- deduplication -------------------------------------------------------------------------------------------

    def deduplicate_by_key(
        self, interval: Duration, deduplicated: Deduplicated | None = None, dropped_to: str | None = None
    ) -> KStream[K, V]:
        """Drop records whose key was forwarded within an interval, before or after in time (KIP-655).

        Both ends of the interval count. A duplicate does not extend the interval. If a record is late by more than the
        interval, it is forwarded unless its key is remembered, and its own key is not remembered. Records without a key
        are always forwarded. Two keys are the same if their bytes are the same.

        Args:
            interval: how far apart in time two records of a key must be for both to be forwarded.
            deduplicated: the name of the step, its store and its types.
            dropped_to: a topic for the records that are left out.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.deduplicate_by_key("10 s"), [("a", 1, 5000), ("a", 2, 15000), ("a", 3, 16000)])
        [('a', 1), ('a', 3)]
        """
        return self._of(deduplicate_by_key(self._handle, interval, deduplicated, dropped_to))

    def deduplicate_by_key_value(
        self,
        id_selector: OfKeyValue[K, V, Any] | str,
        interval: Duration,
        deduplicated: Deduplicated | None = None,
        dropped_to: str | None = None,
    ) -> KStream[K, V]:
        """Drop records whose key and id were forwarded within an interval (KIP-655). The interval means the same as for
        ``deduplicate_by_key``. Records without a key or id are always forwarded.

        Args:
            id_selector: a function of (key, value), or a field of the value such as ``"id"`` or ``"payload.id"``.
            interval: how far apart in time two records of a key and an id must be for both to be forwarded.
            deduplicated: the name of the step, its store and its types; ``key_serde`` is the type of the ids.
            dropped_to: a topic for the records that are left out.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.deduplicate_by_key_value("id", "10 s"),
        ...      [("a", {"id": 1}), ("a", {"id": 2}), ("b", {"id": 1}), ("a", {"id": 1})])
        [('a', {'id': 1}), ('a', {'id': 2}), ('b', {'id': 1})]
        """
        return self._of(deduplicate_by_key_value(self._handle, id_selector, interval, deduplicated, dropped_to))

    def deduplicate(
        self,
        id_selector: OfKeyValue[K, V, Any] | str,
        interval: Duration,
        deduplicated: Deduplicated | None = None,
        dropped_to: str | None = None,
    ) -> KStream[K, V]:
        """Drop records whose id was forwarded within an interval, under any key and in any partition (KIP-655). The
        interval means the same as for ``deduplicate_by_key``.

        The records keep their keys, but move to the partition of their id. A later group or join by key repartitions
        them again. A processor with a store does not, so put ``repartition`` in front of it. Records without an id are
        always forwarded.

        Args:
            id_selector: a function of (key, value), or a field of the value such as ``"id"`` or ``"payload.id"``.
            interval: how far apart in time two records of an id must be for both to be forwarded.
            deduplicated: the name of the step, its store and its types; ``key_serde`` is the type of the ids.
            dropped_to: a topic for the records that are left out.

        >>> from penstock.testing import pipe
        >>> pipe(lambda stream: stream.deduplicate("id", "10 s"), [("a", {"id": 1}), ("b", {"id": 1}), ("b", {})])
        [('a', {'id': 1}), ('b', {})]
        """
        return self._of(deduplicate(self._handle, id_selector, interval, deduplicated, dropped_to))
