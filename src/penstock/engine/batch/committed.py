"""The result of an application's batch: its records are in their topics, its state is in the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from penstock.engine.batch.application import Application, Outcome
from penstock.engine.batch.frames import quoted
from penstock.engine.batch.result import BatchResult, chosen_columns
from penstock.errors import ConfigError
from penstock.figures.losses import Loss, losses_of, together
from penstock.figures.metrics import Metric, readable
from penstock.messages import nearest


class BatchCommit(BatchResult):
    """The result of a batch that is a commit of an application."""

    def __init__(self, spark: Any, application: Application, outcome: Outcome):
        self._spark, self._application, self._outcome = spark, application, outcome
        self.commit, self.records, self.is_repeated = outcome.commit, outcome.records, outcome.is_repeated

    @property
    def topics(self) -> list[str]:
        """The output topics."""
        return list(self._outcome.after)

    @property
    def stores(self) -> list[str]:
        """The stores of the application that have a name of the user's."""
        return self._application.stores

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The records of this batch that did not go on: late, expired, dropped by Kafka's rules, skipped, or dead
        letters."""
        return together(losses_of(self._outcome.metrics).values())

    @property
    def metrics(self) -> dict[Metric, float]:
        """The figures of this batch by Kafka's names."""
        return readable(self._outcome.metrics)

    def dataframe(self, topic: str, columns: Iterable[str] | None = None) -> Any:
        """The records that this batch put into an output topic, as ``spark.read.format("penstock")`` gives them.

        Args:
            columns: those of its columns that you need, by default all.

        Raises:
            ConfigError: the topology does not write it, there is no such column, or the batch was repeated and has put
                out nothing.
        """
        if self.is_repeated:
            raise ConfigError(
                f"topic {topic!r}: this batch is a repeated one, and an earlier run has written its records. Read the "
                'topic: spark.read.format("penstock")'
            )
        if topic not in self._outcome.after:
            there = ", ".join(self.topics) or "none"
            raise ConfigError(f"no topic {topic!r} was written{nearest(topic, self.topics)}; these were: {there}")
        before, after = (_as_json(topic, ends[topic]) for ends in (self._outcome.before, self._outcome.after))
        frame = self._application.frame(self._spark, topic, before, after)
        return frame.select(*map(quoted, chosen_columns(columns, frame.columns)))

    def store(self, name: str) -> Any:
        """The rows of a store as of the newest commit, as ``spark.read.format("penstock-state")`` gives them."""
        return self._application.store(self._spark, name)

    def close(self) -> None:
        """Do nothing: all results are in the log and in the checkpoint."""

    def __repr__(self) -> str:
        what = "counted already" if self.is_repeated else f"{self.records:,} records"
        return f"<commit {self.commit} of a batch: {what}>"


def _as_json(topic: str, offsets: list[int]) -> str:
    """Return offsets in the form of Spark's Kafka source."""
    return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(offsets)}})
