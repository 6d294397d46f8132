"""The two programs of KIP-328's text, and final departures of the flights."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock import consume
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.opening import open_storage
from penstock.testing import TopologyTestDriver

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "flights"))

MINUTE, HOUR = 60_000, 3_600_000


def program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.kip("328-15")
def test_fewer_than_3_events_in_an_hour_are_told_once_ten_minutes_later():
    driver = TopologyTestDriver(program("suppress/too_quiet").topology)
    for user, timestamp in [
        ("busy", 1 * MINUTE),
        ("quiet", 5 * MINUTE),
        ("busy", 30 * MINUTE),
        ("late", 50 * MINUTE),
        ("busy", 59 * MINUTE),
        ("late", 65 * MINUTE),
        ("late", 58 * MINUTE),  # in time for the hour before
        ("late", 59 * MINUTE),
        ("busy", 70 * MINUTE),  # the first hour is final
        ("quiet", 58 * MINUTE),  # too late
        ("busy", 130 * MINUTE),
    ]:
        driver.pipe_input("events", user, "event", timestamp)
    assert [record[:3] for record in driver.read_output("alerts")] == [
        ("quiet", "1 events in the hour from 0", 5 * MINUTE),
        ("busy", f"1 events in the hour from {HOUR}", 70 * MINUTE),
        ("late", f"1 events in the hour from {HOUR}", 65 * MINUTE),
    ]


@pytest.mark.kip("328-15")
def test_one_update_of_a_key_in_30_seconds():
    driver = TopologyTestDriver(program("suppress/rate_limit").topology)
    for key, price, second in [("a", "1", 0), ("a", "2", 10), ("b", "7", 20), ("a", "3", 29), ("b", "8", 30)]:
        driver.pipe_input("prices", key, price, second * 1000)
    assert [record[:3] for record in driver.read_output("calm-prices")] == [("a", "3", 29_000)]
    driver.pipe_input("prices", "c", "5", 50_000)
    assert [record[:3] for record in driver.read_output("calm-prices")] == [("b", "8", 30_000)]


@pytest.mark.kip("328-15")
def test_more_than_1000_keys_let_the_oldest_go_early():
    driver = TopologyTestDriver(program("suppress/rate_limit").topology)
    for number in range(1002):
        driver.pipe_input("prices", f"key-{number}", "1", number)
    assert [record.key for record in driver.read_output("calm-prices")] == ["key-0", "key-1"]


@pytest.mark.slow
@pytest.mark.kip("328-03")
def test_every_hour_of_the_flights_comes_once_as_its_last_update_has_it(tmp_path: Path):
    import feed
    import summary
    import topology as updates

    flights = feed.read()[0].head(60_000)
    feed.fill(tmp_path / "log", flights)
    log = FileLog(tmp_path / "log")
    for name, built in (("updates", updates.topology), ("final", program("flights/final").topology)):
        storage = open_storage(str(tmp_path / name))
        application = LocalApplication(built, name, Settings(commit_max_bytes=1 << 20), log, storage, tmp_path / "db")
        application.run_until()
        application.close()
    last = summary.newest(tmp_path / "log", "departures", updates.Departures)
    final = list(consume("final-departures", value=updates.Departures, log=tmp_path / "log"))
    assert len(final) == len({record.key for record in final})
    assert all(last[record.key] == record.value for record in final)
    open_still = set(last) - {record.key for record in final}
    newest = {key: max(window.end for window in last if window.key == key) for key in ("EWR", "JFK", "LGA")}
    assert all(window.end > newest[window.key] - 8 * HOUR for window in open_still)  # nothing older is missing
    bad = [r.key for r in final if r.value.flights >= 10 and r.value.mean_delay >= 60]
    assert [record.key for record in consume("alerts", value=str, log=tmp_path / "log")] == bad
    assert len(bad) > 0
