"""``Topology.run_batch``: what it is given is checked and completed, and Spark runs it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from penstock.engine.batch import frames
from penstock.engine.batch.application import Application, Then, seeds_of
from penstock.engine.batch.arguments import Named, Order, Source, check_application, sources_of
from penstock.engine.batch.attempt import Job
from penstock.engine.batch.committed import BatchCommit
from penstock.engine.batch.names import BatchName
from penstock.engine.batch.planning import Plan, counts_of
from penstock.engine.batch.result import BatchResult, quiet
from penstock.engine.batch.stages import SparkStages
from penstock.engine.shared.work import TaskDone
from penstock.engine.spark.arguments import check_folders, settings_of
from penstock.engine.spark.private import is_classic
from penstock.engine.spark.session import work_with_this_python
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.open import shared_log
from penstock.messages import nearest, show
from penstock.plan.topology import Topology
from penstock.query.commits import shapes_of
from penstock.settings import Settings
from penstock.times import wall_clock_ms

_log = logging.getLogger(__name__)


def run_batch(
    topology: Topology,
    spark: Any,
    sources: Mapping[str, Any],
    key: Named = None,
    value: Named = None,
    timestamp: Named = None,
    order: Order = None,
    timestamp_unit: Named = None,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
    stores: Iterable[str] | None = None,
    application_id: str | None = None,
    batch: str | BatchName | None = None,
    seed: str | None = None,
    then: Then | None = None,
    **settings: Any,
) -> BatchResult:
    """See ``Topology.run_batch``."""
    if not hasattr(spark, "createDataFrame"):
        raise ConfigError(f"run_batch takes a SparkSession; got {show(spark)} of type {type(spark).__name__}")
    if partitions is not None and (not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1):
        raise ConfigError(f"run_batch: partitions is a number from 1 on; got {show(partitions)}")
    name = check_application(application_id, batch, seed, then, sources, stores)
    id_ = application_id or seed
    loaded = Settings.load(**settings).resolved() if id_ is None else settings_of(id_, settings)
    with ExitStack() as stack:
        opened = None
        if log is not None or id_ is not None:
            opened = stack.enter_context(closing(shared_log(log, loaded)))
            if id_ is not None:
                check_folders(loaded, opened.url)
        expanded = topology.completed_by(loaded).expanded([*sources, *(opened.topics() if opened is not None else ())])
        given, now = sources_of(expanded, sources, key, value, timestamp, order, timestamp_unit), wall_clock_ms()
        found = {topic: frames.with_time(one, now) for topic, one in given.items()}
        kept = _kept(expanded, stores)
        if is_classic(spark):
            work_with_this_python(spark.sparkContext)
        counts = counts_of(expanded, found, opened, partitions)
        if partitions is None:
            counts |= {topic: _partitions_in(one) for topic, one in found.items() if one.partition}
        if id_ is None:
            plan = Plan.alone(expanded, found, counts, opened, kept, loaded)
            with quiet():
                return SparkStages(spark, plan, found, kept).run()[0]
        assert opened is not None
        results: list[BatchResult] = []

        def run(plan: Plan) -> list[TaskDone]:
            with quiet():
                result, done = SparkStages(spark, plan, found, kept if seed else set()).run()
            results.append(result)
            return done

        seeds = seeds_of(then, found, opened) if seed else None
        application = Application(expanded, str(id_), loaded, opened)
        outcome = application.run(Job(found, run, name, seeds, kept if seed else ()), counts)
        if seed:
            (result,) = results
            result.commit, result.records = outcome.commit, outcome.records
            return result
        for result in results:
            result.close()
        return BatchCommit(spark, application, outcome)


def _kept(topology: Topology, stores: Iterable[str] | None) -> set[str]:
    """The stores whose rows are results: by default those that have a name of the user's."""
    known, specs = shapes_of(topology), topology.facts.named()
    if stores is None:
        return {name for name in known if specs[name].named_by_user}
    names = [stores] if isinstance(stores, str) else list(stores)
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigError(
                f"run_batch: there is no store {name!r}{nearest(name, list(known))}; the stores are {there}"
            )
    return set(names)


def _partitions_in(source: Source) -> int:
    """How many partitions there are at least by a column with their numbers."""
    assert source.partition is not None
    highest = source.frame.agg(f.max(frames.quoted(source.partition)).cast("int")).first()[0]
    return 1 if highest is None else int(highest) + 1
