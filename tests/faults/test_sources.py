"""kill -9 around the append of what a source brings in: the topic has each record once, and each counts once."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import harness
import pytest

import sources
from penstock.faults import SOURCE_POINTS
from penstock.testing.broker import free_ports
from support.postgres import PostgresServer

pytestmark = pytest.mark.slow

SCRIPT = Path(sources.__file__)
COUNT = 2_000
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


def test_a_crash_at_any_point_while_requests_come_stores_each_once_that_was_answered_and_each_that_was_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    httpx = pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")
    [port] = free_ports(1)
    wanted = 300
    monkeypatch.setenv(sources.PORT, str(port))
    monkeypatch.setenv(sources.WANTED, str(wanted))
    (tmp_path / "log").mkdir()

    def post(n: int) -> None:
        """Post until it is answered."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                headers = {"Idempotency-Key": f"k{n}"}
                given = {"user": f"u{n % 7}", "n": n}
                if httpx.post(f"http://127.0.0.1:{port}", json=given, headers=headers, timeout=10).status_code == 200:
                    return
            time.sleep(0.05)

    with ThreadPoolExecutor(4) as clients:
        posted = [clients.submit(post, n) for n in range(wanted - 1)]
        start = threading.Thread(
            target=harness.run_with_crashes_at, args=(tmp_path, "--listen", SOURCE_POINTS, 2, SCRIPT)
        )
        start.start()
        for one in posted:
            one.result()
        post(wanted - 1)  # the last one lets the program end, perhaps before it has answered
        start.join()
    assert sources.numbers_in(tmp_path) == list(range(wanted))


def test_a_crash_at_any_point_of_an_outbox_loses_nothing_and_doubles_nothing(
    filled: Path, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    url = postgres.database()
    monkeypatch.setenv("OUTBOX", url)
    folder = copy_of(filled, tmp_path)
    sources.bring_in(folder)  # makes the table
    postgres.ask(
        url,
        "INSERT INTO outbox (key, value) SELECT 'user-' || n % 37, jsonb_build_object('n', n) "
        "FROM generate_series(0, 199999) n",
    )
    harness.run_with_crashes_at(folder, "--bring-in", SOURCE_POINTS, 2, SCRIPT)
    assert sources.numbers_in(folder) == list(range(200_000))
    assert postgres.ask(url, "SELECT count(*) FROM outbox") == [(0,)]
