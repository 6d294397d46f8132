"""The offsets of topics as a stream that Spark can read: what its triggers, its offset log and its pages know of us.

A row says which records of which partition a micro-batch covers. The records themselves do not pass through Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.log.file.log import FileLog

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2 a source is read to its end in one batch, which is what is wanted

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


FORMAT = "penstock-offsets"
_SCHEMA = "topic string, partition int, start_offset long, end_offset long"

Offsets = dict[str, dict[str, Any]]
"""By topic and partition, as Spark writes them into its offset log."""

START = ""
"""Stands in the offsets for the start of the application, which has no topic's name: with every start something is new,
so Spark makes a batch, and what the last start left undone is done although no records come."""


class OffsetsSource(DataSource):
    """``spark.readStream.format("penstock-offsets")``; options ``log``, ``topics`` (a JSON list) and ``start`` (which
    start of the application this is)."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return OffsetsReader(self.options["log"], json.loads(self.options["topics"]), int(self.options["start"]))


class OffsetsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, log: str, topics: list[str], start: int | None = None):
        self.log_url = log
        self._log = FileLog(log)
        self._topics = topics
        self._start: Offsets = {} if start is None else {START: {"start": start}}
        self._ends: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        return {topic: {str(p): 0 for p in range(self._log.topic(topic).partitions)} for topic in self._topics}

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        return self._ends if self._ends is not None else self._current()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends = self._current()

    def _current(self) -> Offsets:
        ends = {t: {str(p): end for p, end in enumerate(self._log.end_offsets(t))} for t in self._topics}
        return ends | self._start

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        return [
            InputPartition((topic, int(partition), start.get(topic, {}).get(partition, 0), last))
            for topic, ends in end.items()
            for partition, last in ends.items()
            if topic != START and last > start.get(topic, {}).get(partition, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield partition.value
