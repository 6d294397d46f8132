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
    """A stream of records: every record is an event of its own.

    Steps are chained; each returns a new stream and leaves this one as it is. Functions of ``(key, value)`` get both,
    functions of ``(value)`` the value alone. ``key=`` and ``value=`` give the types of a step's results where they
    change: a Python type or a serde. Left out, they follow from the function's annotations, else they stay what they
    are; a record fails whose result is of another type. For editors and type checkers it is a ``KStream[K, V]`` of its
    keys and values.
    """

    # --- processors ----------------------------------------------------------------------------------------------

    def process(
        self, supplier: Any, *stores: str, key: Any = None, value: Any = None, name: str | None = None
    ) -> KStream[Any, Any]:
        """Send each record through your processor, which may keep state; the result has the records that it forwards
        (KIP-820).

        Its stores belong to the commit: its reads, writes and forwarded records count once, however often the machine
        fails. The fields of the object are lost with the process.

        Args:
            supplier: a ``Processor`` class, a ``ProcessorSupplier``, a function without arguments that returns a new
                processor, or a plain function of (record, context). Each task gets a processor of its own.
            stores: the names of the stores it is connected to: added ones (``builder.add_state_store``) and tables'.
            key: the type of the keys that it forwards; by default that of this stream.
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
        """Send each record through a processor that leaves keys unchanged, so that no repartition is needed after it
        (KIP-820).

        Args:
            supplier: as for ``process``; records are forwarded under the key they came with, and none in punctuations.
            stores: the names of the stores it is connected to.
            value: the type of the values that it forwards; by default that of this stream.

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
        """The records of both streams.

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
        """Send each record down the first branch whose predicate holds.

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
            topic: the topic, which is made when it does not exist; or a function of (key, value) or
                (key, value, context) that gives each record's topic (``TopicNameExtractor``).
            key: the type of the topic's keys.
            value: the type of its values.
            name: the step's name.
            partitioner: a function of (topic, key, value, partitions), of the last three, or of (topic, key, value,
                headers, partitions). It gives a record's partition, several, none (it is dropped then and counted), or
                None for Kafka's choice (``StreamPartitioner``, KIP-837, KIP-1321).
            create: whether topics that a function chooses are made when they do not exist; else records for them fail,
                and ``on_error`` says how they are handled.
            produced: types, name and partitioner in a ``Produced``; it may also stand behind the topic, as in Kafka
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
        """Append the records to a table: of Spark's catalog, at a path, or of a database; each once (docs/spark.md).

        The program starts the query that does it, watches it and stops it. The records pass through a topic of its own,
        ``<application id>-<name>-sink``.

        Args:
            table: the table's name, such as ``"lake.shop.totals"``; it is made when it does not exist.
            mode: ``"append"``; a table of Penstock's has ``"upsert"``.
            path: the folder or URL of the table, in place of ``table``.
            format: Spark's name for the kind of table: ``"delta"``, ``"iceberg"``, ``"parquet"``, ``"jdbc"``. By
                default that of a table that exists, or of its catalog.
            key: the name of the column of the keys, or None to leave them out. Structs become their fields, and a
                windowed key its key, ``window_start`` and ``window_end``.
            value: the name of the column of the values; structs become their fields.
            timestamp: the name of a column with the records' times; none by default.
            name: names the topic on the way, and the query; needed where the table's name has more than letters, digits
                and dots. It stays the same in later versions of the program.
            trigger: how often the table is written, one second by default.
            options: Spark's options of the format, for ``"jdbc"`` with ``url``, ``user`` and ``password``. Secrets
                stand elsewhere: ``"env:NAME"`` or ``"file:/path"``.

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=int)
        >>> orders.to_spark_table("lake.shop.orders", format="delta", key="number", value="amount", timestamp="at")

        Raises:
            TopologyError: the target does not have the mode, or arguments do not go together.
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
        """Hand the records to a sink, each exactly once (docs/sinks.md).

        The records pass through a topic of the program's own, ``<application id>-<name>-sink``, so a commit counts
        first, and the sink gets it afterwards, also after a crash. The sink keeps a number with its rows, by which
        Penstock sees how far it is. The program's process feeds the sink, on every engine.

        Args:
            sink: a sink of your own (``penstock.sinks.Sink``), or a ready one of ``penstock.sinks``.
            name: names the topic on the way, and the numbers in the sink. It stays the same in later versions of the
                program.
            key: the name of the column of the keys, or None to leave them out. Structs become their fields, and a
                windowed key its key, ``window_start`` and ``window_end``.
            value: the name of the column of the values; structs become their fields.
            timestamp: the name of the column of the records' times, or None to leave them out.
            max_behind: how many records the sink may lack; the program makes no commit while it lacks more.
            retry_for: how long a sink that fails is tried again, with longer and longer pauses. Then the program ends
                with ``SinkError``.
            keep: how long records stay in the topic that the sink has, so that it can get them again when it was
                restored from an older copy.
            missing: the choice when the sink lacks records that are gone: ``"stop"`` the program, or ``"skip"`` them.

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
        """Write the records into a topic, and give them as a streaming DataFrame with types of their own.

        Its columns are key, value, topic, partition, offset and timestamp; keys and values have the types of this
        stream: numbers, text, bytes, structs of dataclasses, and windows as structs of key, start and end. JSON of any
        form is text. Start queries of it when the program has started.

        Args:
            spark: the session to read with.
            topic: the topic, as for ``to``.
            log: where the program's topics are; by default as the settings say.

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
        """The records, sent through an internal topic, so that equal keys are in one task; null keys are left out.

        With ``partitioner=``, as for ``to``, it is that which says in which task a record is. All of this can be said
        in a ``Repartitioned``, alone as in Kafka Streams or as ``repartitioned=``.
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
        """The stream read as a table: each record is the newest value of its key, a null value deletes it."""
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
        """Group by the key; ``name`` names the repartition topic, if one is needed.

        Types and name can be said in a ``Grouped``, alone as in Kafka Streams or as ``grouped=``.
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
        """Group by what a function of (key, value) gives, or an expression such as ``col("city")``; this repartitions.

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
        """The records without those whose key was forwarded within an interval, before or after in time (KIP-655).

        Both ends of the interval count. A duplicate does not prolong it. A record that comes late by more than the
        interval is forwarded unless its key is remembered, and is not remembered itself. Records without a key are
        always forwarded. Keys are the same if their bytes are.

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
        """The records without those whose key and id were forwarded within an interval (KIP-655), as by
        ``deduplicate_by_key``; without key or id they are always forwarded.

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
        """The records without those whose id was forwarded within an interval, under any key and in any partition
        (KIP-655), as by ``deduplicate_by_key``.

        The records go through a repartition topic by their ids and keep their keys; what groups by key afterwards
        repartitions again; a processor with a store does not, so put ``repartition`` in front of it. Records without an
        id are always forwarded.

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
