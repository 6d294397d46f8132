"""kill -9 between a commit and a sink, within the sink's transaction and behind it: the sink has each record once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import harness
import pytest

import sinks
from penstock import consume
from penstock.faults import SINK_POINTS
from support.postgres import PostgresServer
from support.rows_service import RowsService

pytestmark = pytest.mark.slow

SCRIPT = Path(sinks.__file__)
COUNT = 3_000


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The topics of two sinks, which have nothing yet."""
    return harness.prepared(tmp_path_factory.mktemp("filled"), COUNT, SCRIPT)


DIRECTLY: dict[str, list[Any]] = sinks.expected([(f"user-{n * n % 37}", n) for n in range(COUNT)])


def test_a_crash_at_any_point_of_a_sink_loses_nothing_and_doubles_nothing(filled: Path, tmp_path: Path):
    folder = harness.copy_of(filled, tmp_path)
    harness.run_with_crashes_at(folder, "--hand-on", SINK_POINTS, 1, SCRIPT)
    assert sinks.rows_in(folder) == DIRECTLY


@pytest.mark.parametrize("point", SINK_POINTS)
def test_a_crash_at_a_later_batch_loses_nothing_and_doubles_nothing(point: str, filled: Path, tmp_path: Path):
    folder = harness.copy_of(filled, tmp_path)
    harness.run_with_crashes_at(folder, "--hand-on", [point], 2, SCRIPT)
    assert sinks.rows_in(folder) == DIRECTLY


@pytest.mark.parametrize(("points", "count"), [(SINK_POINTS, 1), (["in-sink"], 2), (["in-sink"], 3)])
def test_a_crash_at_any_point_of_parquet_files_loses_nothing_and_doubles_nothing(
    points: list[str], count: int, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The first time in the sink is behind the plan of a batch, the second time behind its files."""
    monkeypatch.setenv("SINKS", sinks.PARQUET)
    folder = harness.copy_of(filled, tmp_path)
    harness.run_with_crashes_at(folder, "--hand-on", points, count, SCRIPT)
    assert sinks.parquet_rows(folder, is_committed=True) == DIRECTLY["clicks"]
    assert sinks.parquet_rows(folder, is_committed=False) == DIRECTLY["clicks"]


@pytest.fixture
def rows_service() -> Iterator[RowsService]:
    found = RowsService()
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture
def rows_outside(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], dict[str, list[Any]]]:
    """Programs write into a sink of the kind that a test names; what it has."""
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.database()
        monkeypatch.setenv("SINKS", url)
        return lambda: {"clicks": postgres.ask(url, sinks.CLICKS), "last": postgres.ask(url, sinks.LAST)}
    if request.param == "http":
        service: RowsService = request.getfixturevalue("rows_service")
        monkeypatch.setenv("SINKS", service.url)
        return service.rows
    pytest.importorskip({sinks.DELTA: "deltalake", sinks.ICEBERG: "pyiceberg.table"}.get(request.param, request.param))
    monkeypatch.setenv("SINKS", request.param)
    return lambda: sinks.rows_in(tmp_path)


KINDS = ["postgres", sinks.DUCKDB, sinks.DELTA, sinks.ICEBERG, "http"]


@pytest.mark.parametrize(("points", "count"), [(SINK_POINTS, 1), (["in-sink"], 2), (["after-sink"], 2)])
@pytest.mark.parametrize("rows_outside", KINDS, indirect=True)
def test_a_crash_at_any_point_of_other_sinks_loses_nothing_and_doubles_nothing(
    points: list[str],
    count: int,
    filled: Path,
    tmp_path: Path,
    rows_outside: Callable[[], dict[str, list[Any]]],
):
    folder = harness.copy_of(filled, tmp_path)
    harness.run_with_crashes_at(folder, "--hand-on", points, count, SCRIPT)
    assert rows_outside() == DIRECTLY


def clicks_of(base: Path) -> list[tuple[str, int]]:
    """The clicks of the input, of each partition in the order of offsets."""
    log = base / "log"
    found = (record for partition in range(4) for record in consume("clicks", log=log, partition=partition))
    return [(record.key, record.value["n"]) for record in found]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return harness.prepared(tmp_path_factory.mktemp("few"), 2_000)


@pytest.mark.parametrize("mode", ["--slots", "--spark"])
def test_a_program_killed_now_and_then_loses_nothing_and_doubles_nothing(mode: str, few: Path, tmp_path: Path):
    folder = harness.copy_of(few, tmp_path)
    harness.run_to_the_end(folder, mode, ["driver", "slot"], kills=4 if mode == "--slots" else 2, seed=5, script=SCRIPT)
    assert sinks.rows_in(folder) == sinks.expected(clicks_of(few))
