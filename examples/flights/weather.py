"""The flights with the weather in which they left, and with their aircraft and where they went (KIP-914, KIP-213).

A flight comes in when it has landed, hours after it left, and in between the weather was observed again. Observations,
too, come late, each by up to five hours, and so in disorder. The weather is kept as a versioned table: a flight meets
what was observed last before it left. It waits six hours for that, so that no late observation is missed.

Run it: `python examples/flights/weather.py [FOLDER]`; everything is kept in the folder, and made anew each time.
"""

from __future__ import annotations

import shutil
import sys
from bisect import bisect_right
from collections import Counter
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

import feed
from penstock import Materialized, StreamsBuilder, Topology, produce_columns
from summary import newest

MOST_LATE_HOURS = 5
GRACE = "6 hours"
FOG_MILES = 1.0
VERSIONED = Materialized.as_versioned("weather", history_retention="2 days")


class Flight(msgspec.Struct, frozen=True):
    carrier: str
    flight: int
    tailnum: str
    dest: str
    dep_delay: float
    departed: datetime


class Observation(msgspec.Struct, frozen=True):
    """The weather at an airport."""

    observed: datetime
    temp: float
    wind_speed: float
    visib: float
    """How far one can see, in miles; ten at most."""


class Airport(msgspec.Struct, frozen=True):
    name: str


class Aircraft(msgspec.Struct, frozen=True):
    manufacturer: str
    model: str
    seats: int


class Departure(msgspec.Struct, frozen=True):
    """A flight with all that is known of it."""

    flight: Flight
    weather: Observation | None
    aircraft: Aircraft | None = None
    to: str | None = None


def with_weather(flight: Flight, weather: Observation | None) -> Departure:
    return Departure(flight, weather)


def with_aircraft(departure: Departure, aircraft: Aircraft | None) -> Departure:
    return msgspec.structs.replace(departure, aircraft=aircraft)


def with_airport(departure: Departure, airport: Airport | None) -> Departure:
    return msgspec.structs.replace(departure, to=airport and airport.name)


def number(origin: str, departure: Departure) -> str:
    flight = departure.flight
    return f"{flight.carrier} {flight.flight} {origin} {flight.departed:%Y-%m-%d %H:%M}"


def complete() -> Topology:
    """Each departure in full: the aircraft by its number, the airport by its code."""
    builder = StreamsBuilder()
    flights = builder.stream("flights", value=Flight)
    weather = builder.table("weather", value=Observation, materialized=VERSIONED)
    flown = flights.left_join(weather, with_weather, value=Departure, grace=GRACE).select_key(number).to_table()
    fleet = builder.table("planes", value=Aircraft)
    airports = builder.table("airports", value=Airport)
    in_full = flown.left_join(
        fleet, with_aircraft, value=Departure, foreign_key=lambda departure: departure.flight.tailnum
    ).left_join(airports, with_airport, value=Departure, foreign_key=lambda departure: departure.flight.dest)
    in_full.to_stream().to("departures-in-full")
    return builder.build()


def at_once(topic: str, kept: Materialized | None = None) -> Topology:
    """Only the weather, without waiting for it; not versioned if not told so."""
    builder = StreamsBuilder()
    flights = builder.stream("flights", value=Flight)
    weather = builder.table("weather", value=Observation, materialized=kept)
    flights.left_join(weather, with_weather, value=Departure).select_key(number).to(topic)
    return builder.build()


topology = complete()
ways = {
    "departures-in-full": topology,
    "departures-at-once": at_once("departures-at-once", VERSIONED),
    "departures-unversioned": at_once("departures-unversioned"),
}
"""The topics with the departures, and what makes them."""


# --- what goes in ----------------------------------------------------------------------------------------------------


def observations(seed: int = 1) -> pd.DataFrame:
    """The weather at the three airports in the order in which it comes in: one hour in five late."""
    weather = feed.table("weather")[["origin", "time_hour", "temp", "wind_speed", "visib"]].dropna()
    weather["observed"] = pd.to_datetime(weather.pop("time_hour"))
    rng = np.random.default_rng(seed)
    late = (rng.random(len(weather)) < 0.2) * rng.integers(0, MOST_LATE_HOURS * 60, len(weather))
    comes = weather["observed"] + feed.minutes(late)
    return weather.loc[comes.sort_values(kind="stable").index].reset_index(drop=True)


def fill(log: Path, flights: pd.DataFrame, weather: pd.DataFrame) -> None:
    """Write flights and weather, keyed by their airport, and all aircraft and airports."""
    feed.fill(log, flights)
    produce_columns(weather, "weather", key="origin", timestamp="observed", log=log, partitions=2)
    planes = feed.table("planes")[["tailnum", "manufacturer", "model", "seats"]]
    airports = feed.table("airports")[["faa", "name"]]
    produce_columns(planes.assign(at=0), "planes", key="tailnum", timestamp="at", log=log, partitions=2)
    produce_columns(airports.assign(at=0), "airports", key="faa", timestamp="at", log=log, partitions=2)


# --- what comes out --------------------------------------------------------------------------------------------------


def summary(departures: dict[str, Departure], weather: pd.DataFrame) -> str:
    """Whether the flights met the weather in which they left, and how late those left that met fog."""
    observed = ((airport, rows["observed"].sort_values()) for airport, rows in weather.groupby("origin"))
    latest = {airport: [hour.to_pydatetime() for hour in hours] for airport, hours in observed}
    met: Counter[str] = Counter()
    fog = []
    for key, departure in departures.items():
        flight, found = departure.flight, departure.weather
        hours = latest[key.split()[2]]
        before = bisect_right(hours, flight.departed)
        met[_compared(found, hours[before - 1] if before else None)] += 1
        if found is not None and found.visib < FOG_MILES:
            fog.append(flight.dep_delay)
    return (
        f"{met['right']:,} with the weather in which they left, {met['later']:,} with later, {met['earlier']:,} with "
        f"earlier weather; {len(fog):,} in fog, {np.mean(fog):.1f} minutes late"
    )


def _compared(found: Observation | None, expected: datetime | None) -> str:
    if found is None or expected is None:
        return "right" if found is expected else "earlier"
    if found.observed == expected:
        return "right"
    return "later" if found.observed > expected else "earlier"


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    log = folder / "log"
    flights, weather = feed.read()[0], observations()
    fill(log, flights, weather)
    for topic, built in ways.items():
        state = folder / topic
        built.start(application_id=topic, log=log, state_dir=state, trigger="available-now").await_termination()
        print(f"{topic}: {summary(newest(log, topic, Departure), weather)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".penstock/weather"))
