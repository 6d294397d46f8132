"""The ends of topics, as Spark's streaming queries ask for them and write them down."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.engine.spark.log_option import Place
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.open import open_log

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2 a source is read to its end in one batch, whatever the options say
    ReadMaxRows = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


Offsets = dict[str, dict[str, Any]]
"""By topic and partition, as Spark writes them into its offset log."""

START = ""
"""The key for the topic's id in the offsets; no partition has this name."""


class OffsetsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tells Spark the ends of topics.

    Args:
        per_trigger: most offsets that a micro-batch advances by; None for no limit.

    Raises:
        ConfigError: Spark is too old for ``per_trigger``.
    """

    def __init__(self, place: Place, topics: list[str], per_trigger: int | None = None):
        if per_trigger is not None and ReadMaxRows is None:
            raise ConfigError(
                'format("penstock"): the option maxOffsetsPerTrigger needs Spark 4.2 or newer, which tells a source '
                f"where a batch begins; this is Spark {pyspark.__version__}. Leave it out, or install a newer pyspark"
            )
        self.place = place
        self._topics = topics
        self._per_trigger = per_trigger
        self._ends: Offsets | None = None

    @cached_property
    def _log(self) -> Log:
        return open_log(self.place)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without connections: each process opens its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_log"}

    def stop(self) -> None:
        if "_log" in self.__dict__:  # otherwise it was never opened
            self._log.close()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return ReadAllAvailable() if self._per_trigger is None else ReadMaxRows(self._per_trigger)

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        ends = self._ends if self._ends is not None else self._current()
        most = getattr(limit, "max_rows", None)
        return ends if start is None or most is None else limited(start, ends, most)

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


def limited(start: Offsets, ends: Offsets, most: int) -> Offsets:
    """Return the end of a micro-batch of at most so many offsets.

    Each partition gets a share of them proportional to its waiting records, and at least one offset.

    >>> limited({"t": {"0": 0, "1": 5}}, {"t": {"0": 90, "1": 15}}, 10)
    {'t': {'0': 9, '1': 6}}
    """
    begun = {(topic, p): start.get(topic, {}).get(p, 0) for topic in ends if topic != START for p in ends[topic]}
    waiting = {(topic, p): max(ends[topic][p] - at, 0) for (topic, p), at in begun.items()}
    total = sum(waiting.values())
    if total <= most:
        return ends
    found = {topic: dict(offsets) for topic, offsets in ends.items()}
    found.get(START, {}).pop("mark", None)  # it is one of the ends
    for (topic, p), count in waiting.items():
        if count:
            found[topic][p] = begun[topic, p] + max(most * count // total, 1)
    return found
