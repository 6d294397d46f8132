"""``Topology.batches``: a streaming DataFrame's batches, each as the next commit of an application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.engine.batch.arguments import Columns, check_partitions, check_topic
from penstock.engine.batch.names import BatchName
from penstock.engine.batch.run import Role, run_batch
from penstock.engine.running.arguments import settings_of
from penstock.engine.spark.checkpoints import query_of_this_batch
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.open import check_shared
from penstock.messages import show
from penstock.plan.names import check_application_id
from penstock.plan.topology import Topology


def batches(
    topology: Topology,
    application_id: str,
    topic: str | None,
    columns: Columns,
    name: str | None,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
    **settings: Any,
) -> Callable[[Any, int], None]:
    """See ``Topology.batches``."""
    check_application_id(application_id)
    completed = topology.completed_by(settings_of(application_id, settings))
    reads = [one for one in topology.source_topics if one not in topology.sink_topics]
    if topic is None:
        if len(reads) != 1:
            raise ConfigError(
                f"batches: the topology reads the topics {', '.join(reads) or 'of no name'}; say in whose place the "
                "streaming DataFrame stands: topic="
            )
        (topic,) = reads
    for what, text in (("topic", topic), ("name", name)):
        if text is not None and (not isinstance(text, str) or not text):
            raise ConfigError(f"batches: {what} is a text; got {show(text)}")
    check_topic("batches", completed.expanded([topic]), topic)
    columns.check("batches", [topic])
    check_partitions("batches", partitions)
    check_shared(log)

    def take(frame: Any, number: int) -> None:
        query = name or query_of_this_batch(frame)
        if query is None:
            raise ConfigError(
                "batches: this batch does not say of which query it is; have it called by "
                "df.writeStream.foreachBatch(...), or name the query: topology.batches(..., name=...)"
            )
        role = Role(application_id, BatchName(query, number))
        run_batch(topology, frame.sparkSession, {topic: frame}, columns, role, log, partitions, **settings)

    return take
