"""How far a topic goes, as Spark's streaming queries ask for it and write it down."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.engine.spark.log_option import Place
from penstock.log.base import Log
from penstock.log.open import open_log

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2 a source is read to its end in one batch, which is what is wanted

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


Offsets = dict[str, dict[str, Any]]
"""By topic and partition, as Spark writes them into its offset log."""

START = ""
"""Stands in the offsets for the topic itself, by its id, which has no partition's name."""


class OffsetsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, place: Place, topics: list[str]):
        self.place = place
        self._topics = topics
        self._ends: Offsets | None = None

    @cached_property
    def _log(self) -> Log:
        return open_log(self.place)

    def __getstate__(self) -> dict[str, Any]:
        """Without connections: each process has its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_log"}

    def stop(self) -> None:
        if "_log" in self.__dict__:  # else nothing has asked for it
            self._log.close()

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
            if topic != START and last > start.get(topic, {}).get(partition, 0)
        ]
