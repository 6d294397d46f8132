"""A finished topology: what ``StreamsBuilder.build`` returns."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan import describe, drawing
from penstock.plan.by_hand import Declarations
from penstock.plan.dataframes import FrameSource, SinkTarget, SourceFeed, TableTarget
from penstock.plan.defaults import Defaults
from penstock.plan.headers import WithHeaders
from penstock.plan.node import Node, StoreSpec
from penstock.plan.nodes import DynamicSink, Repartition, Sink
from penstock.plan.passes.copartition import Copartition, copartitions
from penstock.plan.passes.overtaken import without_needless_announcements
from penstock.plan.passes.partitioning import warn_of_misplaced, warn_of_uneven
from penstock.plan.passes.stores import TableFacts, table_facts
from penstock.plan.passes.unused import check_used
from penstock.plan.physical import SubTopology, sub_topologies
from penstock.plan.rewriting import Expanded, Owned
from penstock.plan.sources import warn_of_cyclic_letters
from penstock.plan.topic_types import check_types_of_topics
from penstock.plan.unnamed import check_named
from penstock.plan.validate import check_has_tasks, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Self, Unpack

    from pyspark.sql import DataFrame, SparkSession

    from penstock.engine.batch.result import BatchResult
    from penstock.engine.operate.lifecycle import StateListener, UncaughtExceptionHandler
    from penstock.engine.running.streams import Streams
    from penstock.engine.shared.progress import Progress
    from penstock.log.base import Log
    from penstock.log.cluster import Kafka
    from penstock.settings import Settings, SettingsArguments
    from penstock.state.restoring import StateRestoreListener
    from penstock.state.standby_updates import StandbyUpdateListener
    from penstock.values.durations import Duration

_FORMATS = ("text", "mermaid")


class Topology(Declarations):
    """The steps of a program, and the sub-topologies that they form.

    ``StreamsBuilder.build`` returns a topology. You can also build one by hand with ``add_source``, ``add_processor``
    and ``add_sink``, alone or after steps of the DSL. Penstock checks it at its first use.

    >>> from penstock import Topology
    >>> def shout(record, context):
    ...     context.forward(record.with_value(record.value.upper()))
    >>> topology = Topology()
    >>> topology = topology.add_source("in", "words", value=str).add_processor("shout", shout, "in")
    >>> print(topology.add_sink("out", "shouts", "shout").describe().strip())
    Topologies:
       Sub-topology: 0
        Source: in (topics: [words])
          --> shout
        Processor: shout (stores: [])
          --> out
          <-- in
        Sink: out (topic: shouts)
          <-- shout

    Raises:
        TopologyError: the steps do not make a topology that can be run.
    """

    def checked(self) -> Self:
        """This topology, if it can be run.

        Raises:
            TopologyError: it cannot; the message says where and why.
        """
        self._built  # noqa: B018 - finds out
        return self

    @classmethod
    def checked_type(cls, given: Any, what: str) -> Topology:
        """A topology.

        Raises:
            ConfigError: something else was given, such as its builder.
        """
        if not isinstance(given, Topology):
            hint = (
                "give builder.build()"
                if callable(getattr(given, "build", None))
                else "it is what builder.build() gives"
            )
            raise ConfigError(f"{what} takes a Topology; got {show(given)} of type {type(given).__name__}; {hint}")
        return given

    def completed_by(self, settings: Settings) -> Topology:
        """This topology with the types and the extractor that the settings say where it says none.

        Warn of steps whose results nothing uses.

        Raises:
            ConfigError: a setting names no type or no extractor.
            TopologyError: with these types the steps do not fit together, a name is missing that is required, there is
                nothing but global tables, or no step has an effect.
        """
        check_has_tasks(self.sub_topologies)
        check_used(self.sub_topologies, self.facts, self._told)
        warn_of_cyclic_letters(self.nodes, settings.dead_letters)
        if settings.require_names:
            check_named(self.nodes, self.facts.stores)
        defaults = Defaults(settings)
        declared = defaults.of(self._declared)
        stores = [*defaults.of(self._stores.values()), *defaults.added_stores()]
        if settings.dsl_store_format == "headers":
            declared = WithHeaders().of(declared)
        is_new = any(new is not old for new, old in zip(declared, self._declared, strict=True)) or any(
            new is not old for new, old in zip(stores, self._stores.values(), strict=False)
        )
        completed = self._of(declared, stores) if is_new else self
        check_types_of_topics(completed.declared, with_defaults=True)
        return completed

    @property
    def has_patterns(self) -> bool:
        """Whether a source reads by a pattern."""
        return any(node.pattern is not None for node in self.nodes)

    def expanded(self, topics: Iterable[str]) -> Topology:
        """This topology with the topics that match the patterns of its sources; itself if there is nothing new.

        Raises:
            TopologyError: a topic matches more than one.
        """
        if not self.has_patterns:
            return self
        expanded = Expanded(topics)
        declared = expanded.of(self._declared)
        is_new = any(new is not old for new, old in zip(declared, self._declared, strict=True))
        return self._of(declared, expanded.of(self._stores.values())).checked() if is_new else self

    def owned_by(self, application_id: str) -> Topology:
        """This topology with the topics of what is outside as an application calls them; itself if it has none.

        Raises:
            TopologyError: such a topic is one that another step reads or writes.
        """
        if not self.has_outside:
            return self
        owned = Owned(application_id)
        return self._of(owned.of(self._declared), owned.of(self._stores.values())).checked()

    @property
    def has_outside(self) -> bool:
        """Whether DataFrames or sources come in, or tables or sinks are written."""
        return any(node.outside is not None for node in self._declared)

    @property
    def needs_spark(self) -> bool:
        """Whether DataFrames come in, or tables of Spark are written."""
        return any(isinstance(node.outside, FrameSource | TableTarget) for node in self._declared)

    @property
    def frame_sources(self) -> dict[str, Node]:
        """The steps that DataFrames come in by, by their topics."""
        return {topic: node for node in self.nodes if isinstance(node.outside, FrameSource) for topic in node.topics}

    @property
    def feeds(self) -> dict[str, Node]:
        """The steps that sources of the program come in by, by their topics."""
        return {topic: node for node in self.nodes if isinstance(node.outside, SourceFeed) for topic in node.topics}

    @property
    def table_sinks(self) -> dict[str, Sink]:
        """The steps whose records go into tables, by their topics."""
        return self._sinks_of(TableTarget)

    @property
    def sinks(self) -> dict[str, Sink]:
        """The steps whose records go into sinks of the program, by their topics."""
        return self._sinks_of(SinkTarget)

    def _sinks_of(self, kind: type) -> dict[str, Sink]:
        return {node.topic: node for node in self.nodes if isinstance(node, Sink) and isinstance(node.outside, kind)}

    def _changed(self) -> None:
        self.__dict__.pop("_built", None)

    @cached_property
    def _built(self) -> _Built:
        built = _Built(tuple(self._declared), self._stores.values())
        warn_of_misplaced(built.declared, self._told)
        return built

    def warn_of_uneven(self, partitions: Mapping[str, int]) -> None:
        """Warn of stores behind topics with different numbers of partitions (``PartitioningWarning``)."""
        warn_of_uneven(self.sub_topologies, partitions, self._told)

    def _of(self, declared: Iterable[Node], stores: Iterable[StoreSpec]) -> Topology:
        """The same topology with other steps, which gives no warning again."""
        topology = Topology(declared, stores)
        topology._told = self._told
        return topology

    @property
    def declared(self) -> tuple[Node, ...]:
        """The steps in the order in which they were declared; some several times (see ``Graph``)."""
        return self._built.declared

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Each step once."""
        return self._built.nodes

    @property
    def facts(self) -> TableFacts:
        """The facts about tables: which ones have a store, and which ones send old values."""
        return self._built.facts

    @property
    def sub_topologies(self) -> tuple[SubTopology, ...]:
        """The parts that run apart from one another, through topics."""
        return self._built.sub_topologies

    @property
    def copartitions(self) -> tuple[Copartition, ...]:
        """The topics that must have the same number of partitions."""
        return self._built.copartitions

    def describe(self, format: str = "text") -> str:
        """Return the topology as Kafka Streams' text (``"text"``) or as a Mermaid flowchart (``"mermaid"``).

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> print(builder.build().describe().strip())
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [in])
              --> KSTREAM-SINK-0000000001
            Sink: KSTREAM-SINK-0000000001 (topic: out)
              <-- KSTREAM-SOURCE-0000000000
        """
        if format not in _FORMATS:
            raise ConfigError(f"the format must be one of {', '.join(_FORMATS)}; got {format!r}")
        described = sub_topologies(self.declared, self.facts, as_described=True)
        if format == "mermaid":
            return describe.as_mermaid(described, self.facts.versioned)
        return describe.as_text(described)

    @property
    def internal_topics(self) -> frozenset[str]:
        """The repartition topics."""
        return self._built.internal_topics

    @property
    def repartitions(self) -> dict[str, Repartition]:
        """The steps that send records through these topics, by topic."""
        return self._built.repartitions

    @property
    def source_topics(self) -> tuple[str, ...]:
        """The topics read from the log."""
        topics = (topic for sub in self.sub_topologies for topic in sub.source_topics)
        return tuple(topic for topic in dict.fromkeys(topics) if topic not in self.internal_topics)

    @property
    def sink_topics(self) -> tuple[str, ...]:
        """The topics written to the log."""
        topics = (topic for sub in self.sub_topologies for topic in sub.sink_topics)
        return tuple(topic for topic in dict.fromkeys(topics) if topic not in self.internal_topics)

    @property
    def dynamic_sinks(self) -> tuple[DynamicSink, ...]:
        """The sinks that choose a topic for each record."""
        return tuple(node for node in self.nodes if isinstance(node, DynamicSink))

    def start(
        self,
        application_id: str,
        log: Log | Kafka | Path | str | None = None,
        spark: SparkSession | None = None,
        trigger: Duration | None = None,
        slots: int | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        state_restore_listener: StateRestoreListener | None = None,
        standby_update_listener: StandbyUpdateListener | None = None,
        state_listener: StateListener | None = None,
        uncaught_exception_handler: UncaughtExceptionHandler | None = None,
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        **settings: Unpack[SettingsArguments],
    ) -> Streams:
        """Run the topology on Spark, or in processes on this machine; the setting ``engine`` decides.

        Args:
            application_id: the name of the application, its folder, its internal topics and its job in Spark.
            log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`; by default that of the settings.
            spark: the session to run on; by default the active one, else a new local one.
            trigger: ``"available-now"`` processes all waiting records, then stops; a duration replaces the setting
                ``commit_interval``. By default the program commits as records arrive, until you stop it.
            slots: the number of Python processes that work at once; by default the number of cores.
            on_progress: a function that Penstock calls with a ``Progress`` after each commit.
            state_restore_listener: an object that hears how stores are restored.
            standby_update_listener: an object that hears how the copies of ``standby_replicas=1`` follow.
            state_listener: a function that Penstock calls with (new state, old state) when the application's state
                changes.
            uncaught_exception_handler: a function that Penstock calls with the error before it stops the application.
                If the function returns ``"replace"``, new tasks start from the last commit; ``"stop"`` stops the
                application.
            rename: stores that have other names in the changed topology, as ``{"old": "new"}``: they keep their rows.
            drop: stores and topics that the topology no longer has, or has in another form. Penstock removes their
                data. Later starts may repeat the argument: it then changes nothing.
            settings: settings as keywords, such as ``on_error="skip"``; ``penstock config`` lists them.

        Returns:
            The handle of the running application.

        Raises:
            ConfigError: a setting is wrong, or the topology would lose or mix the application's state. Nothing was
                started.
            TopologyError: ``require_names`` is set, and stores or repartition topics have generated names.
            TopicNotFoundError: a source topic does not exist.
            AlreadyRunningError: another program runs under this application id.
        """
        from penstock.engine.running.start import start

        given = (application_id, log, spark, trigger, slots, on_progress)
        return start(
            self,
            *given,
            state_restore_listener=state_restore_listener,
            standby_update_listener=standby_update_listener,
            state_listener=state_listener,
            uncaught_exception_handler=uncaught_exception_handler,
            rename=rename,
            drop=drop,
            **settings,
        )

    def run_batch(
        self,
        spark: SparkSession,
        sources: Mapping[str, DataFrame] | None = None,
        *,
        key: Mapping[str, str | Sequence[str]] | str | Sequence[str] | None = None,
        value: Mapping[str, str] | str | None = None,
        timestamp: Mapping[str, str] | str | None = None,
        order: Mapping[str, str | Sequence[str]] | str | Sequence[str] | None = None,
        timestamp_unit: Mapping[str, str] | str | None = None,
        headers: Mapping[str, str] | str | None = None,
        log: Log | Kafka | Path | str | None = None,
        partitions: int | None = None,
        stores: Iterable[str] | None = None,
        application_id: str | None = None,
        batch: str | None = None,
        seed: str | None = None,
        then: Mapping[str, Any] | None = None,
        **settings: Unpack[SettingsArguments],
    ) -> BatchResult:
        """Run the topology once over all present input, as a batch job of Spark (docs/batch.md).

        With ``application_id`` the batch is the next commit of an application. It takes the new records of the topics
        and the given rows, and continues from the state of the last commit. With ``seed`` it computes the first state
        of an application.

        Args:
            spark: the session to run on.
            sources: the DataFrames, by the topics that they replace. The batch reads all other topics from the log.
            key: the column with the keys: one name for all topics, or a dict by topic. By default records have no keys.
                A list of columns makes one key.
            value: the column with the values; by default all columns, as one JSON object.
            timestamp: the column with the times, as for :func:`penstock.write`; by default every row has the time of
                the run.
            order: the column with the order in which the rows of a topic arrived, or two columns: the partition, and
                the offset in it. By default rows are sorted by their times, and rows of one time by their columns.
            timestamp_unit: the unit of times that are numbers, counted from 1970: ``"s"``, ``"ms"``, ``"us"`` or
                ``"ns"``; milliseconds by default.
            headers: the column with the headers, an ``array<struct<key: string, value: binary>>``; by default records
                have none.
            log: the place of the topics that no DataFrame replaces.
            partitions: the number of partitions of the DataFrames' topics, and so of tasks. The default is 8, or the
                number of the topics of the log with which they are joined.
            stores: the stores whose rows are results; by default all stores that the topology names.
            application_id: the application whose next commit this batch makes; its topics are those of the log.
            batch: a name for the rows of the DataFrames. They count once in the application, even if the job runs again
                with this name.
            seed: the application whose first state the batch computes. It must not have made commits yet.
            then: where a program begins to read after a seed, by the topics that DataFrames replace: an offset for each
                partition, or a value of ``auto_offset_reset``.
            settings: settings as keywords, such as ``on_error="skip"``.

        Returns:
            The output topics and the stores as DataFrames, and the counts of records left out; for an application also
            the commit.

        Raises:
            ConfigError: a topic or a column is missing or has a wrong type; nothing was run.
            TopologyError: topics that are joined have different numbers of partitions; nothing was run.
            ProcessingError: a record failed, and ``on_error`` is ``"fail"``.
            AlreadyRunningError: a program with this application id runs on this machine.
            FencedError: another program has taken over the application; the batch does not count.
        """
        from penstock.engine.batch.arguments import Columns
        from penstock.engine.batch.run import Role, run_batch

        columns = Columns(key, value, timestamp, order, timestamp_unit, headers)
        role = Role(application_id, batch, seed, then)
        frames = {} if sources is None else sources
        return run_batch(self, spark, frames, columns, role, log, partitions, stores, **settings)

    def batches(
        self,
        application_id: str,
        topic: str | None = None,
        *,
        key: str | Sequence[str] | None = None,
        value: str | None = None,
        timestamp: str | None = None,
        order: str | Sequence[str] | None = None,
        timestamp_unit: str | None = None,
        headers: str | None = None,
        log: Log | Kafka | Path | str | None = None,
        partitions: int | None = None,
        name: str | None = None,
        **settings: Unpack[SettingsArguments],
    ) -> Callable[[DataFrame, int], None]:
        """Make a function that takes each batch of a streaming DataFrame as the next commit of an application
        (docs/batch.md).

        After a failure, Spark repeats a batch. Penstock recognizes it by the query and its number, and counts it once.

        Args:
            application_id: the application.
            topic: the topic that the DataFrame replaces; not needed if the topology reads one topic.
            key: as for ``run_batch``.
            value: as for ``run_batch``.
            timestamp: as for ``run_batch``.
            order: as for ``run_batch``.
            timestamp_unit: as for ``run_batch``.
            headers: as for ``run_batch``.
            log: as for ``run_batch``.
            partitions: as for ``run_batch``.
            name: a name for the query, which must stay the same when you start the query again. By default Spark's id
                of the query, which only a classic session knows.
            settings: settings as keywords.

        Raises:
            ConfigError: the topology does not read the topic, or another argument is not valid for any batch.

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("orders", key=str, value=dict).group_by_key().count("counts").to_stream().to("totals")
        >>> take = builder.build().batches("shop", key="customer", timestamp="at")
        >>> def follow(orders):
        ...     return orders.writeStream.option("checkpointLocation", "lake/query").foreachBatch(take).start()
        """
        from penstock.engine.batch.arguments import Columns
        from penstock.engine.batch.queries import batches

        columns = Columns(key, value, timestamp, order, timestamp_unit, headers)
        return batches(self, application_id, topic, columns, name, log=log, partitions=partitions, **settings)

    def _repr_html_(self) -> str:
        return drawing.of_topology(self.sub_topologies)

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self.describe('mermaid')}```"

    def __repr__(self) -> str:
        return f"<Topology of {len(self.nodes)} steps in {len(self.sub_topologies)} sub-topologies>"


class _Built:
    """The facts derived from the steps."""

    def __init__(self, declared: tuple[Node, ...], stores: Iterable[StoreSpec]):
        self.declared = declared = without_needless_announcements(declared)
        self.nodes = tuple(dict.fromkeys(declared))
        self.facts = table_facts(declared, stores)
        self.sub_topologies = sub_topologies(declared, self.facts)
        self.copartitions = copartitions(declared)
        self.repartitions = {node.topic: node for node in self.nodes if isinstance(node, Repartition)}
        self.internal_topics = frozenset(self.repartitions)
        validate(declared, self.facts, self.sub_topologies)
        fixed = {topic: one.partitions for topic, one in self.repartitions.items() if one.partitions is not None}
        for copartition in self.copartitions:
            copartition.check(fixed)
