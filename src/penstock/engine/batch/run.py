"""``Topology.run_batch``: checks and completes its arguments, and runs the batch on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from penstock.engine.batch import frames
from penstock.engine.batch.application import Application, Then, seeds_of
from penstock.engine.batch.arguments import (
    Columns,
    Source,
    check_application,
    check_frames,
    check_partitions,
    sources_of,
)
from penstock.engine.batch.attempt import Job
from penstock.engine.batch.committed import BatchCommit
from penstock.engine.batch.names import BatchName
from penstock.engine.batch.planning import Plan
from penstock.engine.batch.result import BatchResult, quiet
from penstock.engine.batch.stages import SparkStages
from penstock.engine.running.arguments import check_folders, settings_of
from penstock.engine.running.child_queries import ChildQueries
from penstock.engine.running.start import children_of
from penstock.engine.shared.counts import counts_of
from penstock.engine.shared.work import TaskDone
from penstock.engine.sources.sources import Sources
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
from penstock.storage.base import Storage
from penstock.values.times import wall_clock_ms


@dataclass(frozen=True)
class Role:
    """The batch's role in an application: its next commit, its initial state, or none."""

    application_id: str | None = None
    batch: str | BatchName | None = None
    seed: str | None = None
    then: Then | None = None

    @property
    def id(self) -> str | None:
        """The id of the application, if there is one."""
        return self.application_id or self.seed

    def renamed(self, names: Mapping[str, str]) -> Role:
        """The same where topics have other names."""
        if not isinstance(self.then, Mapping):
            return self
        return replace(self, then={names.get(topic, topic): one for topic, one in self.then.items()})


def run_batch(
    topology: Topology,
    spark: Any,
    sources: Mapping[str, Any],
    columns: Columns,
    role: Role,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
    stores: Iterable[str] | None = None,
    **settings: Any,
) -> BatchResult:
    """See ``Topology.run_batch``."""
    if not hasattr(spark, "createDataFrame"):
        raise ConfigError(f"run_batch takes a SparkSession; got {show(spark)} of type {type(spark).__name__}")
    check_frames(sources)
    columns.check("run_batch", sources)
    check_partitions("run_batch", partitions)
    name = check_application(role.application_id, role.batch, role.seed, role.then, sources, stores)
    loaded = Settings.load(**settings).resolved() if role.id is None else settings_of(role.id, settings)
    with ExitStack() as stack:
        opened = None
        if log is not None or role.id is not None:
            opened = stack.enter_context(closing(shared_log(log, loaded)))
        completed = topology.completed_by(loaded)
        columns = columns.completed(completed.frame_sources, sources)
        if role.id is not None:
            completed, renamed = _owned(completed, role.id)
            sources = {renamed.get(topic, topic): frame for topic, frame in sources.items()}
            columns, role = columns.renamed(renamed), role.renamed(renamed)
        expanded = completed.expanded([*sources, *(opened.topics() if opened is not None else ())])
        given = sources_of(expanded, sources, columns)
        now = wall_clock_ms()
        found = {topic: frames.with_time(one, now) for topic, one in given.items()}
        run = _Run(spark, expanded, found, opened, _kept(expanded, stores), loaded)
        if is_classic(spark):
            work_with_this_python(spark.sparkContext)
        counts = run.counts(partitions)
        if role.id is None:
            return run.alone(counts)
        if role.seed is not None:
            return run.seed(role.seed, role.then, counts)
        return run.commit(role.id, name, counts)


def _owned(topology: Topology, application_id: str) -> tuple[Topology, dict[str, str]]:
    """A topology with the application's names for topics of what is outside, and these names by the previous ones."""
    owned = topology.owned_by(application_id)
    before, after = ({**one.frame_sources, **one.feeds} for one in (topology, owned))
    return owned, dict(zip(before, after, strict=True))


@dataclass(frozen=True)
class _Run:
    """A batch with complete arguments."""

    spark: Any
    topology: Topology
    sources: dict[str, Source]
    log: Log | None
    stores: set[str]
    settings: Settings

    def counts(self, partitions: int | None) -> dict[str, int]:
        """Return the partition counts of the DataFrames' topics."""
        counts = counts_of(self.topology, self.sources, self.log, partitions)
        if partitions is None:
            counts |= {topic: _partitions_in(one) for topic, one in self.sources.items() if one.partition}
        return counts

    def alone(self, counts: dict[str, int]) -> BatchResult:
        """Run it as a batch without an application."""
        plan = Plan.alone(self.topology, self.sources, counts, self.log, self.stores, self.settings)
        return self._run(plan, self.stores)[0]

    def seed(self, application_id: str, then: Then | None, counts: dict[str, int]) -> BatchResult:
        """Make the initial state of an application."""
        assert self.log is not None
        results: list[BatchResult] = []

        def run(plan: Plan) -> list[TaskDone]:
            result, done = self._run(plan, self.stores)
            results.append(result)
            return done

        seeds = seeds_of(then, self.sources, self.log)
        job = Job(self.sources, run, seeds=seeds, stores=self.stores)
        outcome = self._application(application_id).run(job, counts)
        (result,) = results
        result.commit, result.records = outcome.commit, outcome.records
        return result

    def commit(self, application_id: str, name: BatchName | None, counts: dict[str, int]) -> BatchResult:
        """Make the next commit of an application, and hand its results on to sinks and tables."""
        assert self.log is not None
        application = self._application(application_id)
        children = ChildQueries()
        if self.topology.sinks or self.topology.table_sinks:
            children = children_of(self.topology, application_id, self.settings, self.log, has_sources=False)
            children.check(self.spark, slots=0)

        def hand_on(storage: Storage) -> None:
            children.begin(self.spark, storage, is_available_now=True)
            try:
                children.take_out()
            finally:
                children.stop()

        feeds = Sources(self.topology, application_id, self.log, without=self.sources)

        def run(plan: Plan) -> list[TaskDone]:
            result, done = self._run(plan, set())
            result.close()
            return done

        outcome = application.run(Job(self.sources, run, name), counts, hand_on, feeds.bring_in_once)
        return BatchCommit(self.spark, application, outcome)

    def _application(self, application_id: str) -> Application:
        assert self.log is not None
        check_folders(self.settings, self.log.url)
        return Application(self.topology, application_id, self.settings, self.log)

    def _run(self, plan: Plan, stores: set[str]) -> tuple[BatchResult, list[TaskDone]]:
        with quiet():
            return SparkStages(self.spark, plan, self.sources, stores).run()


def _kept(topology: Topology, stores: Iterable[str] | None) -> set[str]:
    """Return the stores whose rows are results: by default those that the user named."""
    known, specs = shapes_of(topology), topology.facts.named()
    if stores is None:
        return {name for name in known if specs[name].named_by_user}
    names = [stores] if isinstance(stores, str) or not isinstance(stores, Iterable) else list(stores)
    for name in names:
        if not isinstance(name, str) or name not in known:
            there = ", ".join(known) or "none"
            raise ConfigError(
                f"run_batch: there is no store {name!r}{nearest(str(name), list(known))}; the stores are {there}"
            )
    return set(names)


def _partitions_in(source: Source) -> int:
    """Return the lowest partition count that fits a column of partition numbers."""
    assert source.partition is not None
    highest = source.frame.agg(f.max(frames.quoted(source.partition)).cast("int")).first()[0]
    return 1 if highest is None else int(highest) + 1
