"""kill -9 of programs with all ready sinks at once, at points of each sink's batches, on every engine and over Kafka:
each sink has each record once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, product
from pathlib import Path
from typing import Any

import every_sink
import harness
import pytest

from penstock.faults import SINK_POINTS
from support.connect import ConnectServer, connect_server
from support.every_sink import COUNT, IN_FILES, EverySink, in_files, rows_of
from support.kafka import Cluster
from support.postgres import PostgresServer
from support.rows_service import RowsService

pytestmark = pytest.mark.slow

for _package in ("duckdb", "deltalake", "pyiceberg.table", "psycopg"):
    pytest.importorskip(_package)

SCRIPT = Path(every_sink.__file__)
KINDS = (*IN_FILES, "http", "postgres")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return harness.prepared(tmp_path_factory.mktemp("filled"), COUNT, SCRIPT)


@pytest.fixture
def service() -> Iterator[RowsService]:
    found = RowsService()
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@dataclass
class Rig:
    """A program, and the outside of all its sinks."""

    folder: Path
    service: RowsService
    postgres: PostgresServer
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._url = self.postgres.database()
        self.environment |= {"SERVICE": self.service.url, "DATABASE": self._url}

    def run(self, mode: str, at: Points) -> None:
        """Start the program until it ends by itself; each start before is killed at one of the points of sinks."""
        told = ",".join(f"{kind}:{point}" for kind, point in at)
        for _ in range(len(at) + 1):
            program = harness.Program(self.folder, mode, SCRIPT, KILLS=told, **self.environment)
            if program.wait():
                missed = [one for one in at if not every_sink.marker(self.folder, *one).exists()]
                assert not missed, f"no sink came to these points: {missed}"
                return
            assert program.exit_status == -signal.SIGKILL, program.errors()
        raise AssertionError(f"not done after {len(at) + 1} starts")

    def rows(self) -> dict[str, list[Any]]:
        """What all sinks have."""
        found: dict[str, list[Any]] = EverySink(self.folder / "sinks").rows()
        found |= {f"http {table}": rows for table, rows in self.service.rows().items()}
        for table, order in (("clicks", "n"), ("last", '"user" collate "C"')):
            question = f'select "user", n from {table} order by {order}'
            found[f"postgres {table}"] = self.postgres.ask(self._url, question)
        return found


def wanted() -> dict[str, list[Any]]:
    return in_files() | {f"{kind} {table}": rows for kind in ("http", "postgres") for table, rows in rows_of().items()}


@pytest.fixture
def rig(filled: Path, tmp_path: Path, service: RowsService, postgres: PostgresServer) -> Rig:
    return Rig(harness.copy_of(filled, tmp_path), service, postgres)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("server")) as found:
        yield found


Points = list[tuple[str, str]]

BY_TURNS: Points = list(zip(KINDS, cycle(["in-sink", "after-sink"]), strict=False))
OTHERWISE: Points = list(zip(KINDS, cycle(["after-sink", "in-sink"]), strict=False))


def test_a_program_killed_at_every_point_of_every_sink_loses_nothing_and_doubles_nothing(rig: Rig):
    rig.run("--slots", list(product(KINDS, SINK_POINTS)))
    assert rig.rows() == wanted()


@pytest.mark.parametrize(("mode", "points"), [("--spark", BY_TURNS), ("--micro", OTHERWISE)])
def test_a_program_on_spark_killed_in_every_sink_loses_nothing_and_doubles_nothing(mode: str, points: Points, rig: Rig):
    rig.run(mode, points)
    assert rig.rows() == wanted()


@pytest.mark.parametrize(("mode", "points"), [("--spark", OTHERWISE), ("--micro", BY_TURNS)])
def test_a_client_of_a_connect_server_killed_in_every_sink_loses_nothing_and_doubles_nothing(
    mode: str, points: Points, rig: Rig, server: ConnectServer
):
    rig.environment["SPARK_MASTER"] = server.url
    rig.run(mode, points)
    assert rig.rows() == wanted()


@pytest.mark.parametrize(("mode", "points"), [("--slots", BY_TURNS), ("--spark", OTHERWISE)])
def test_a_program_over_kafka_killed_in_every_sink_loses_nothing_and_doubles_nothing(
    mode: str,
    points: Points,
    cluster: Cluster,
    tmp_path: Path,
    service: RowsService,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("LOG", f"kafka://{cluster.servers}")
    monkeypatch.setenv("NAME", cluster.name)
    rig = Rig(harness.prepared(tmp_path, COUNT, SCRIPT), service, postgres)
    rig.run(mode, points)
    assert rig.rows() == wanted()
