"""kill -9 of programs with all ready sinks at once, at points of each sink's batches, on every engine and over Kafka:
each sink has each record once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import every_sink
import harness
import pytest

from support.connect import ConnectServer, connect_server
from support.every_sink import COUNT
from support.kafka import Cluster
from support.outside import KINDS, Outside, wanted
from support.postgres import PostgresServer

pytestmark = pytest.mark.slow

for _package in ("duckdb", "deltalake", "pyiceberg.table", "psycopg"):
    pytest.importorskip(_package)

SCRIPT = Path(every_sink.__file__)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return harness.prepared(tmp_path_factory.mktemp("filled"), COUNT, SCRIPT)


Points = list[tuple[str, str]]


@dataclass
class Killed:
    """A program that is killed, and the outside of all its sinks."""

    folder: Path
    outside: Outside
    environment: dict[str, str] = field(default_factory=dict)

    def told(self) -> dict[str, str]:
        """The variables that tell the program where its sinks are."""
        return {"SERVICE": self.outside.sinks.service, "DATABASE": self.outside.sinks.database}

    def run(self, mode: str, points: Points) -> None:
        """Start the program until it ends by itself; each start before is killed at one of the points of sinks."""
        told = {**self.told(), "KILLS": ",".join(map(":".join, points))}
        for _ in range(len(points) + 1):
            program = harness.Program(self.folder, mode, SCRIPT, **told, **self.environment)
            if program.wait():
                missed = [one for one in points if not every_sink.marker(self.folder, *one).exists()]
                assert not missed, f"no sink came to these points: {missed}"
                return
            assert program.exit_status == -signal.SIGKILL, program.errors()
        raise AssertionError(f"not done after {len(points) + 1} starts")


@pytest.fixture
def outside(tmp_path: Path, postgres: PostgresServer) -> Iterator[Outside]:
    found = Outside(tmp_path / "sinks", postgres)
    yield found
    found.close()


@pytest.fixture
def program(filled: Path, tmp_path: Path, outside: Outside) -> Killed:
    return Killed(harness.copy_of(filled, tmp_path), outside)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("server")) as found:
        yield found


BY_TURNS: Points = list(zip(KINDS, cycle(["in-sink", "after-sink"]), strict=False))
OTHERWISE: Points = list(zip(KINDS, cycle(["after-sink", "in-sink"]), strict=False))


def test_a_program_killed_in_and_after_each_commit_of_a_sink_loses_nothing_and_doubles_nothing(program: Killed):
    program.run("--slots", BY_TURNS + OTHERWISE)
    assert program.outside.rows() == wanted()


def test_a_program_and_its_slots_killed_now_and_then_lose_nothing_and_double_nothing(
    program: Killed, monkeypatch: pytest.MonkeyPatch
):
    for variable, value in program.told().items():
        monkeypatch.setenv(variable, value)
    harness.run_to_the_end(program.folder, "--slots", ["driver", "slot"], kills=6, seed=8, script=SCRIPT)
    assert program.outside.rows() == wanted()


@pytest.mark.parametrize(("mode", "points"), [("--spark", BY_TURNS), ("--micro", OTHERWISE)])
def test_a_program_on_spark_killed_in_every_sink_loses_nothing_and_doubles_nothing(
    mode: str, points: Points, program: Killed
):
    program.run(mode, points)
    assert program.outside.rows() == wanted()


@pytest.mark.parametrize(("mode", "points"), [("--spark", OTHERWISE), ("--micro", BY_TURNS)])
def test_a_client_of_a_connect_server_killed_in_every_sink_loses_nothing_and_doubles_nothing(
    mode: str, points: Points, program: Killed, server: ConnectServer
):
    program.environment["SPARK_MASTER"] = server.url
    program.run(mode, points)
    assert program.outside.rows() == wanted()


@pytest.mark.parametrize(("mode", "points"), [("--slots", BY_TURNS), ("--spark", OTHERWISE)])
def test_a_program_over_kafka_killed_in_every_sink_loses_nothing_and_doubles_nothing(
    mode: str,
    points: Points,
    cluster: Cluster,
    tmp_path: Path,
    outside: Outside,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("LOG", f"kafka://{cluster.servers}")
    monkeypatch.setenv("NAME", cluster.name)
    program = Killed(harness.prepared(tmp_path, COUNT, SCRIPT), outside)
    program.run(mode, points)
    assert program.outside.rows() == wanted()
