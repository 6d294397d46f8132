"""``Topology.run_batch`` for an application: its next commit, or its initial state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.engine.batch.arguments import Source
from penstock.engine.batch.attempt import BatchAttempt, Job
from penstock.engine.batch.planning import laid_out
from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.commit.topics import positions
from penstock.engine.local import LocalApplication
from penstock.engine.operate.lock import ApplicationLock
from penstock.engine.shared.manifest import Manifest, Manifests
from penstock.engine.spark import dataframes
from penstock.errors import ConfigError
from penstock.files import temporary
from penstock.log.base import Log, TopicInfo
from penstock.messages import nearest, show
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.storage.base import Storage
from penstock.storage.opening import open_storage
from penstock.values.offset_reset import AutoOffsetReset

_log = logging.getLogger(__name__)

Then = Mapping[str, Any]
"""By topic, where a live program continues: an offset for each partition, or a value of ``auto_offset_reset``."""


@dataclass(frozen=True)
class Outcome:
    """The result of a batch.

    Attributes:
        commit: the number of its commit; the newest one if there was nothing to do.
        records: how many records of topics and rows of DataFrames it read.
        is_repeated: whether a batch of its name was already committed, so that nothing was done.
        before: the ends of each output topic before the batch.
        after: the same after the batch.
    """

    commit: int
    records: int
    is_repeated: bool
    before: dict[str, list[int]]
    after: dict[str, list[int]]
    metrics: dict[str, int]


class Application:
    """An application whose commits are batches.

    Args:
        settings: with the folder of the application.
    """

    def __init__(self, topology: Topology, application_id: str, settings: Settings, log: Log):
        assert settings.state_dir is not None
        self._topology, self._id, self._settings, self._log = topology, application_id, settings, log
        self._folder = settings.state_dir
        self.checkpoint = settings.checkpoint or str(settings.state_dir / "checkpoint")

    def run(
        self,
        job: Job,
        partitions: Mapping[str, int],
        hand_on: Callable[[Storage], None] = lambda storage: None,
        bring_in: Callable[[Storage], None] = lambda storage: None,
    ) -> Outcome:
        """Make a batch's commit.

        Args:
            partitions: how many partitions to create missing topics of DataFrames with.
            hand_on: called after the commit, and after a batch that counts already, with the application's storage. It
                hands results on to sinks and tables, while no other program of the application runs.
            bring_in: called before the commit in the same way. It brings the records of sources in.

        Raises:
            AlreadyRunningError: a program with this application id runs on this machine.
            ConfigError: the arguments do not fit the application.
            FencedError: another program took the application over meanwhile.
        """
        lock = ApplicationLock(self._folder, self._id)
        try:
            storage = open_storage(self.checkpoint)
            if job.seeds is not None:
                self._check_is_new(Manifests(storage).newest() or Manifest(-1, {}))
            bring_in(storage)
            outcome = self._commit(job, partitions, storage)
            hand_on(storage)
            return outcome
        finally:
            lock.release()

    def _commit(self, job: Job, partitions: Mapping[str, int], storage: Storage) -> Outcome:
        self._make_topics(job.sources, partitions)
        coordinator = self._taken_over(storage)  # afterwards the commits of a killed run are in its topics
        if job.name is not None and job.name.counted_in(coordinator.manifest):
            commit = coordinator.manifest.commit
            _log.warning(
                "application %r: batch %s counts already, so nothing was done; the application is at commit %d",
                self._id, job.name, commit,
            )  # fmt: skip
            return Outcome(commit, 0, True, {}, {}, {})
        return self._run(job, coordinator)

    @property
    def stores(self) -> list[str]:
        """The stores that the user named."""
        return sorted(name for name, spec in self._topology.facts.named().items() if spec.named_by_user)

    def frame(self, spark: Any, topic: str, before: str, after: str) -> Any:
        """Return the records of a topic between two offsets of each partition, which are written as in Spark's Kafka
        source.
        """
        known_to(spark)
        reader = spark.read.format("penstock").option("log", self._log.url).option("topic", topic)
        return reader.options(typed="true", startingOffsets=before, endingOffsets=after).load()

    def store(self, spark: Any, name: str) -> Any:
        """Return the rows of a store as of the newest commit."""
        known_to(spark)
        return spark.read.format("penstock-state").option("application", self.checkpoint).load(name)

    def _check_is_new(self, newest: Manifest) -> None:
        if any(entry.changed >= 0 for entry in newest.tasks.values()):
            raise ConfigError(
                f"run_batch: application {self._id!r} cannot be seeded: it has made commits already, up to "
                f"{newest.commit}. Seed another application id, or continue this one: run_batch(application_id="
                f"{self._id!r}, batch=...)"
            )

    def _make_topics(self, sources: Mapping[str, Source], partitions: Mapping[str, int]) -> None:
        """Create the topics that DataFrames stand for, if they are missing; a live program reads them."""
        counts = {
            topic: self._log.topic(topic).partitions if self._log.exists(topic) else partitions[topic]
            for topic in sources
        }
        _, infos = laid_out(self._topology, sources, counts, self._log, self._settings)
        for info in infos:
            if info.name in sources and not self._log.exists(info.name):
                self._log.create_topic(TopicInfo(info.name, info.partitions, info.key, info.value, schema=info.schema))
                _log.info("topic %r is made, for a live program to read; it has no records yet", info.name)

    def _taken_over(self, storage: Storage) -> Coordinator:
        """Return the coordinator of the application, after processing all records between its tasks."""
        with temporary.within("batch") as folder:
            local = LocalApplication(self._topology, self._id, self._settings, self._log, storage, folder / "tasks")
            with closing(local):
                while local.coordinator.manifest.waiting:  # a live program had more than it takes in one commit
                    local.run_until(local.coordinator.offsets())
        return local.coordinator

    def _run(self, job: Job, coordinator: Coordinator) -> Outcome:
        outputs = coordinator.opened.outputs if job.seeds is None else []
        before = {topic: coordinator.log.end_offsets(topic) for topic in outputs}
        metrics = dict(coordinator.manifest.metrics)
        ends = coordinator.end_offsets()
        done = coordinator.step(ends, attempts=partial(BatchAttempt, job))
        coordinator.publishing.finish()
        coordinator.publishing.close()
        after = {topic: coordinator.log.end_offsets(topic) for topic in outputs}
        told = {name: n - metrics.get(name, 0) for name, n in coordinator.manifest.metrics.items()}
        told = {name: n for name, n in told.items() if n}
        commit = coordinator.manifest.commit
        return Outcome(commit, 0 if done is None else done.records, False, before, after, told)


def known_to(spark: Any) -> None:
    """Register Penstock's DataFrame formats in a session."""
    from penstock.frames import state_frames

    dataframes.make_known(spark)
    state_frames.make_known(spark)


def seeds_of(then: Then | None, sources: Mapping[str, Source], log: Log) -> dict[str, list[int]]:
    """Return, by topic, the offsets from which a live program continues after a seed.

    Raises:
        ConfigError: a topic has no DataFrame, a topic with records is missing, or a value is no place in its topic.
    """
    given = {} if then is None else then
    if not isinstance(given, Mapping):
        raise ConfigError(f"run_batch: then is a dict of a place for each topic; got {show(given)}")
    for topic in given:
        if topic not in sources:
            raise ConfigError(
                f"run_batch: then names topic {topic!r}, for which there is no DataFrame"
                f"{nearest(str(topic), list(sources))}; there are some for {', '.join(sources) or 'none'}. Topics of "
                "the log are read to their ends, and a live program continues there"
            )
    found: dict[str, list[int]] = {}
    for topic in sources:
        if not log.exists(topic):
            continue  # it will be created, and begins at 0
        if topic in given:
            found[topic] = _place(topic, given[topic], log)
        elif any(end > start for start, end in zip(log.start_offsets(topic), log.end_offsets(topic), strict=True)):
            raise ConfigError(
                f"run_batch: topic {topic!r} has records, and nothing says which of them the DataFrame has already. "
                f"Say where a live program continues: then={{{topic!r}: ...}} with an offset for each partition, a "
                'time, "earliest" or "latest"'
            )
    return found


def _place(topic: str, given: Any, log: Log) -> list[int]:
    starts, ends = log.start_offsets(topic), log.end_offsets(topic)
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = dict(enumerate(given))
    if not isinstance(given, Mapping):
        return positions(log, topic, AutoOffsetReset.of(given, f"run_batch: then[{topic!r}]"))
    numbers = {int(p) if isinstance(p, str) and p.isdecimal() else p: offset for p, offset in given.items()}
    if set(numbers) != set(range(len(ends))):
        raise ConfigError(
            f"run_batch: then[{topic!r}] has offsets for partitions {', '.join(map(str, numbers)) or 'none'}; the "
            f"topic has {len(ends)}, and each needs one"
        )
    for p, offset in numbers.items():
        if isinstance(offset, bool) or not isinstance(offset, int) or not starts[p] <= offset <= ends[p]:
            raise ConfigError(
                f"run_batch: then[{topic!r}]: partition {p} has offsets from {starts[p]} to {ends[p]}; got "
                f"{show(offset)}"
            )
    return [numbers[p] for p in range(len(ends))]
