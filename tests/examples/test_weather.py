"""The example of flights and the weather in which they left: against a plain computation of the same."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.opening import open_storage
from penstock.testing import TopologyTestDriver
from support import readme

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flights"))

import feed
import weather
from summary import newest
from weather import Aircraft, Airport, Departure, Flight, Observation

pytestmark = pytest.mark.kip("914-03")

MIDNIGHT = datetime(2013, 1, 1, tzinfo=UTC)


def at(hour: float) -> datetime:
    return MIDNIGHT + timedelta(hours=hour)


def observed(hour: float, temp: float) -> Observation:
    return Observation(at(hour), temp, wind_speed=10.0, visib=10.0)


def flight(number: int, hour: float) -> Flight:
    return Flight("UA", number, "N1", "BOS", 0.0, at(hour))


def test_a_flight_meets_the_weather_in_which_it_left_and_what_is_known_of_its_aircraft_and_airport():
    boston = Airport("Logan"), Aircraft("BOEING", "737", 149)
    rows = [
        ("planes", "N1", boston[1], at(0)),
        ("airports", "BOS", boston[0], at(0)),
        ("weather", "JFK", observed(1, 30.0), at(1)),
        ("weather", "JFK", observed(3, 36.0), at(3)),
        ("flights", "JFK", flight(1, 2.5), at(2.5)),  # waits until 8:30
        ("weather", "JFK", observed(2, 33.0), at(2)),  # late, but in time for it
        ("flights", "LGA", flight(2, 3), at(3)),  # waits until 9:00
        ("flights", "JFK", flight(3, 9), at(9)),  # lets both of them go
    ]
    with TopologyTestDriver(weather.topology, statestore_cache_max_bytes=0) as driver:
        for topic, key, value, time in rows:
            driver.pipe_input(topic, key, value, int(time.timestamp() * 1000))
        found = [(record.key, record.value) for record in driver.read_output("departures-in-full")]
    aircraft, to = boston[1], boston[0].name
    assert found == [
        ("UA 1 JFK 2013-01-01 02:30", Departure(flight(1, 2.5), observed(2, 33.0), aircraft, to)),
        ("UA 2 LGA 2013-01-01 03:00", Departure(flight(2, 3), None, aircraft, to)),
    ]


def test_observations_come_late_and_in_disorder_but_none_by_more_than_five_hours():
    observations = weather.observations()
    assert len(observations) == 26_110
    for _, rows in observations.groupby("origin"):
        late = rows["observed"].cummax() - rows["observed"]
        assert 0.1 < (late > pd.Timedelta(0)).mean() < 0.2
        assert late.max() <= pd.Timedelta(weather.MOST_LATE_HOURS, "h")


def plain(flights: pd.DataFrame, observations: pd.DataFrame) -> pd.DataFrame:
    """The flights with what was observed last before they left, and with their aircraft and airports."""
    sides = (one.sort_values(by) for one, by in ((flights, "departed"), (observations, "observed")))
    found = pd.merge_asof(*sides, left_on="departed", right_on="observed", by="origin")
    found = found.merge(feed.table("planes")[["tailnum", "model"]], how="left", on="tailnum")
    return found.merge(feed.table("airports")[["faa", "name"]], how="left", left_on="dest", right_on="faa")


def differences(expected: pd.DataFrame, found: dict[str, Departure]) -> list[str]:
    """The flights that came out, but with another weather, aircraft or airport than they should have."""
    wrong = []
    departed = expected["departed"].dt.strftime("%Y-%m-%d %H:%M")
    wanted = expected[["observed", "model", "name"]].astype(object)
    wanted = wanted.where(wanted.notna(), None)
    numbers = zip(*(expected[column] for column in ("carrier", "flight", "origin")), departed, strict=True)
    for number, row in zip(numbers, wanted.itertuples(index=False, name=None), strict=True):
        key = " ".join(map(str, number))
        departure = found.get(key)
        if departure is None:
            continue
        got = (
            departure.weather and departure.weather.observed,
            departure.aircraft and departure.aircraft.model,
            departure.to,
        )
        if got != row:
            wrong.append(key)
    return wrong


@pytest.mark.slow
def test_the_year_equals_the_plain_computation_and_differs_without_versions_as_the_docs_say(tmp_path: Path):
    flights, observations = feed.read()[0], weather.observations()
    log = tmp_path / "log"
    weather.fill(log, flights, observations)
    for topic, topology in weather.ways.items():
        storage = open_storage(str(tmp_path / topic))
        application = LocalApplication(topology, topic, Settings(), FileLog(log), storage)
        application.run_until()
        application.close()
    found = newest(log, "departures-in-full", Departure)
    assert len(found) == 327_197  # those of the last six hours wait
    assert differences(plain(flights, observations), found) == []
    summaries = {"departures-in-full": weather.summary(found, observations)}
    for topic in ("departures-at-once", "departures-unversioned"):
        summaries[topic] = weather.summary(newest(log, topic, Departure), observations)
    assert summaries["departures-in-full"].startswith("327,197 with the weather in which they left, 0 with later, 0")
    assert list(summaries) == list(weather.ways)
    for topic, summary in summaries.items():
        shown = next(line for line in readme.page("examples.md").splitlines() if line.startswith(f"| `{topic}`"))
        figures = [cell.strip() for cell in shown.split("|")[3:-1]]
        assert summary == (
            f"{figures[0]} with the weather in which they left, {figures[1]} with later, {figures[2]} with earlier "
            f"weather; {figures[3]} in fog, {figures[4]} minutes late"
        )
