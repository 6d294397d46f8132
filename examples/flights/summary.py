"""What came out: read from the output topics, as any other program would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.table import Table

from penstock import Windowed, consume
from penstock.figures.metrics import Metric, total
from topology import Aircraft, Departures

NEW_YORK = ZoneInfo("America/New_York")
ENOUGH = 10  # the mean delay of fewer departures says little

Hours = list[tuple[Windowed, Departures]]


def newest(log: Path, topic: str, value: type) -> dict[Any, Any]:
    """The newest value of each key of a topic."""
    return {record.key: record.value for record in consume(topic, value=value, log=log)}


def busiest(hours: Hours, count: int) -> Hours:
    return sorted(hours, key=lambda hour: (-hour[1].flights, hour[0].start, hour[0].key))[:count]


def most_delayed(hours: Hours, count: int) -> Hours:
    known = [hour for hour in hours if hour[1].flights >= ENOUGH]
    return sorted(known, key=lambda hour: (-hour[1].mean_delay, hour[0].start, hour[0].key))[:count]


def late(metrics: Mapping[Metric, float]) -> int:
    """How many records came after their window had closed, and were dropped."""
    return int(total(metrics, "late-record-drop-total"))


def show(console: Console, log: Path, records: int, metrics: Mapping[Metric, float]) -> None:
    """Print what a run found out."""
    hours = list(newest(log, "departures", Departures).items())
    aircraft = newest(log, "aircraft", Aircraft)
    console.print(table("The busiest hours", busiest(hours, 5)))
    console.print(table(f"The most delayed hours with {ENOUGH} departures or more", most_delayed(hours, 5)))
    airports = Counter(one.airport for one in aircraft.values()).most_common(4)
    last_seen = ", ".join(f"{airport} ({count})" for airport, count in airports)
    console.print(f"{len(aircraft):,} aircraft, last seen at {last_seen} and elsewhere.")
    console.print(
        f"{late(metrics):,} of {records:,} flights landed after the grace period of their hour: dropped, and counted."
    )


def table(title: str, hours: Hours) -> Table:
    found = Table("airport", "hour in New York", title=title, title_justify="left")
    found.add_column("departures", justify="right")
    found.add_column("mean delay", justify="right")
    for window, value in hours:
        hour = datetime.fromtimestamp(window.start / 1000, UTC).astimezone(NEW_YORK)
        found.add_row(window.key, f"{hour:%a %d %b %Y, %H:00}", str(value.flights), f"{value.mean_delay:.1f} min")
    return found
