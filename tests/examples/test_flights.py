"""The demo: its numbers against a plain computation of the same, without Spark and as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from penstock import Windowed
from penstock.arrays import partitions
from penstock.engine.local import LocalApplication
from penstock.figures.metrics import readable
from penstock.log.file.log import FileLog
from penstock.serdes import STR
from penstock.settings import Settings
from penstock.storage.opening import open_storage
from penstock.testing import TopologyTestDriver
from support import readme

FOLDER = Path(__file__).parents[2] / "examples" / "flights"
sys.path.insert(0, str(FOLDER))  # the example is a program with modules of its own, not a package

import feed  # noqa: E402
import summary  # noqa: E402
from topology import Aircraft, Departures, Flight, topology  # noqa: E402

HOUR = 3_600_000
GRACE = 6 * HOUR
NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)
AT_7, AT_8, AT_9 = (int(NEW_YEAR.timestamp() * 1000) + hour * HOUR for hour in (7, 8, 9))


def landing(carrier: str, flight: int, tailnum: str, dest: str, delay: float, hour: int) -> Flight:
    return Flight(carrier, flight, tailnum, dest, delay, NEW_YEAR.replace(hour=hour))


def test_a_flight_counts_in_the_hour_it_left_unless_it_lands_after_the_grace_period():
    driver = TopologyTestDriver(topology)
    for airport, flight, departed in [
        ("JFK", landing("B6", 1, "N1", "BOS", 10.0, hour=9), AT_8),
        ("JFK", landing("UA", 2, "N2", "SFO", -2.0, hour=14), AT_7),  # six hours on its way, and in time
        ("JFK", landing("B6", 3, "N1", "ORD", 0.0, hour=15), AT_8 + GRACE),
        ("JFK", landing("HA", 51, "N3", "HNL", 4.0, hour=18), AT_7 + HOUR - 1),  # its hour is closed
        ("JFK", landing("B6", 4, "N4", "BOS", 5.0, hour=18), AT_8 + 1),
    ]:
        driver.pipe_input("flights", airport, flight, departed)
    hour = {start: Windowed("JFK", start, start + HOUR) for start in (AT_7, AT_8, AT_8 + GRACE)}
    assert [(record.key, record.value) for record in driver.read_output("departures")] == [
        (hour[AT_8], Departures(1, 10.0)),
        (hour[AT_7], Departures(1, -2.0)),
        (hour[AT_8 + GRACE], Departures(1, 0.0)),
        (hour[AT_8], Departures(2, 15.0)),
    ]
    assert driver.dropped_records_total() == 1
    assert [(record.key, record.value.airport, record.value.flight) for record in driver.read_output("aircraft")] == [
        ("N1", "BOS", "B6 1"),
        ("N2", "SFO", "UA 2"),
        ("N1", "ORD", "B6 3"),
        ("N3", "HNL", "HA 51"),
        ("N4", "BOS", "B6 4"),
    ]


def test_an_aircraft_stays_where_it_landed_last_when_an_earlier_landing_comes_late():
    driver = TopologyTestDriver(topology)
    driver.pipe_input("flights", "JFK", landing("B6", 2, "N1", "ORD", 0.0, hour=15), AT_9)
    driver.pipe_input("flights", "LGA", landing("B6", 1, "N1", "BOS", 0.0, hour=9), AT_8)
    assert driver.store("aircraft").get("N1") == Aircraft("ORD", "B6 2", NEW_YEAR.replace(hour=15))


# --- the whole year -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return feed.read()[0]


class Plain:
    """What must come out, computed from the whole table at once: a task's stream time is the latest departure that
    it has seen, and an hour takes a flight while stream time is before the hour's end plus the grace period."""

    def __init__(self, flights: pd.DataFrame):
        departed = flights["departed"].astype("datetime64[ms, UTC]").astype("int64")
        task = partitions(STR.encode_all(list(flights["origin"])), 2, 0)
        hour = departed // HOUR * HOUR
        in_time = departed.groupby(task).cummax() < hour + HOUR + GRACE
        counted = flights[in_time].assign(hour=hour[in_time]).groupby(["origin", "hour"])["dep_delay"]
        self.departures = {
            Windowed(airport, start, start + HOUR): Departures(count, delay)
            for (airport, start), count, delay in zip(counted.groups, counted.count(), counted.sum(), strict=True)
        }
        self.late = len(flights) - int(in_time.sum())
        last = flights.groupby("tailnum").tail(1)  # they are in order of their landing
        self.aircraft = {
            row.tailnum: Aircraft(row.dest, f"{row.carrier} {row.flight}", row.landed.to_pydatetime())
            for row in last.itertuples()
        }


def outputs(log: Path) -> tuple[dict[Any, Any], dict[Any, Any]]:
    return summary.newest(log, "departures", Departures), summary.newest(log, "aircraft", Aircraft)


@pytest.mark.slow
def test_every_flight_that_was_flown_is_fed_in_order_of_its_landing(flights):
    assert len(flights) == 327_346
    assert feed.read()[1] == 9_430
    assert flights["landed"].is_monotonic_increasing
    assert not flights["departed"].is_monotonic_increasing
    assert (flights["landed"] - flights["departed"]).min() == pd.Timedelta(35, "min")
    assert flights.isna().sum().sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize("commit_max_bytes", [1 << 20, 1 << 28])
def test_the_year_in_one_process_equals_the_plain_computation(flights, tmp_path, commit_max_bytes):
    feed.fill(tmp_path / "log", flights)
    settings = Settings(commit_max_bytes=commit_max_bytes)
    log, storage = FileLog(tmp_path / "log"), open_storage(str(tmp_path / "checkpoint"))
    application = LocalApplication(topology, "flights", settings, log, storage)
    assert application.run_until() == len(flights)
    application.close()
    expected = Plain(flights)
    assert outputs(tmp_path / "log") == (expected.departures, expected.aircraft)
    assert summary.late(readable(application.coordinator.manifest.metrics)) == expected.late == 701


@pytest.mark.slow
def test_the_demo_prints_what_its_page_shows_and_leaves_it_in_topics(flights, tmp_path):
    folder = tmp_path / "demo"
    command = [sys.executable, str(FOLDER / "main.py"), str(folder)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False,
        env={**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = [line.rstrip() for line in ran.stdout.splitlines() if not line.startswith("flights ")]
    shown = readme.blocks("text", readme.page("examples.md"))[0]
    shown = shown.replace(".venv/bin/penstock", "penstock").replace(".penstock/demo", str(folder))
    assert "\n".join(lines).strip() == shown.strip()
    expected = Plain(flights)
    assert outputs(folder / "log") == (expected.departures, expected.aircraft)
