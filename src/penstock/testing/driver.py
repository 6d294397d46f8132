"""Run a topology in this process, one record at a time, without Spark, Java or a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import NO_RECORD, Batch, Changes, merge
from penstock.columns.column import BytesColumn, Column, null_column
from penstock.engine.shared.layout import TaskId, topic_names
from penstock.engine.shared.source_times import SourceTimes
from penstock.engine.task.flow import Flow
from penstock.engine.task.steps import Outputs, Write
from penstock.engine.timing.idle import IdleTasks
from penstock.errors import ConfigError
from penstock.figures.metrics import DROPPED, Metric, labelled, readable, total
from penstock.messages import show
from penstock.ops.core.context import Context
from penstock.ops.core.failures import Origin
from penstock.ops.core.notes import TaskFacts
from penstock.plan.names import check_name
from penstock.plan.physical import Part, SubTopology
from penstock.plan.rewriting import matching
from penstock.plan.topology import Topology
from penstock.query.commits import shape_named, shapes_of
from penstock.query.stores import AnyView
from penstock.record import Record
from penstock.serdes import Serde
from penstock.settings import Settings
from penstock.state.task_state import Numbers, TaskState
from penstock.testing.arrived import Arrived
from penstock.testing.batches import batchable_topics, is_chain, updates_each_key_once
from penstock.testing.partitions import Partitions, Readers, partition_of
from penstock.testing.queues import Queued, TopicQueues, endless
from penstock.testing.records import (
    Given,
    as_input,
    as_read,
    batch_of,
    checked_row,
    column_of,
    header_pairs,
    headers_of,
    listed,
    old_of,
    place_of,
)
from penstock.testing.stores import StoreAccess
from penstock.testing.tasks import open_task, outputs_of, view_over
from penstock.testing.timeline import Timeline
from penstock.testing.topics import TopicAccess
from penstock.testing.turns import Made, in_turn, made_of
from penstock.values.durations import Duration, later
from penstock.values.times import to_timestamp

if TYPE_CHECKING:
    from typing import Unpack

    from penstock.settings import SettingsArguments


_BATCH = 1024


class TopologyTestDriver(TopicAccess, StoreAccess):
    """Runs a topology in a test: pipes records in, and reads the results. Each record is a commit of its own.

    By default everything runs in one partition. When ``pipe_input`` returns, all results of its record are ready, also
    those that pass through repartition topics.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> builder.stream("words", value=str).group_by(lambda key, word: word).count("counts").to_stream().to("counts")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_input("words", None, "hello", 5)
    >>> driver.pipe_input("words", None, "hello", 3)
    >>> driver.read_output("counts")
    [Record(key='hello', value=1, timestamp=5, headers=()), Record(key='hello', value=2, timestamp=5, headers=())]
    >>> driver.store("counts").get("hello")
    2

    Args:
        topology: the result of ``StreamsBuilder.build``.
        application_id: part of the names of internal topics, whose bytes count in buffers with a limit of bytes.
        partitions: the number of partitions of all topics, or a dict by topic. Kafka's partitioner chooses the
            partition of each record, and each sub-topology has a task for each partition, as on a cluster. Outputs and
            stores are those of all tasks.
        settings: settings as keywords, such as ``on_error="skip"``.

    After a step that changes keys, a store may have the rows of one key in several tasks. With several partitions, a
    test can show this:

    >>> from penstock import Record, Stores
    >>> def count(record, context):
    ...     store = context.get_state_store("seen")
    ...     store.put(record.key, (store.get(record.key) or 0) + 1)
    ...     context.forward(record.with_value(store.get(record.key)))
    >>> builder = StreamsBuilder()
    >>> seen = Stores.key_value_store_builder(Stores.in_memory_key_value_store("seen"), str, int)
    >>> _ = builder.add_state_store(seen)
    >>> by_word = builder.stream("lines", str, str).select_key(lambda key, word: word, key=str)
    >>> by_word.repartition().process(count, "seen", value=int).to("right")
    >>> driver = TopologyTestDriver(builder.build(), partitions=4)
    >>> driver.pipe_record_list("lines", [("a", "hello"), ("b", "hello"), ("c", "hello")])
    >>> [record.value for record in driver.read_output("right")]
    [1, 2, 3]

    Without ``repartition()``, the result is 1, 1, 1 if ``a``, ``b`` and ``c`` are in three partitions, and ``build``
    warns.
    """

    most_fed_back = 1_000
    """How many records one input record may make in a topic that the topology both writes and reads."""

    def __init__(
        self,
        topology: Topology,
        application_id: str = "test",
        partitions: int | Mapping[str, int] = 1,
        **settings: Unpack[SettingsArguments],
    ):
        check_name(application_id)
        self.settings = Settings.load(environment={}, **settings)
        topology = Topology.checked_type(topology, type(self).__name__).completed_by(self.settings)
        self.topology = topology
        self.wall_clock_ms = 0
        self._times = SourceTimes(topology, carried=False)
        self._idle = IdleTasks(topology, lambda: self.wall_clock_ms / 1000, lambda: self.wall_clock_ms)
        self._is_closed = False
        self._shapes = shapes_of(topology)
        self._outputs: dict[str, list[Record]] = {topic: [] for topic in topology.sink_topics}
        self._order: list[tuple[str, Record]] = []
        self._queues = TopicQueues[tuple[str, int]]()
        self._fed_back: Counter[str] = Counter()
        self._partitions = Partitions(topology, partitions)
        self._own = [topic for topic in topology.source_topics if topic in topology.sink_topics]
        self._current = Given("unknown", -1)
        self._offsets: dict[tuple[str, int], int] = {}
        self._piped = 0
        self._dead_letter_topic = self.settings.handlers.dead_letter_topic
        self._tasks: list[tuple[Flow, TaskState, Context]] = []
        self._sources: dict[str, list[Readers]] = {}
        """The readers of each topic; a global table's topic has several."""
        self._sinks: dict[str, Part] = {}
        self._by_pattern: list[Readers] = []
        caching = self.settings.statestore_cache_max_bytes > 0
        is_whole = partitions == 1 and not self.settings.emit_interval_ms
        self._batchable = batchable_topics(topology, caching) if is_whole else frozenset()
        for sub in topology.sub_topologies:
            if sub.is_global:
                continue
            self._read_sources(sub)
            self._tasks += [self._task(sub, number, application_id) for number in range(self._partitions.tasks_of(sub))]
        most_tasks = max((partition_of(state) + 1 for _, state, _ in self._tasks), default=1)
        self._arrivals = [Arrived(topology, lambda: self._piped) for _ in range(most_tasks)]
        for flow, state, context in self._tasks:
            arrived = self._arrivals[partition_of(state)]
            flow.watching, context.commit.watching = arrived.note, arrived.saw
            flow.start()

    def _task(self, sub: SubTopology, partition: int, application_id: str) -> tuple[Flow, TaskState, Context]:
        """Return a task of a sub-topology, open."""
        topology, settings, name = self.topology, self.settings, str(TaskId(sub.id, partition))
        names = topic_names(topology, application_id)
        facts = TaskFacts(
            task=name,
            application_id=application_id,
            handlers=settings.handlers,
            origin=self._origin,
            offsets=self._offsets_at,
            origins=lambda positions: self._current.origins(positions, names),
            partitions_of=lambda topic, makes, key, value: self._partitions.of_topic(topic),
            internal_topics=topology.internal_topics,
            roots=lambda positions: np.full(len(positions), self._piped),
            wall_clock_ms=lambda: self.wall_clock_ms,
            emit_interval_ms=settings.emit_interval_ms,
            commits_each_record=updates_each_key_once(sub, topology.facts),
            flushes_each_record=is_chain(sub),
        )
        return open_task(topology, sub, settings, facts)

    def _read_sources(self, sub: SubTopology) -> None:
        """Register the sources of a sub-topology for its tasks, which come next, and its sinks."""
        for part in sub.working_parts:
            readers = Readers(sub, part, len(self._tasks), self._partitions.tasks_of(sub))
            if part.kind == "source":
                if part.node.pattern is not None:
                    self._by_pattern.append(readers)
                for topic in part.topics:
                    self._sources.setdefault(topic, []).append(readers)
            elif part.kind == "sink":
                self._sinks[part.name] = part

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop all state; outputs and counters can still be read."""
        self._is_closed = True
        for flow, state, _ in self._tasks:
            flow.close()
            state.close()

    # --- piping and reading --------------------------------------------------------------------------------------

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int = 0,
        headers: Iterable[tuple[str, bytes]] = (),
        partition: int | None = None,
    ) -> None:
        """Process one record, through all steps.

        The driver encodes keys and values with the types of the source; it does not change bytes. With several
        partitions, Kafka's partitioner chooses the partition of the key, unless you give ``partition``. Records without
        a key go to all partitions in turn.

        Raises:
            ConfigError: the topology does not read this topic, it has no such partition, or the driver is closed.
            ProcessingError: the record failed, or the topology sends itself records without an end.
        """
        key_type, value_type = self._source_types(topic)
        time = to_timestamp(timestamp)
        columns = column_of(key, key_type, "key", topic), column_of(value, value_type, "value", topic)
        if partition is None:
            partition = self._partitions.of_key(topic, columns[0], self._piped)
        else:
            partition = self._partitions.given(topic, partition)
        self._piped += 1
        self._enqueue((topic, partition), Queued(*columns, None, time, headers_of(headers)))
        self._drain()
        self._times.after(self._numbers().values())

    def pipe_record_list(self, topic: str, records: Iterable[tuple[Any, ...]]) -> None:
        """Process many records. Outputs and their order are the same as with ``pipe_input`` for each record.

        If no step needs one record at a time, each step processes about a thousand records at once, which is many times
        faster. This holds for streams without cached tables, and for a single chain of steps with caches.

        Args:
            topic: a topic that the topology reads.
            records: ``(key, value)``, ``(key, value, timestamp)``, ``(key, value, timestamp, headers)`` or a
                :class:`penstock.Record` each. The default timestamp is 0.

        >>> from penstock import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("words", value=str).group_by(lambda key, word: word).count().to_stream().to("counts")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_record_list("words", [(None, "hello"), (None, "you"), (None, "hello")])
        >>> [(record.key, record.value) for record in driver.read_output("counts")]
        [('hello', 1), ('you', 1), ('hello', 2)]

        Raises:
            ConfigError: the topology does not read this topic, a row has another form, or the driver is closed.
            ProcessingError: a record failed; the driver has processed the records before it.
        """
        self._source_types(topic)
        rows = iter(listed(records, f"pipe_record_list into {topic!r}"))
        if topic not in self._batchable:
            for record in rows:
                self.pipe_input(topic, *checked_row(topic, record))
            return
        while some := list(islice(rows, _BATCH)):
            given = [checked_row(topic, row) for row in some]
            if not self._run_batch(topic, given):
                for row in given:
                    self.pipe_input(topic, *row)
            self._times.after(self._numbers().values())

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Let wall-clock time pass."""
        self._check_open()
        self._idle.due(self._numbers())  # what waits, waits from now on
        self.wall_clock_ms = later(self.wall_clock_ms, duration)
        for task, advances in self._idle.due(self._numbers()).items():
            flow, state, context = next(one for one in self._tasks if one[1].task == task)
            self._deliver(partial(flow.advance_time, advances), state)
            self._finish(flow, state, context)
        for flow, state, context in self._tasks:
            self._deliver(flow.punctuate, state)
            self._finish(flow, state, context)
        self._drain()

    def stream_time(self, node: str) -> int:
        """How far a step has come in time: the highest timestamp that it has seen, -1 before it has seen any.

        Raises:
            ConfigError: there is no step of that name.
        """
        steps = [one.name for one in self.topology.nodes]
        of_tasks = self._numbers().values()
        if not isinstance(node, str) or not any(node in names for names in (steps, *of_tasks)):
            raise ConfigError(f"no step is named {show(node)}; the steps are {', '.join(steps)}")
        every = (numbers[node] for numbers in of_tasks if node in numbers)
        return max((clocks.get("stream_time", -1) for clocks in every), default=-1)

    def _numbers(self) -> dict[str, Numbers]:
        return {state.task: state.numbers() for _, state, _ in self._tasks}

    def timeline(self, key: Any, node: str | None = None) -> list[Timeline]:
        """Return the history of a key in each step with windows or deduplication, or in one step: its windows or
        sessions over time, and which records were late, and why. A history prints as text, and a notebook shows it as a
        drawing.

        Args:
            key: the key, as a Python value.
            node: the step; by default all steps with windows or deduplication.

        Raises:
            ConfigError: no step of this name has windows.
        """
        lines = [line for arrived in self._arrivals for line in arrived.timelines(key, node)]
        return lines if len(self._arrivals) == 1 else [line for line in lines if line.records]

    def metrics(self) -> dict[Metric, float]:
        """All figures of all tasks, by their Kafka names."""
        figures: dict[str, int] = {}
        for _, state, context in self._tasks:
            figures |= labelled(state.task, context.commit.metrics)
        return readable(figures)

    def dropped_records_total(self) -> int:
        """How many records were dropped by Kafka's rules so far."""
        return int(total(self.metrics(), DROPPED))

    def __repr__(self) -> str:
        at = "closed" if self._is_closed else f"reads {', '.join(self.topology.source_topics)}"
        return f"<TopologyTestDriver of {self.topology!r}: {at}>"

    # --- inside --------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigError("the driver is closed; make a new TopologyTestDriver")

    def _source_types(self, topic: str) -> tuple[Serde, Serde]:
        """Return the types of keys and values of a topic that is read from outside."""
        self._check_open()
        if isinstance(topic, str) and topic not in self._sources:
            self._take_up(topic)
        if not isinstance(topic, str) or topic not in self._sources or topic in self.topology.internal_topics:
            known = ", ".join(self.topology.source_topics)
            raise ConfigError(f"the topology does not read a topic {show(topic)}; it reads these topics: {known}")
        return self._sources[topic][0].part.node.types

    def _take_up(self, topic: str) -> None:
        """Let the source with a matching pattern read a topic, if there is one."""
        for readers in self._by_pattern:
            pattern = readers.part.node.pattern
            if pattern is not None and matching(pattern, [topic]):
                self._sources[topic] = [readers]

    def _view(self, name: str) -> AnyView:
        self._check_open()
        return view_over((state for _, state, _ in self._tasks), name, shape_named(name, self._shapes), self._offsets)

    def _origin(self, position: int) -> Origin:
        return self._current.origin(position)

    def _offsets_at(self, positions: IntArray) -> IntArray:
        return np.where(positions == NO_RECORD, -1, self._current.offset + positions)

    def _enqueue(self, place: tuple[str, int], record: Queued) -> None:
        self._queues.add(place, record)

    def _drain(self) -> None:
        self._fed_back.clear()
        while (queued := self._queues.next()) is not None:
            self._process(*queued)

    def _process(self, place: tuple[str, int], record: Queued) -> None:
        self._current = self._taken(place, record.key, record.value, [record.timestamp], record.headers)
        for readers in self._sources[place[0]]:
            for number in readers.of(place[1]):
                self._run(self._tasks[number], readers.part, record)

    def _taken(self, place: tuple[str, int], key: Column, value: Column, times: list[int], headers: Any) -> Given:
        """Return the next records of a topic as the current ones."""
        first = self._offsets.get(place, -1) + 1
        self._offsets[place] = first + len(times) - 1
        return Given(place[0], first, key, value, times, place[1], headers)

    def _run_batch(self, topic: str, rows: list[tuple[Any, ...]]) -> bool:
        """Process many records at once. Return False, and undo it, if one of them fails."""
        before = dict(self._offsets), [dict(context.commit.metrics) for _, _, context in self._tasks]
        dropped = [list(context.commit.dropped_positions or ()) for _, _, context in self._tasks]
        marks = [arrived.mark() for arrived in self._arrivals]
        ran: list[tuple[Flow, TaskState, Context]] = []
        try:
            made: dict[str, Made] = {}
            self._work(topic, batch_of(rows, *self._source_types(topic)), ran, made)
            found = in_turn(topic, made)
        except Exception:
            self._offsets = before[0]
            for arrived, mark in zip(self._arrivals, marks, strict=True):
                arrived.forget(mark)
            for (_, state, context), figures, positions in zip(self._tasks, before[1], dropped, strict=True):
                context.commit.metrics, context.commit.dropped_positions = figures, positions
                context.chunk.puts.clear()
                context.commit.dead_letters.clear()
                context.commit.failed.clear()
                if any(state is one for _, one, _ in ran):
                    state.rollback()
            return False
        for _, state, context in ran:
            self._idle.had_records([state.task])
            self._deliver_dead_letters(context)
            context.commit.failed.clear()
            state.commit(state.at + 1)
        for sink, record in found:
            self._outputs[sink].append(record)
            self._order.append((sink, record))
        return True

    def _work(
        self, topic: str, batch: Batch, ran: list[tuple[Flow, TaskState, Context]], made: dict[str, Made]
    ) -> None:
        """Run a topic's records through its sub-topologies, and what they make through the next ones."""
        internal, of_all = self.topology.internal_topics, []
        current = self._taken((topic, 0), batch.key, batch.value, batch.timestamp.tolist(), batch.headers)
        for readers in self._sources[topic]:
            [number] = readers.of(0)
            ran.append(self._tasks[number])
            self._current = current
            outputs = outputs_of(self._tasks[number][0], readers.part, batch, self._sinks)
            of_all.append(made_of(len(batch), outputs, internal))
            for inner in dict.fromkeys(to for to, _ in outputs if to in internal):
                sent = merge([one for to, one in outputs if to == inner])
                self._work(inner, as_input(sent, self._sources[inner][0].part.node), ran, made)
        made[topic] = [list(chain.from_iterable(rows)) for rows in zip(*of_all, strict=True)]

    def _run(self, task: tuple[Flow, TaskState, Context], part: Part, record: Queued) -> None:
        flow, state, context = task
        times, order = np.array([record.timestamp]), (np.zeros(1, np.int64),)
        batch = Batch(record.key, record.value, times, order, record.headers)
        if part.node.carries_changes:
            old = record.old if record.old is not None else null_column(1, record.value.serde)
            batch = Changes(record.key, record.value, times, order, record.headers, old=old)
        self._deliver(partial(flow.step, {part.name: batch}), state)
        self._idle.had_records([state.task])
        self._finish(flow, state, context)

    def _finish(self, flow: Flow, state: TaskState, context: Context) -> None:
        self._deliver(flow.flush, state)
        self._deliver_dead_letters(context)
        context.commit.failed.clear()
        state.commit(state.at + 1)

    def _deliver(self, run: Callable[[Write], None], state: TaskState) -> None:
        pieces: list[Outputs] = []
        run(pieces.append)
        rows = []
        for name, batches in (output for outputs in pieces for output in outputs.items()):
            for batch in batches:
                rows += [(place_of(batch, row), name, batch, row) for row in range(len(batch))]
        for _, name, batch, row in sorted(rows, key=lambda item: item[0]):
            self._deliver_one(self._sinks[name], batch, row, partition_of(state))

    def _deliver_one(self, part: Part, batch: Batch, row: int, task: int) -> None:
        one = batch.take(np.array([row]))
        topic = part.topics[0] if one.to_topic is None else one.to_topic[0]
        timestamp = int(one.timestamp[0])
        if topic in self._sources:
            key_type, value_type = self._sources[topic][0].part.node.types
            key, value = BytesColumn(one.key.encoded(), key_type), BytesColumn(one.value.encoded(), value_type)
            old = old_of(one, value_type)
            self._count_fed_back(topic)
            place = topic, self._partitions.of_result(topic, one, task)
            self._enqueue(place, Queued(key, value, old, timestamp, one.headers))
        if topic in self._outputs or not part.topics:
            record = Record(as_read(one.key)[0], as_read(one.value)[0], timestamp, header_pairs(one.headers))
            self._outputs.setdefault(topic, []).append(record)
            self._order.append((topic, record))

    def _count_fed_back(self, topic: str) -> None:
        """Stop a topology that feeds itself without an end, because it reads what it writes."""
        self._fed_back[topic] += 1
        most = self.most_fed_back * (10 if topic in self.topology.internal_topics else 1)
        if self._own and self._fed_back[topic] > most:
            self._queues = TopicQueues[tuple[str, int]]()
            raise endless(self._own[0], topic, most)

    def _deliver_dead_letters(self, context: Context) -> None:
        letters, context.commit.dead_letters = context.commit.dead_letters, []
        for origin, headers in letters:
            record = Record(origin.key, origin.value, origin.timestamp, headers)
            self._outputs.setdefault(self._dead_letter_topic, []).append(record)
