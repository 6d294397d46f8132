"""Settings of Spark that users have: none of them repeats a commit, or makes the program stand still for long."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock import StreamsBuilder, consume, produce
from penstock.errors import ConfigError
from penstock.state.folder_lock import lockable, takes
from support.spark_classes import QUICK_JVM
from support.standalone import StandaloneCluster

pytestmark = pytest.mark.slow

KEYS = "abcdefgh"
SLOTS = 2
"""Half of the cluster's cores stay free: for copies of tasks, or for other work."""

SPECULATION = {
    "spark.executor.cores": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "1s",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    SparkContext._ensure_initialized()  # settings with which a JVM starts would be those of all its later sessions
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), workers=2, cores=2) as started:
        yield started


class Running:
    """A program on the cluster, and a producer that writes five times a second."""

    def __init__(self, cluster: StandaloneCluster, folder: Path, spark: Any, told: pytest.LogCaptureFixture):
        self.spark = spark
        self._cluster, self._folder, self._told = cluster, folder, told
        self._records, self._commits, self._began = 0, list[float](), 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    @contextmanager
    def works(self, **given: Any) -> Iterator[Any]:
        """Run the program, with the producer."""
        places = {"log": self._folder / "log", "state_dir": self._folder / "state"}
        places["checkpoint"] = str(self._folder / "checkpoint")
        given |= {"slots": SLOTS, "statestore_cache_max_bytes": 0, "on_progress": self._note, **places}
        self._put()
        began = time.monotonic()
        with counting().start(self._folder.name, spark=self.spark, **given) as streams:
            streams.process_all_available()
            self._began = time.monotonic() - began
            self._thread.start()
            try:
                yield streams
            finally:
                self._is_over.set()
                self._thread.join()
            streams.process_all_available()

    def _note(self, progress: Any) -> None:
        self._commits.append(time.monotonic())

    def _put(self) -> None:
        numbers = range(self._records, self._records + len(KEYS))
        rows = [(KEYS[n % len(KEYS)], n) for n in numbers]
        produce(rows, "numbers", key=str, value=int, partitions=8, log=self._folder / "log")
        self._records = numbers.stop

    def _produce(self) -> None:
        while not self._is_over.wait(0.2):
            self._put()

    def commits(self, number: int) -> None:
        """Wait for so many more commits."""
        since = len(self._commits)
        until(lambda: len(self._commits) >= since + number)

    @property
    def repeated(self) -> int:
        """How many attempts were repeated."""
        return sum(record.getMessage().startswith("commit") for record in self._told.records)

    def check_never_stood_still(self) -> None:
        """Fifteen seconds at most lay between two commits, or three starts on a machine that takes long for these."""
        assert max(later - earlier for earlier, later in pairwise(self._commits)) < max(15, 3 * self._began)

    def slots(self) -> dict[int, int]:
        """The processes that are slots now, as the locks say that are held, with the machine of each."""
        found = {}
        for machine in range(self._cluster.workers):
            for file in (self._cluster.state_of(machine) / self._folder.name / "slots").glob("*"):
                if file.name.isdecimal() and not takes(lockable(file)):
                    found[int(file.read_text().split()[-1])] = machine
        return found

    def tasks(self) -> int:
        """How many tasks of Spark run."""
        stages = self.spark.sparkContext.statusTracker()
        infos = [stages.getStageInfo(stage) for stage in stages.getActiveStageIds()]
        return sum(info.numActiveTasks for info in infos if info is not None)

    def check(self) -> None:
        """Compare all results with the input: each record has one, and each key all of its counts in order."""
        copies = sorted(record.value for record in consume("copies", str, int, log=self._folder / "log"))
        assert copies == list(range(self._records))
        totals = [(record.key, record.value) for record in consume("totals", str, int, log=self._folder / "log")]
        for key in KEYS:
            assert [n for of, n in totals if of == key] == list(range(1, self._records // len(KEYS) + 1))


def counting() -> Any:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", key=str, value=int)
    numbers.to("copies")
    numbers.group_by_key().count("counts").to_stream().to("totals")
    return builder.build()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def begin(
    cluster: StandaloneCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[dict[str, str]], Running]]:
    sessions: list[Any] = []

    def begun(settings: dict[str, str]) -> Running:
        builder = SparkSession.builder.master(cluster.url).config("spark.driver.extraJavaOptions", QUICK_JVM)
        builder = builder.config("spark.driver.host", cluster.host).config("spark.driver.bindAddress", cluster.host)
        builder = builder.config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        spark.sparkContext.pythonExec = sys.executable
        sessions.append(spark)
        return Running(cluster, tmp_path, spark, caplog)

    yield begun
    for spark in sessions:
        spark.stop()


Begin = Callable[[dict[str, str]], Running]


def test_a_copy_of_a_slot_by_speculation_does_nothing(begin: Begin):
    running = begin(SPECULATION)
    with running.works():
        until(lambda: running.tasks() > SLOTS)
        running.commits(10)
        assert running.repeated == 0
    running.check_never_stood_still()
    running.check()


def test_a_session_that_ends_processes_without_rows_is_refused(begin: Begin):
    """Its conf cannot be changed for one job, and a slot returns no row until the program stops."""
    timeout = {"spark.python.worker.idleTimeoutSeconds": "2", "spark.python.worker.killOnIdleTimeout": "true"}
    running = begin(timeout)
    with pytest.raises(ConfigError) as caught, running.works():
        pass
    assert str(caught.value) == (
        "start: the session has spark.python.worker.killOnIdleTimeout=true and "
        "spark.python.worker.idleTimeoutSeconds=2, so Spark kills a Python process that returns no row for this time. "
        "A slot returns none as long as the program runs. Leave the first setting out, or start with "
        'engine="micro-batch", whose processes end after each commit'
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.excludeOnFailure.enabled": "true"},
        {"spark.python.worker.reuse": "false"},
        {"spark.task.maxFailures": "1"},
        {"spark.locality.wait": "30s"},
        SPECULATION,
    ],
    ids=lambda settings: min(settings),
)
def test_a_killed_slot_costs_one_attempt(begin: Begin, settings: dict[str, str]):
    running = begin(settings)
    with running.works():
        running.commits(3)
        killed = min(running.slots())
        os.kill(killed, signal.SIGKILL)
        running.commits(10)
        assert killed not in running.slots()
    assert running.repeated <= 1, "none if the loss is noticed between two commits"
    running.check_never_stood_still()
    running.check()


def test_pools_share_what_slots_leave(begin: Begin):
    running = begin({"spark.scheduler.mode": "FAIR"})
    running.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "streams")
    with running.works():
        running.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "others")
        for _ in range(5):
            assert running.spark.sparkContext.range(8, numSlices=4).map(lambda n: n + 1).sum() == 36
            running.commits(1)
    assert running.repeated == 0
    running.check()


def test_a_user_who_cancels_all_jobs_costs_one_attempt(begin: Begin):
    running = begin({})
    with running.works():
        running.commits(3)
        running.spark.sparkContext.cancelAllJobs()
        running.commits(10)
    assert running.repeated <= 1
    running.check_never_stood_still()
    running.check()
