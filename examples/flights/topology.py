"""Departures and delays by airport and hour, and where every aircraft is.

Run it: `make demo`, or `penstock run examples/flights/topology.py:topology` on a log with a topic `flights`.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from penstock import StreamsBuilder, TimeWindows


class Flight(msgspec.Struct, frozen=True):
    """A flight that has landed, named as in the data set; its key is the airport it left, its time that of leaving."""

    carrier: str
    flight: int
    tailnum: str
    dest: str
    dep_delay: float
    """Minutes between the scheduled and the actual departure."""
    landed: datetime


class Departures(msgspec.Struct, frozen=True):
    """The departures of an airport in an hour."""

    flights: int = 0
    delay: float = 0.0

    @property
    def mean_delay(self) -> float:
        return self.delay / self.flights


class Aircraft(msgspec.Struct, frozen=True):
    """Where an aircraft is, and which flight brought it there."""

    airport: str
    flight: str
    landed: datetime


# A flight comes in when it has landed, after flights that left up to eleven hours later. Six hours of grace are enough
# for all but those to Honolulu; to wait for these too would keep nearly twice as many windows open.
HOURS = TimeWindows.of_size_and_grace("1 hour", "6 hours")


def add(airport: str, flight: Flight, hour: Departures) -> Departures:
    return Departures(hour.flights + 1, hour.delay + flight.dep_delay)


def arrival(airport: str, flight: Flight) -> tuple[str, Aircraft]:
    return flight.tailnum, Aircraft(flight.dest, f"{flight.carrier} {flight.flight}", flight.landed)


def later(one: Aircraft, other: Aircraft) -> Aircraft:
    return max(one, other, key=lambda aircraft: aircraft.landed)


builder = StreamsBuilder()
flights = builder.stream("flights", key=str, value=Flight)
departures = flights.group_by_key().windowed_by(HOURS).aggregate(Departures, add, store="departures")
departures.to_stream().to("departures")
aircraft = flights.map(arrival).group_by_key(name="by-tailnum").reduce(later, store="aircraft")
aircraft.to_stream().to("aircraft")
topology = builder.build()
