"""Runs a case through the engine on Spark, over a file log.

Records of one topic go in together. If a task reads several topics, or a topology feeds itself, they go in one by one,
because the log chooses the order between topics. With several partitions the records of each key are compared, for
cases in which no operator's time runs across keys.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import partitions
from penstock.engine.running.start import start
from penstock.engine.spark.streams import Streams
from penstock.errors import PenstockError
from penstock.figures.metrics import DROPPED, total
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.plan import nodes
from penstock.plan.topology import Topology
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.driver import settings_of
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Outcome, as_json, read, store_rows


class SparkRunner:
    """Runs cases one after the other on one Spark context: the active one, or a new one for all of them."""

    def __init__(self, partition_count: int = 1):
        from penstock.engine.spark.session import context_for

        self.partitions = partition_count
        self._folder = tempfile.TemporaryDirectory()
        self._context, self._is_ours = context_for(None, "penstock oracle", Path(self._folder.name) / "spark.log")

    def close(self) -> None:
        """Stop the session, if it was started here."""
        if self._is_ours:
            self._context.stop()
        self._folder.cleanup()

    def __call__(self, case: Spec) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            return _Run(case, self.partitions, Path(folder)).outcome


class _Run:
    def __init__(self, case: Spec, partition_count: int, folder: Path):
        self.outcome = Outcome(reads=[], total_order=False, by_key=partition_count > 1)
        self._partitions = partition_count
        self._log = FileLog(folder / "log")
        try:
            self._build = Build(case)
            self._topology = self._build.topology()
        except PenstockError as error:
            self.outcome.error, self.outcome.error_when = error, "build"
            return
        for topic in self._topology.source_topics:
            self._log.create_topic(TopicInfo(topic, partition_count))
        streams = start(
            self._topology,
            log=self._log,
            state_dir=folder / "state",
            output_partitions=partition_count,
            **settings_of(case),
        )
        with streams:
            try:
                self._feed(case, streams)
            except PenstockError as error:
                self.outcome.error, self.outcome.error_when = error, "run"
            self._collect(streams)

    def _feed(self, case: Spec, streams: Streams) -> None:
        one_by_one = _needs_one_by_one(self._topology)
        waiting: list[Spec] = []
        for index, entry in enumerate(case["input"]):
            together = waiting and entry.get("topic") == waiting[0]["topic"] and not one_by_one
            if waiting and not together:
                self._process(waiting, streams)
            if "topic" in entry:
                waiting.append(entry)
            elif "read" in entry:
                assert self.outcome.reads is not None
                view = streams.store(entry["read"])
                self.outcome.reads.append({"after": index, "result": read(view, entry)})
        if waiting:
            self._process(waiting, streams)

    def _process(self, waiting: list[Spec], streams: Streams) -> None:
        topic = waiting[0]["topic"]
        key_serde, value_serde = self._build.inputs[topic]
        key = key_serde.encode_all([entry["key"] for entry in waiting])
        value = value_serde.encode_all([entry["value"] for entry in waiting])
        timestamp = np.array([entry["timestamp"] for entry in waiting])
        placed = partitions(key, self._partitions, 0)
        with self._log.writer(topic, f"in-{random.randrange(10**9)}") as writer:
            for partition in range(self._partitions):
                rows = np.flatnonzero(placed == partition)
                writer.write(partition, key.take(pa.array(rows)), value.take(pa.array(rows)), timestamp[rows])
        self._log.append(topic, writer.segments())
        waiting.clear()
        streams.process_all_available()

    def _collect(self, streams: Streams) -> None:
        self.outcome.dropped_total = int(total(streams.metrics(), DROPPED))
        for topic in self._build.outputs:
            self.outcome.output += list(self._output(topic))
        self.outcome.stores = {
            name: store_rows(streams.store(name), self._build.shapes.get(name)) for name in self._build.stores
        }

    def _output(self, topic: str) -> Iterator[dict[str, Any]]:
        key, value = self._build.outputs[topic]
        for partition, end in enumerate(self._log.end_offsets(topic)):
            for records in self._log.read(topic, partition, 0, end):
                rows = zip(
                    key.decode_all(records.key),
                    value.decode_all(records.value),
                    records.timestamp.tolist(),
                    strict=True,
                )
                for k, v, timestamp in rows:
                    yield {"topic": topic, "key": as_json(k), "value": as_json(v), "timestamp": timestamp}


def _needs_one_by_one(topology: Topology) -> bool:
    """Return whether a task reads several topics, or a topic that the topology writes."""
    written = set(topology.sink_topics) & set(topology.source_topics)
    subs = topology.sub_topologies
    return bool(written) or any(len(sub.source_topics) + len(sub.global_topics) > 1 for sub in subs)


def order_allows_partitions(case: Spec) -> bool:
    """Return whether a case's results are independent of how its keys are spread over partitions.

    They depend on it if time runs across keys (windows, deduplication), or if keys change and several tasks then send
    to one. Records without a key all go into one partition here.
    """
    try:
        topology = Build(case).topology()
    except PenstockError:
        return False
    kinds = nodes.WindowedAggregate | nodes.Deduplicate | nodes.Repartition
    timed = any(isinstance(node, kinds) for node in topology.nodes)
    changes_key = any(node.changes_key for node in topology.nodes)
    return not (timed or changes_key)
