"""How long every aircraft is in service at a stretch: sessions of its flights out of New York (KIP-94).

An aircraft that leaves New York again within ten hours is still at work; after a longer pause its next flight begins
another session. A flight is filed when it lands, so it may come after others that left later. Each session is sent on
once, when it is over for good (KIP-328).

Run it: `python examples/flights/in_service.py [FOLDER]`; everything is kept in the folder, and made anew each time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec
import pandas as pd

import feed
from penstock import SessionWindows, StreamsBuilder, Suppressed, consume, produce_columns
from topology import Flight


class Service(msgspec.Struct, frozen=True):
    """What an aircraft did in one session."""

    flights: int = 0
    longest_delay: float = 0.0
    """In minutes."""


# The longest flight takes more than eleven hours. So much later it is filed, and it still may extend a session.
AT_WORK = SessionWindows.of_inactivity_gap_and_grace("10 hours", "12 hours")


def add(aircraft: str, flight: Flight, service: Service) -> Service:
    return Service(service.flights + 1, max(service.longest_delay, flight.dep_delay))


def join(aircraft: str, one: Service, other: Service) -> Service:
    return Service(one.flights + other.flights, max(one.longest_delay, other.longest_delay))


builder = StreamsBuilder()
flights = builder.stream("flights-by-aircraft", key=str, value=Flight)
sessions = flights.group_by_key().windowed_by(AT_WORK)
services = sessions.aggregate(Service, add, join, value=Service, store="services")
over = services.suppress(Suppressed.until_window_closes().with_name("over"))
over.to_stream().to("in-service")
topology = builder.build()


def fill(log: Path, flights: pd.DataFrame) -> None:
    """Write flights into the topic ``flights-by-aircraft``, keyed by their tail numbers."""
    produce_columns(flights, "flights-by-aircraft", key="tailnum", timestamp="departed", log=log, partitions=2)


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    log = folder / "log"
    flights, _ = feed.read()
    fill(log, flights)
    streams = topology.start(application_id="service", log=log, state_dir=folder / "state", trigger="available-now")
    streams.await_termination()
    over = list(consume("in-service", value=Service, log=log))
    print(f"{len(flights):,} flights were {len(over):,} sessions; they are in the topic in-service. The busiest:")
    for record in sorted(over, key=lambda record: -record.value.flights)[:5]:
        hours = (record.key.end - record.key.start) / 3_600_000
        print(f"  {record.key.key}: {record.value.flights} flights from New York in {hours:.1f} hours")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".penstock/in-service"))
