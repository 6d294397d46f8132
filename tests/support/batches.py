"""Batches in this process: the stages and tasks of ``run_batch``, with a shuffle of Arrow tables in place of Spark's.

What comes out is compared with what the engine makes of the same topics, live and in one commit.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import Topology
from penstock.arrays import partitions as partitions_of
from penstock.columns.batch import HEADERS, header_list
from penstock.engine.batch import packed
from penstock.engine.batch.attempt import BatchAttempt, Job
from penstock.engine.batch.feed import RowsOf
from penstock.engine.batch.frames import log_rows
from penstock.engine.batch.planning import Plan
from penstock.engine.batch.program import TopicTypes
from penstock.engine.batch.rows import ENDED, ERROR, FIGURES, OUTPUT, RESULT, SORTED_BY, STORE
from penstock.engine.batch.stage import run
from penstock.engine.local import LocalApplication
from penstock.engine.shared.exchange import EARLIEST
from penstock.engine.shared.work import TaskDone
from penstock.errors import ProcessingError
from penstock.figures.losses import losses_of, together
from penstock.figures.metrics import add_up
from penstock.log.base import TopicInfo
from penstock.log.consumed import decoded
from penstock.log.memory import MemoryLog
from penstock.plan.physical import SubTopology
from penstock.query.commits import shapes_of
from penstock.query.stores import view_of
from penstock.query.versions import Live
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing.piped import piped
from support.flows import Row

Records = list[dict[str, Any]]


class Outcome(NamedTuple):
    """What a topology gives."""

    outputs: dict[str, Records]
    """Of each output topic; in the order of each partition."""
    stores: dict[str, Records]
    losses: tuple[Any, ...]


def log_of(topology: Topology, rows: Sequence[Row], partitions: int = 1) -> MemoryLog:
    """Topics with (topic, key, value, timestamp), each of which says in its headers which one it is."""
    log = MemoryLog()
    for topic in topology.source_topics:
        log.create_topic(TopicInfo(topic, partitions))
    append(topology, log, rows)
    return log


def append(topology: Topology, log: MemoryLog, rows: Sequence[Row]) -> None:
    """Append records to topics, each of which says in its headers which one it is."""
    types = types_of(topology)
    first = sum(sum(log.end_offsets(topic)) for topic in given_topics(topology))
    for number, (topic, key, value, timestamp) in enumerate(rows, first):
        encoded = piped(key, types[topic][0], "key", topic), piped(value, types[topic][1], "value", topic)
        partitions = log.topic(topic).partitions
        placed = int(partitions_of(types[topic][0].routing(encoded[0]), partitions, number % partitions)[0])
        headers = pa.array([header_list([("caused by", str(number).encode())])], HEADERS)
        with log.writer(topic, f"in-{number}") as writer:
            writer.write(placed, *encoded, np.array([timestamp], np.int64), headers)
        log.append(topic, writer.segments())


def given_topics(topology: Topology) -> list[str]:
    """The topics that a topology reads and does not write."""
    return [topic for topic in topology.source_topics if topic not in topology.sink_topics]


def types_of(topology: Topology) -> dict[str, Any]:
    """The types of keys and values of the topics that are read."""
    types: dict[str, Any] = {}
    for node in topology.nodes:
        for topic in getattr(node, "topics", None) or (getattr(node, "topic", ""),):
            if topic in topology.source_topics and hasattr(node, "key") and topic not in types:
                types[topic] = node.key, node.value
    return types


def live(topology: Topology, log: MemoryLog, parts: Sequence[Sequence[Row]] = (), **settings: Any) -> Outcome:
    """What the engine makes of all that is in a log, and then of records that arrive in parts."""
    loaded = Settings.load(environment={}, **settings)
    before = {topic: log.end_offsets(topic) for topic in log.topics()}
    with tempfile.TemporaryDirectory() as folder:
        application = LocalApplication(topology, "batch", loaded, log, LocalStorage(Path(folder)), None)
        application.run_until()
        for part in parts:
            append(topology, log, part)
            application.run_until()
        outcome = _of(topology, log, before, application)
        application.close()
    return outcome


def _of(topology: Topology, log: MemoryLog, before: dict[str, list[int]], application: LocalApplication) -> Outcome:
    """What an application has put out and keeps."""
    topics = [topic for topic in log.topics() if topic not in given_topics(topology)]
    outputs = {topic: list(_consumed(topology, log, topic, before)) for topic in topics}
    stores: dict[str, Records] = {name: [] for name in shapes_of(topology)}
    for name, shape in shapes_of(topology).items():
        tasks = [task for task in application.host.tasks() if name in task.state.stores]
        for task in tasks[:1] if shape.format.is_everywhere else tasks:
            view = view_of(Live({str(task.id): task.state.stores[name]}), shape)
            stores[name] += view.to_arrow().read_all().to_pylist()
    losses = together(losses_of(application.coordinator.manifest.metrics).values())
    return Outcome(outputs, {name: _sorted_rows(rows) for name, rows in stores.items()}, losses)


def _consumed(topology: Topology, log: MemoryLog, topic: str, before: dict[str, list[int]]) -> Iterator[dict[str, Any]]:
    key, value = TopicTypes(topology, ()).of(topic)
    for partition, end in enumerate(log.end_offsets(topic)):
        start = before[topic][partition] if topic in before else 0
        for records in log.read(topic, partition, start, end):
            columns = {
                "key": decoded(key, records.key, records, topic),
                "value": decoded(value, records.value, records, topic),
                "timestamp": pa.array(records.timestamp),
                "headers": pa.nulls(len(records), HEADERS) if records.headers is None else records.headers,
            }
            for row in pa.table(columns).to_pylist():
                yield {"partition": partition, **row}


def as_batch(topology: Topology, log: MemoryLog, seed: int | None = None, **settings: Any) -> Outcome:
    """What the tasks of a batch make of all that is in a log.

    Args:
        seed: by what Arrow batches are cut; None where tasks are to read the topics of the log themselves.
    """
    loaded = Settings.load(environment={}, **settings)
    topology = topology.completed_by(loaded).expanded(log.topics())
    batch = _Run(Plan.alone(topology, {}, {}, log, shapes_of(topology), loaded), log, seed)
    for group in batch.plan.groups:
        batch.stage(group)
    return batch.outcome()


def batch_after_batch(
    topology: Topology, parts: Sequence[Sequence[Row]], chosen: random.Random, **settings: Any
) -> Outcome:
    """What comes of records that arrive in parts, each of which is taken by a batch or by a live program.

    Args:
        chosen: chooses, and how Arrow batches are cut.
    """
    loaded = Settings.load(environment={}, **settings)
    log = log_of(topology, [])
    is_one = len(log.topics()) == 1
    before = {topic: log.end_offsets(topic) for topic in log.topics()}
    with tempfile.TemporaryDirectory() as folder:
        storage, number = LocalStorage(Path(folder, "checkpoint")), 0

        def opened() -> LocalApplication:
            nonlocal number
            number += 1
            tasks = Path(folder, f"tasks-{number if chosen.random() < 0.5 else 0}")
            return LocalApplication(topology, "batch", loaded, log, storage, tasks)

        run = partial(done_by, log, lambda: chosen.choice([None, 1, 2]))
        for part in parts:
            append(topology, log, part)
            application = opened()
            if chosen.random() < 0.3:
                ends = application.coordinator.end_offsets()
                while application.coordinator.step(ends) is not None and not (is_one and chosen.random() < 0.5):
                    pass  # of several topics, what is left over would meet what comes next
            else:
                while application.coordinator.manifest.waiting:
                    application.run_until(application.coordinator.offsets())
                ends = application.coordinator.end_offsets()
                application.coordinator.step(ends, attempts=partial(BatchAttempt, Job({}, run)))
                application.coordinator.publishing.finish()
            application.close()
        application = opened()
        application.run_until()
        application.settle()
        outcome = _of(topology, log, before, application)
        application.close()
    return outcome


def seeded(
    topology: Topology,
    history: Sequence[Row],
    rows: Sequence[Row],
    chosen: random.Random,
    by_batch: bool,
    **settings: Any,
) -> Outcome:
    """What a live program makes of records behind others, which a seed took, or another program before it: all that it
    keeps, and what it has put out since."""
    loaded = Settings.load(environment={}, **settings)
    log = log_of(topology, history)
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(Path(folder, "checkpoint"))

        run = partial(done_by, log, lambda: chosen.choice([None, 1, 2]))
        first = LocalApplication(topology, "batch", loaded, log, storage, Path(folder, "tasks"))
        if by_batch:
            seed = partial(BatchAttempt, Job({}, run, seeds={}))
            first.coordinator.step(first.coordinator.end_offsets(), attempts=seed)
        else:
            first.run_until()
        first.close()
        before = {topic: log.end_offsets(topic) for topic in log.topics()}
        append(topology, log, rows)
        application = LocalApplication(topology, "batch", loaded, log, storage, Path(folder, "tasks"))
        application.run_until()
        application.settle()
        outcome = _of(topology, log, before, application)
        application.close()
    return outcome


def done_by(log: MemoryLog, seed: Callable[[], int | None], plan: Plan) -> list[TaskDone]:
    """Run the tasks of a plan, in place of Spark.

    Args:
        seed: by what Arrow batches are cut, as ``as_batch`` has it.
    """
    ran = _Run(plan, log, seed())
    for group in plan.groups:
        ran.stage(group)
    return ran.done()


class _Run:
    def __init__(self, plan: Plan, log: MemoryLog, seed: int | None):
        self._topology, self._log, self.plan = plan.topology, log, plan
        self._program = replace(self.plan.program, place=log)
        self._random = None if seed is None else random.Random(seed)
        self._results = pa.table([[] for _ in RESULT], schema=RESULT)

    def stage(self, group: tuple[SubTopology, ...]) -> None:
        """Run all tasks of a sub-topology, or of a cycle."""
        found = []
        if self.plan.layout.cycle_of(group[0].id) is not None:
            circling = self.plan.cyclic(group)
            pairs = [(sub, one) for sub, stage in zip(group, circling.stages, strict=True) for one in stage.inputs]
            found += self._ran(circling, 0, self._rows(self._of_cycle(pairs), True, ["input", "partition"]))
        else:
            (sub,) = group
            stage = self.plan.stage(sub) if self._random is None else replace(self.plan.all_as_rows(sub), ranges={})
            for partition in range(self.plan.layout.tasks[sub.id]):
                tables = (self._rows_of(one, partition, stage.is_packed) for one in stage.inputs)
                rows = self._rows(tables, self.plan.tells_causes(sub), []) if stage.inputs else iter(())
                found += self._ran(stage, partition, rows)
        self._results = pa.concat_tables([self._results, pa.Table.from_batches(found, RESULT)])

    def _ran(self, stage: Any, partition: int, rows: Iterator[Any]) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            if self._random is not None:
                stack.enter_context(mock.patch.object(packed, "BLOCK_ROWS", self._random.randint(1, 8)))
            return list(run(self._program, stage, rows, partition, Path(folder), stack))

    def _of_cycle(self, pairs: list[tuple[SubTopology, RowsOf]]) -> Iterator[Any]:
        for sub, one in pairs:
            for partition in range(1 if one.is_global else self.plan.layout.tasks[sub.id]):
                table = self._rows_of(one, partition)
                if len(table):
                    at = table.schema.get_field_index("partition")
                    yield table.set_column(at, "partition", pa.repeat(pa.scalar(partition, pa.int32()), len(table)))

    def _rows(self, tables: Iterator[Any], causes: bool, first: list[str]) -> Iterator[Any]:
        """Rows sorted as Spark sorts them, in batches of any size."""
        every = list(tables)
        table = pa.concat_tables(every, promote_options="default") if every else pa.table({})
        if not len(table):
            return
        names = [name for name in (*first, *SORTED_BY) if name in table.schema.names and (causes or name != "cause")]
        table = table.sort_by([(name, "ascending") for name in dict.fromkeys(names)])
        dropped = ["seq"] + ["cause"] * (not causes) + ["partition"] * (not first)
        table = table.drop_columns(dropped)
        while len(table):
            count = self._random.randint(1, 40) if self._random is not None else len(table)
            yield from table.slice(0, count).combine_chunks().to_batches()
            table = table.slice(count)

    def _rows_of(self, one: RowsOf, partition: int, is_packed: bool = False) -> Any:
        if one.topic in self.plan.ranges:
            every = [
                log_rows(self._log, one.topic, p, range_, self.plan.first_cause(one.topic, p))
                for p, range_ in enumerate(self.plan.ranges[one.topic])
                if one.is_global or p == partition
            ]
            batches = [batch for some in every for batch in some]
            table = pa.Table.from_batches(batches) if batches else pa.table({"seq": pa.array([], pa.int64())})
            if one.is_global and len(table):
                at = table.schema.get_field_index("clock")
                table = table.set_column(at, "clock", pa.repeat(EARLIEST, len(table)))
            return self._numbered(table, one)
        found = self._results.filter(pc.equal(self._results["what"], self.plan.numbers[one.topic]))
        found = found.filter(pc.equal(found["partition"], partition)) if not one.is_global else found
        if not is_packed:
            rows = list(packed.as_rows(found.to_batches()))
            found = pa.Table.from_batches(rows) if rows else pa.table({"seq": pa.array([], pa.int64())})
        return self._numbered(found, one)

    @staticmethod
    def _numbered(table: Any, one: RowsOf) -> Any:
        return table.append_column("input", pa.repeat(pa.scalar(one.number, pa.int32()), len(table)))

    def done(self) -> list[TaskDone]:
        """What tasks of an application did."""
        rows = self._results.filter(pc.equal(self._results["what"], ENDED)).to_pylist()
        errors = self._results.filter(pc.equal(self._results["what"], ERROR)).to_pylist()
        for row in errors:
            raise ProcessingError(row["block"].decode())
        return [msgspec.json.decode(row["block"], type=TaskDone) for row in rows]

    def outcome(self) -> Outcome:
        """All that came out."""
        outputs: dict[str, Records] = {topic: [] for topic in self._topology.sink_topics}
        stores: dict[str, Records] = {name: [] for name in shapes_of(self._topology)}
        metrics: dict[str, int] = {}
        for row in self._results.filter(pc.less(self._results["what"], 0)).to_pylist():
            if row["what"] == ERROR:
                raise ProcessingError(row["block"].decode())
            if row["what"] == FIGURES:
                told = json.loads(row["block"])
                add_up(metrics, told["metrics"])
                outputs |= {topic: outputs.get(topic, []) for topic in told["topics"]}
            elif row["what"] == STORE:
                stores[row["name"]] += _rows_in(row["block"])
            elif row["what"] == OUTPUT:
                outputs.setdefault(row["name"], []).extend(_rows_in(row["block"]))
        order = [str(task) for sub in self.plan.subs for task in self.plan.layout.task_ids(sub)]
        for topic, records in outputs.items():
            records.sort(key=lambda row: (row["partition"], order.index(row["task"]), row["number"]))
            outputs[topic] = [
                {name: row[name] for name in ("partition", "key", "value", "timestamp", "headers")}
                | {"timestamp": round(row["timestamp"].timestamp() * 1000)}
                for row in records
            ]
        losses = together(losses_of(metrics).values())
        return Outcome(outputs, {name: _sorted_rows(rows) for name, rows in stores.items()}, losses)


def _rows_in(block: bytes) -> Records:
    return list(pa.ipc.open_stream(block).read_all().to_pylist())


def _sorted_rows(rows: Records) -> Records:
    return sorted(rows, key=repr)


def by_key(records: Records) -> dict[str, Records]:
    """The records of each partition and key, in order."""
    found: dict[str, Records] = {}
    for record in records:
        found.setdefault(repr((record["partition"], record["key"])), []).append(record)
    return found
