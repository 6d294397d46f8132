"""kill -9 around the append of what a source brings in: the topic has each record once, and each counts once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
import pytest

import sources
from penstock.faults import SOURCE_POINTS
from penstock.testing.broker import free_ports
from support.connect import ConnectServer, connect_server
from support.kafka import Cluster
from support.postgres import PostgresServer

pytestmark = pytest.mark.slow

httpx = pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")

SCRIPT = Path(sources.__file__)
COUNT, FEW = 2_000, 600
"""How many records there are; few ones for micro-batches, whose commits take longer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_crash_at_any_point_of_a_source_loses_nothing_and_doubles_nothing(count: int, tmp_path: Path):
    sources.fill(tmp_path, COUNT)
    harness.run_with_crashes_at(tmp_path, "--bring-in", SOURCE_POINTS, count, SCRIPT)
    assert sources.numbers_in(tmp_path) == list(range(COUNT))


def test_a_whole_program_killed_at_any_point_of_a_source_counts_each_record_once(tmp_path: Path):
    sources.fill(tmp_path, COUNT)
    harness.run_with_crashes_at(tmp_path, "--slots", SOURCE_POINTS, 2, SCRIPT)
    assert sources.numbers_in(tmp_path) == list(range(COUNT))
    assert sources.counts_in(tmp_path) == sources.expected_counts(COUNT)


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


# --- programs that are killed, on every engine and log ---------------------------------------------------------------


@pytest.fixture
def over_kafka(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Programs have their topics in Kafka."""
    monkeypatch.setenv(sources.KAFKA, cluster.servers)
    monkeypatch.setenv(sources.APPLICATION, cluster.name)
    cluster.topic("counts", 2)
    return cluster


@pytest.fixture
def under_connect(server: ConnectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are clients of a Connect server."""
    monkeypatch.setenv("SPARK_MASTER", server.url)


def records(kind: str, count: int, folder: Path, request: pytest.FixtureRequest) -> AbstractContextManager[None]:
    """Give a source of a kind so many records; requests come for as long as the context lasts."""
    if kind == "requests":
        posting: AbstractContextManager[None] = request.getfixturevalue("clients").posting()
        return posting
    if kind == "outbox":
        request.getfixturevalue("box").insert(count)
    else:
        sources.fill(folder, count)
    return nullcontext()


def check(kind: str, count: int, folder: Path, request: pytest.FixtureRequest) -> None:
    """Check that each record is in the log once, and counted once."""
    if sources.KAFKA in os.environ:  # it shows records a moment later
        cluster = request.getfixturevalue("over_kafka")
        cluster.wait_for(lambda: len(sources.numbers_in(folder)) >= count)
        cluster.wait_for(lambda: sum(sources.counts_in(folder).values()) >= count)
    assert sources.numbers_in(folder) == list(range(count))
    assert sources.counts_in(folder) == sources.expected_counts(count)
    if kind == "outbox":
        assert request.getfixturevalue("box").count() == 0


WAYS: dict[str, tuple[list[str], int]] = {
    "--slots": (["driver", "slot"], 4),
    "--spark": (["slot"], 2),
    "--micro": (["driver"], 1),
    "--spark under_connect": (["slot"], 2),
    "--micro under_connect": (["driver"], 1),
    "--slots over_kafka": (["driver", "slot"], 3),
    "--spark over_kafka": (["slot"], 1),
    "--micro over_kafka": ([], 0),  # each start of a JVM takes seconds
}
"""How a program runs, which of its processes are killed after its driver was killed at an append, and how many."""


@pytest.mark.parametrize("kind", ["files", "outbox", "requests"])
@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_is_killed_counts_each_record_once(
    way: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
):
    mode, _, where = way.partition(" ")
    if where:
        request.getfixturevalue(where)
    count = FEW if kind == "requests" or mode == "--micro" else COUNT
    with records(kind, count, tmp_path, request):
        at = f"after-source-append:3:{tmp_path / 'crashed'}"
        crashed = harness.Program(tmp_path, mode, SCRIPT, PENSTOCK_CRASH_AT=at)
        assert not crashed.wait()
        assert crashed.exit_status == -signal.SIGKILL, crashed.errors()
        kinds, kills = WAYS[way]
        assert harness.run_to_the_end(tmp_path, mode, kinds, kills, seed=2, script=SCRIPT) >= min(kills, 1)
    check(kind, count, tmp_path, request)


@pytest.mark.parametrize("kind", ["outbox", "requests"])
def test_a_crash_at_any_point_of_a_source_over_kafka_counts_each_record_once(
    kind: str, over_kafka: Cluster, request: pytest.FixtureRequest, tmp_path: Path
):
    count = FEW if kind == "requests" else COUNT
    with records(kind, count, tmp_path, request):
        harness.run_with_crashes_at(tmp_path, "--slots", SOURCE_POINTS, 2, SCRIPT)
    check(kind, count, tmp_path, request)
