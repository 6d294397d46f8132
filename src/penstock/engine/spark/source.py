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

Offsets = dict[str, dict[str, int]]
"""By topic and partition, as Spark writes them into its offset log."""


class OffsetsSource(DataSource):
    """``spark.readStream.format("penstock-offsets")``; options ``log`` and ``topics`` (a JSON list)."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return OffsetsReader(self.options["log"], json.loads(self.options["topics"]))


class OffsetsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, log: str, topics: list[str]):
        self.log_url = log
        self._log = FileLog(log)
        self._topics = topics
        self._ends: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        return {topic: {str(p): 0 for p in range(self._log.topic(topic).partitions)} for topic in self._topics}

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        return self._ends if self._ends is not None else self._current()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends = self._current()

    def _current(self) -> Offsets:
        return {t: {str(p): end for p, end in enumerate(self._log.end_offsets(t))} for t in self._topics}

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        return [
            InputPartition((topic, int(partition), start.get(topic, {}).get(partition, 0), last))
            for topic, ends in end.items()
            for partition, last in ends.items()
            if last > start.get(topic, {}).get(partition, 0)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield partition.value
