"""kill -9 around the append of what a source brings in: the topic has each record once, and each counts once."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
import pytest

import sources
from penstock.faults import SOURCE_POINTS
from penstock.testing.broker import free_ports
from support.kafka import Cluster
from support.postgres import PostgresServer

pytestmark = pytest.mark.slow

httpx = pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")

SCRIPT = Path(sources.__file__)
COUNT, FEW = 2_000, 600
"""How many records there are; few ones for micro-batches, whose commits take longer."""
KINDS = {"--slots": ["driver", "slot"], "--spark": ["driver", "slot"], "--micro": ["driver"]}
"""Processes that are killed, by how the program runs."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files."""
    return harness.prepared(tmp_path_factory.mktemp("filled"), COUNT, SCRIPT)


def copy_of(base: Path, folder: Path) -> Path:
    shutil.copytree(base / "lake", folder / "lake")
    return harness.copy_of(base, folder)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_crash_at_any_point_of_a_source_loses_nothing_and_doubles_nothing(count: int, filled: Path, tmp_path: Path):
    folder = copy_of(filled, tmp_path)
    harness.run_with_crashes_at(folder, "--bring-in", SOURCE_POINTS, count, SCRIPT)
    assert sources.numbers_in(folder) == list(range(COUNT))


def test_a_whole_program_killed_at_any_point_of_a_source_counts_each_record_once(filled: Path, tmp_path: Path):
    folder = copy_of(filled, tmp_path)
    harness.run_with_crashes_at(folder, "--slots", SOURCE_POINTS, 2, SCRIPT)
    assert sources.numbers_in(folder) == list(range(COUNT))
    assert sources.counts_in(folder) == sources.expected_counts(COUNT)


@pytest.mark.parametrize("mode", ["--slots", "--spark", "--micro"])
def test_a_program_killed_now_and_then_counts_each_record_once(mode: str, filled: Path, tmp_path: Path):
    folder = copy_of(filled, tmp_path)
    harness.run_to_the_end(folder, mode, KINDS[mode], kills=4 if mode == "--slots" else 2, seed=7, script=SCRIPT)
    assert sources.numbers_in(folder) == list(range(COUNT))
    assert sources.counts_in(folder) == sources.expected_counts(COUNT)


@dataclass
class Clients:
    """Clients that post clicks, each until it is answered.

    Attributes:
        answered: the numbers of the clicks that were answered.
    """

    url: str
    wanted: int
    answered: set[int] = field(default_factory=set)
    is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def posting(self) -> Iterator[None]:
        with httpx.Client(timeout=10) as client, ThreadPoolExecutor(4) as pool:
            posted = [pool.submit(self._post, client, n) for n in range(self.wanted)]
            try:
                yield
            finally:
                self.is_over.set()
        for one in posted:
            one.result()

    def _post(self, client: Any, n: int) -> None:
        click = {"user": f"user-{n * n % 37}", "n": n}
        while not self.is_over.is_set():
            with suppress(httpx.TransportError):
                found = client.post(self.url, json=click, headers={"Idempotency-Key": f"k{n}"})
                if found.status_code == 200:
                    self.answered.add(n)
                    return
            time.sleep(0.05)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clients:
    """Clients of a program that takes 600 requests."""
    [port] = free_ports(1)
    wanted = FEW
    monkeypatch.setenv(sources.PORT, str(port))
    monkeypatch.setenv(sources.WANTED, str(wanted))
    (tmp_path / "log").mkdir()
    return Clients(f"http://127.0.0.1:{port}", wanted)


@pytest.mark.parametrize("mode", ["--listen", "--slots"])
def test_a_crash_at_any_point_while_requests_come_stores_each_once(mode: str, clients: Clients, tmp_path: Path):
    """A request that was answered does not come again, so its record would be missing if it was answered too early."""
    with clients.posting():
        harness.run_with_crashes_at(tmp_path, mode, SOURCE_POINTS, 2, SCRIPT)
    assert clients.answered <= set(range(clients.wanted))
    assert sources.numbers_in(tmp_path) == list(range(clients.wanted))
    if mode != "--listen":
        assert sources.counts_in(tmp_path) == sources.expected_counts(clients.wanted)


@pytest.mark.parametrize("mode", ["--slots", "--spark", "--micro"])
def test_a_program_that_is_killed_now_and_then_counts_each_request_once(mode: str, clients: Clients, tmp_path: Path):
    with clients.posting():
        harness.run_to_the_end(tmp_path, mode, KINDS[mode], kills=4 if mode == "--slots" else 2, seed=11, script=SCRIPT)
    assert sources.numbers_in(tmp_path) == list(range(clients.wanted))
    assert sources.counts_in(tmp_path) == sources.expected_counts(clients.wanted)


# --- PostgreSQL's outbox ---------------------------------------------------------------------------------------------


@dataclass
class Box:
    """An outbox with clicks."""

    postgres: PostgresServer
    url: str

    def insert(self, count: int) -> None:
        self.postgres.ask(
            self.url,
            "INSERT INTO outbox (key, value) SELECT 'user-' || n::bigint * n % 37, jsonb_build_object('n', n) "
            f"FROM generate_series(0, {count - 1}) n",
        )

    def count(self) -> int:
        [(found,)] = self.postgres.ask(self.url, "SELECT count(*) FROM outbox")
        return int(found)


@pytest.fixture
def box(tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Box:
    """An outbox without rows."""
    url = postgres.database()
    monkeypatch.setenv(sources.OUTBOX, url)
    (tmp_path / "log").mkdir()
    sources.bring_in(tmp_path)  # makes the table
    return Box(postgres, url)


@pytest.mark.parametrize("mode", ["--bring-in", "--slots"])
def test_a_crash_at_any_point_of_an_outbox_loses_nothing_and_doubles_nothing(mode: str, box: Box, tmp_path: Path):
    box.insert(COUNT)
    harness.run_with_crashes_at(tmp_path, mode, SOURCE_POINTS, 2, SCRIPT)
    assert sources.numbers_in(tmp_path) == list(range(COUNT))
    assert box.count() == 0
    if mode != "--bring-in":
        assert sources.counts_in(tmp_path) == sources.expected_counts(COUNT)


@pytest.mark.parametrize("mode", ["--slots", "--spark", "--micro"])
def test_a_program_that_is_killed_now_and_then_counts_each_row_of_an_outbox_once(mode: str, box: Box, tmp_path: Path):
    count = FEW if mode == "--micro" else COUNT
    box.insert(count)
    harness.run_to_the_end(tmp_path, mode, KINDS[mode], kills=4 if mode == "--slots" else 2, seed=9, script=SCRIPT)
    assert sources.numbers_in(tmp_path) == list(range(count))
    assert sources.counts_in(tmp_path) == sources.expected_counts(count)
    assert box.count() == 0


@pytest.fixture
def over_kafka(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Programs have their topics in Kafka."""
    monkeypatch.setenv(sources.KAFKA, cluster.servers)
    monkeypatch.setenv(sources.APPLICATION, cluster.name)
    cluster.topic("counts", 2)
    return cluster


def check_kafka(cluster: Cluster, folder: Path, count: int) -> None:
    """Check that each record is in Kafka once, and counted once."""
    cluster.wait_for(lambda: len(sources.numbers_in(folder)) >= count)
    assert sources.numbers_in(folder) == list(range(count))
    cluster.wait_for(lambda: sum(sources.counts_in(folder).values()) >= count)
    assert sources.counts_in(folder) == sources.expected_counts(count)


@pytest.mark.parametrize("mode", ["--slots", "--micro"])
def test_a_program_over_kafka_that_is_killed_counts_each_row_of_an_outbox_once(
    mode: str, box: Box, over_kafka: Cluster, tmp_path: Path
):
    count = FEW if mode == "--micro" else COUNT
    box.insert(count)
    harness.run_to_the_end(tmp_path, mode, KINDS[mode], kills=3 if mode == "--slots" else 1, seed=5, script=SCRIPT)
    check_kafka(over_kafka, tmp_path, count)
    assert box.count() == 0


def test_a_program_over_kafka_that_is_killed_counts_each_request_once(
    clients: Clients, over_kafka: Cluster, tmp_path: Path
):
    with clients.posting():
        harness.run_to_the_end(tmp_path, "--slots", KINDS["--slots"], kills=3, seed=6, script=SCRIPT)
    check_kafka(over_kafka, tmp_path, clients.wanted)


@pytest.mark.parametrize("kind", ["outbox", "requests"])
def test_a_crash_at_any_point_of_a_source_over_kafka_counts_each_record_once(
    kind: str, over_kafka: Cluster, request: pytest.FixtureRequest, tmp_path: Path
):
    if kind == "outbox":
        request.getfixturevalue("box").insert(COUNT)
        harness.run_with_crashes_at(tmp_path, "--slots", SOURCE_POINTS, 2, SCRIPT)
    else:
        with request.getfixturevalue("clients").posting():
            harness.run_with_crashes_at(tmp_path, "--slots", SOURCE_POINTS, 2, SCRIPT)
    check_kafka(over_kafka, tmp_path, COUNT if kind == "outbox" else FEW)


@pytest.mark.parametrize(
    ("point", "stored", "kept"), [("before-source-append", 0, 400), ("after-source-append", 150, 400)]
)
def test_rows_of_an_outbox_are_deleted_only_when_they_are_in_the_log(
    point: str, stored: int, kept: int, box: Box, tmp_path: Path
):
    box.insert(400)
    killed = harness.Program(tmp_path, "--slots", SCRIPT, PENSTOCK_CRASH_AT=f"{point}:1:{tmp_path / point}")
    assert not killed.wait()
    assert sources.numbers_in(tmp_path) == list(range(stored))
    assert box.count() == kept
