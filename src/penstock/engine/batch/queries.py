"""``Topology.batches``: a streaming DataFrame's batches, each as the next commit of an application."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.engine.batch.arguments import Columns, check_partitions, check_topic
from penstock.engine.batch.names import BatchName
from penstock.engine.batch.run import Role, run_batch
from penstock.engine.running.arguments import settings_of
from penstock.engine.running.engine import connect_session
from penstock.engine.shipping.shipping import dumps, loads
from penstock.engine.spark.checkpoints import query_of_this_batch
from penstock.engine.spark.log_option import option_of
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.open import check_shared, shared_log
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
                f"batches: the topology reads the topics {', '.join(reads) or 'of no name'}; name the one that "
                "the streaming DataFrame replaces: topic="
            )
        (topic,) = reads
    for what, text in (("topic", topic), ("name", name)):
        if text is not None and (not isinstance(text, str) or not text):
            raise ConfigError(f"batches: {what} is a text; got {show(text)}")
    check_topic("batches", completed.expanded([topic]), topic)
    columns.check("batches", [topic])
    check_partitions("batches", partitions)
    check_shared(log)
    if name is None and connect_session() is not None:
        raise ConfigError(
            "batches: under Spark Connect a batch does not say of which query it is, and Spark repeats some. Give the "
            "query a name that stays the same when it is started again: topology.batches(..., name=...)"
        )
    return BatchTaker(topology, application_id, topic, columns, name, log, partitions, settings)


class BatchTaker:
    """Takes each batch of a streaming DataFrame as the next commit of an application.

    Spark Connect pickles it, and calls it beside its server, which has another working folder and other variables. So
    it is pickled with the places and settings of this process.
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        topic: str,
        columns: Columns,
        name: str | None,
        log: Log | Kafka | Path | str | None,
        partitions: int | None,
        settings: dict[str, Any],
    ):
        self._given = topology, application_id, topic, columns, name, log, partitions, settings

    def __call__(self, frame: Any, number: int) -> None:
        """Commit a batch; the parameters are those of ``foreachBatch``."""
        topology, application_id, topic, columns, name, log, partitions, settings = self._given
        query = name or query_of_this_batch(frame)
        if query is None:
            raise ConfigError(
                "batches: this batch does not say of which query it is; have it called by "
                "df.writeStream.foreachBatch(...), or name the query: topology.batches(..., name=...)"
            )
        role = Role(application_id, BatchName(query, number))
        run_batch(topology, frame.sparkSession, {topic: frame}, columns, role, log, partitions, **settings)

    def __reduce__(self) -> tuple[Any, ...]:
        topology, application_id, topic, columns, name, log, partitions, settings = self._given
        loaded = settings_of(application_id, settings)
        with closing(shared_log(log, loaded)) as shared:
            place = option_of(shared)
        everything = topology, application_id, topic, columns, name, place, partitions, loaded.as_keywords()
        return _taker, (dumps(everything),)


def _taker(packed: bytes) -> BatchTaker:
    return BatchTaker(*loads(packed))
