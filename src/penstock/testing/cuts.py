"""Runs a topology in the engine itself, in this process, with its input cut at random: no cut may show."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray
from penstock.columns.batch import HEADERS, header_list
from penstock.engine.local import LocalApplication
from penstock.engine.task.task import Task
from penstock.engine.timing.idle import IdleTasks
from penstock.errors import ConfigError, PenstockError
from penstock.figures.metrics import DROPPED, Metric, readable, total
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.plan import nodes
from penstock.plan.topology import Topology
from penstock.query.commits import shape_named, shapes_of
from penstock.query.stores import AnyView, view_of
from penstock.query.versions import Live
from penstock.record import Record
from penstock.serdes import BYTES, Serde
from penstock.settings import Settings
from penstock.state.store import StateStore
from penstock.storage.base import LocalStorage
from penstock.testing.arrivals import arrival_reader, arrivals_of
from penstock.testing.piped import piped
from penstock.testing.records import checked_headers
from penstock.values.durations import Duration, later

_RARELY = [False, False, False, False, True]

_LIMITS: dict[str, Sequence[int]] = {
    "chunk_records": [1000, 7, 3, 2, 1],
    "commit_max_bytes": [1 << 28, 1 << 28, 100, 1],
    "input_buffer_max_bytes": [1 << 29, 1 << 29, 100, 1],
    "statestore_uncommitted_max_records": [-1, -1, 5, 2, 1],
    "flush_rows": [1000, 3, 1],
    "flush_commits": [50, 2, 1],
    "hot_max_bytes": [1 << 20, 1],
}
"""The settings chosen at random at each start of the engine; the first value of each cuts the least."""

_SHORT_COMMITS = ("commit_max_bytes", "statestore_uncommitted_max_records")
"""Those that end a task's commit before the end of its input."""

_MEMORY = Path("/dev/shm")
"""Where Linux has a folder in memory: files that are thrown away need no disk."""


class Types(NamedTuple):
    """The types of a topic's keys and values."""

    key: Serde
    value: Serde


class CutDriver:
    """Pipes records through the engine: the tasks, commits, chunks and state on disk that an application has.

    It has the face of ``TopologyTestDriver``, so that a test can run with either. Records wait until a batch of them is
    cut off behind one, or until ``commit`` or something that reads. With a seed, the batches, the commits
    and the chunks are cut at random, rows go to disk sooner or later, and now and then the engine is closed or crashes
    and starts again. While caching is off, the output must not depend on any of it.

    When a record fails, processing stops; everything committed before it can still be read.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> builder.stream("words", value=str).group_by(lambda key, word: word).count("counts").to_stream().to("counts")
    >>> with CutDriver(builder.build(), seed=7, statestore_cache_max_bytes=0) as driver:
    ...     for word in ["a", "b", "a"]:
    ...         driver.pipe_input("words", None, word)
    ...     [(record.key, record.value) for record in driver.read_output("counts")]
    [('a', 1), ('b', 1), ('a', 2)]

    Args:
        topology: the result of ``StreamsBuilder.build``.
        seed: the seed of the cuts, or a ``random.Random``; None to cut only where ``commit`` is called.
        application_id: part of the names of internal topics.
        commits_behind: behind which of the records a commit is made, by their numbers from 0, and nowhere else before
            something reads; None for random ones. A topology that reads topics of the log which it writes finds there
            its committed records, so its results depend on where commits are, and on no other cut.
        settings: settings as keywords; those given here are not chosen at random.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int | str | random.Random | None = None,
        application_id: str = "cuts",
        commits_behind: Collection[int] | None = None,
        **settings: Any,
    ):
        self.topology = topology = Topology.checked_type(topology, "CutDriver").completed_by(
            Settings.load(environment={}, **settings)
        )
        self._random = seed if seed is None or isinstance(seed, random.Random) else random.Random(seed)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-cuts-", dir=_MEMORY if _MEMORY.is_dir() else None)
        self._given = settings
        self._commits_behind = commits_behind
        self._application_id = application_id
        self._log = MemoryLog()
        self.wall_clock_ms = 0
        self._inputs, self._outputs = _types(topology)
        self._input_of_arrival: dict[int, int] = {}
        self._read: dict[str, int] = {}
        self._piped: set[tuple[str, int]] = set()
        """The offsets of records that were piped, which stand in their topic before or between those that come out."""
        self._dropped: list[int] = []
        self._has_failed = False
        for topic in topology.source_topics:
            self._log.create_topic(TopicInfo(topic, 1))
        self._application = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine and remove its files."""
        self._application.close()
        self._folder.cleanup()

    # --- piping and reading --------------------------------------------------------------------------------------

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int = 0,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> None:
        """Append one record to a topic that the topology reads; it is processed by the next cut.

        Raises:
            ConfigError: the topology does not read this topic.
            ProcessingError: a record failed, this one or one before it.
        """
        if topic not in self._inputs:
            raise ConfigError(
                f"the topology does not read a topic {topic!r}; it reads these topics: {', '.join(self._inputs)}"
            )
        number = len(self._input_of_arrival)
        self._input_of_arrival[self._log.arrived] = number
        self._piped.add((topic, self._log.end_offsets(topic)[0]))
        types = self._inputs[topic]
        pairs = header_list(checked_headers(headers))
        with self._log.writer(topic, f"in-{number}") as writer:
            writer.write(
                0,
                piped(key, types.key, "key", topic),
                piped(value, types.value, "value", topic),
                np.array([timestamp], np.int64),
                pa.array([pairs], HEADERS) if pairs else None,
            )
        self._log.append(topic, writer.segments())
        if self._chooses() if self._commits_behind is None else number in self._commits_behind:
            self.commit()
            if self._chooses():
                self._restart()

    def commit(self) -> None:
        """Process all records that wait, in as many commits as it takes.

        Raises:
            ProcessingError: a record failed.
        """
        if self._has_failed:
            return
        try:
            self._application.run_until()
        except PenstockError:
            self._has_failed = True
            raise
        self._note_drops()

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Let wall-clock time pass."""
        self.commit()
        self._application.coordinator.advance_time()  # what waits, waits from now on
        self.wall_clock_ms = later(self.wall_clock_ms, duration)
        self._application.coordinator.advance_time()
        self.commit()

    def read_output(self, topic: str) -> list[Record]:
        """The records that the topology has written to a topic since the last call, decoded."""
        self.commit()
        if topic not in self._outputs and self.topology.dynamic_sinks:
            self._outputs[topic] = Types(self.topology.dynamic_sinks[0].key, self.topology.dynamic_sinks[0].value)
        if topic not in self._outputs:
            raise ConfigError(
                f"the topology does not write a topic {topic!r}; it writes these topics: {', '.join(self._outputs)}"
            )
        if not self._log.exists(topic):
            return []
        start, end = self._read.get(topic, 0), self._log.end_offsets(topic)[0]
        self._read[topic] = end
        return list(self._records(topic, start, end))

    def store(self, name: str) -> AnyView:
        """A state store as of the last commit, for reading."""
        self.commit()
        shape = shape_named(name, shapes_of(self.topology))
        return view_of(Live(self._stores(name, shape.format.is_everywhere)), shape)

    def metrics(self) -> dict[Metric, float]:
        """All figures of all tasks, by their Kafka names."""
        self.commit()
        return readable(self._application.coordinator.manifest.metrics)

    def dropped_records_total(self) -> int:
        """How many records were dropped by Kafka's rules so far."""
        return int(total(self.metrics(), DROPPED))

    def dropped_inputs(self) -> list[int]:
        """For each drop so far the number of the input record that caused it, from 0; sorted. It is -1 where that came
        back through a topic of the log, which does not tell what caused its records."""
        self.commit()
        return sorted(self._dropped)

    def change(self, topology: Topology) -> None:
        """Continue with another topology, which has the same state."""
        self.commit()
        for topic in topology.source_topics:
            if not self._log.exists(topic):
                self._log.create_topic(TopicInfo(topic, 1))
        self.topology = topology
        if not self._has_failed:
            self._restart()

    # --- inside --------------------------------------------------------------------------------------------------

    def _start(self) -> LocalApplication:
        limits = {} if self._random is None else {name: self._random.choice(of) for name, of in _LIMITS.items()}
        if self._commits_behind is not None or self._joins_by_foreign_key():
            limits |= {name: _LIMITS[name][0] for name in _SHORT_COMMITS if name in limits}
        settings = Settings.load(environment={}, **(limits | self._given))
        folder = Path(self._folder.name)
        for dead_letter_topic in settings.dead_letters:
            self._outputs[dead_letter_topic] = Types(BYTES, BYTES)
        application = LocalApplication(
            self.topology,
            self._application_id,
            settings,
            self._log,
            LocalStorage(folder / "checkpoint"),
            None if self._random is None else folder / "state",
            reader=arrival_reader(self.topology),
        )
        # what caches hold back a commit sends on table by table: later causes may come before earlier ones then, and
        # positions never decrease, so those of the records that arrived tell nothing
        roots = None if settings.statestore_cache_max_bytes else arrivals_of
        application.host.on_new_task = partial(self._watch, roots=roots)
        application.coordinator.idle = IdleTasks(
            self.topology, lambda: self.wall_clock_ms / 1000, lambda: self.wall_clock_ms
        )
        return application

    def _watch(self, task: Task, roots: Callable[[IntArray], IntArray] | None) -> None:
        task.context.commit.dropped_positions = []
        task.context.facts = replace(task.context.facts, roots=roots, wall_clock_ms=lambda: self.wall_clock_ms)

    def _restart(self) -> None:
        if self._chooses():  # a crash: what is not on disk is lost
            for task in self._application.host.tasks():
                task.state.abandon()
        else:
            self._application.close()
        self._application = self._start()

    def _chooses(self) -> bool:
        return self._random is not None and self._random.choice(_RARELY)

    def _joins_by_foreign_key(self) -> bool:
        """Whether there are foreign-key joins. The responses that they remember depend on the responses that a commit
        leaves unfinished (docs/decisions/0015), so their stores tell where a task stopped before the end of its
        input."""
        return any(isinstance(node, nodes.SubscriptionSend) for node in self.topology.nodes)

    def _stores(self, name: str, is_everywhere: bool) -> dict[str, StateStore]:
        """Return the tasks' parts of a store; empty before any task has begun."""
        self._application.settle()
        tasks = self._application.host.tasks()
        found = {task.state.task: task.state.stores[name] for task in tasks if name in task.state.stores}
        return dict(list(found.items())[:1]) if is_everywhere else found

    def _note_drops(self) -> None:
        for task in self._application.host.tasks():
            for positions in task.context.commit.dropped_positions or ():
                self._dropped += [self._input_of_arrival.get(one, -1) for one in arrivals_of(positions).tolist()]
            task.context.commit.dropped_positions = []

    def _records(self, topic: str, start: int, end: int) -> Iterator[Record]:
        types = self._outputs[topic]
        for records in self._log.read(topic, 0, start, end):
            keys, values = types.key.decode_all(records.key), types.value.decode_all(records.value)
            headers = [()] * len(records) if records.headers is None else map(_pairs, records.headers.to_pylist())
            decoded = map(Record, keys, values, records.timestamp.tolist(), headers)
            yield from (record for offset, record in enumerate(decoded, start) if (topic, offset) not in self._piped)
            start += len(records)


def _types(topology: Topology) -> tuple[dict[str, Types], dict[str, Types]]:
    """The types of the topics that a topology reads, and of those it writes."""
    inputs: dict[str, Types] = {}
    outputs: dict[str, Types] = {}
    for sub in topology.sub_topologies:
        for part in sub.parts:
            for topic in part.topics:
                if topic not in topology.internal_topics:
                    (inputs if part.kind == "source" else outputs).setdefault(topic, Types(*part.node.types))
    return inputs, outputs


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes], ...]:
    return tuple((item["key"], item["value"]) for item in headers or ())
