"""Sensors: the average of ten minutes, every five minutes, and one alert each time it goes above the limit.

In: `readings`, keyed by sensor; a reading that is sent twice counts once. Out: `averages`, when they are final, and
`alerts`, with the begin of the excursion. Run it with `penstock run sensors.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock import SessionWindows, StreamsBuilder, Suppressed, TimeWindows

LIMIT = 30.0


@dataclass(frozen=True)
class Reading:
    number: int
    celsius: float


@dataclass(frozen=True)
class Sum:
    readings: int = 0
    celsius: float = 0.0


def add(sensor: str, reading: Reading, sums: Sum) -> Sum:
    return Sum(sums.readings + 1, sums.celsius + reading.celsius)


builder = StreamsBuilder()
averages = (
    builder.stream("readings", key=str, value=Reading)
    .deduplicate_by_key_value("number", "10 minutes")
    .group_by_key()
    .windowed_by(TimeWindows.of_size_and_grace("10 minutes", "1 minute").advance_by("5 minutes"))
    .aggregate(Sum, add, value=Sum)
    .suppress(Suppressed.until_window_closes())
    .map_values(lambda sums: sums.celsius / sums.readings, value=float)
    .to_stream(lambda window, average: window.key, key=str)
)
averages.to("averages")

# Windows that are too hot, one behind the other, are a session; where it begins tells one excursion from the next.
(
    averages.filter(lambda sensor, average: average > LIMIT)
    .group_by_key()
    .windowed_by(SessionWindows.of_inactivity_gap_and_grace("9 minutes", "10 minutes"))
    .count()
    .to_stream()
    .filter(lambda excursion, count: count is not None)
    .map(lambda excursion, count: (excursion.key, excursion.start), key=str, value=int)
    .deduplicate_by_key_value(lambda sensor, begin: begin, "1 day")
    .to("alerts")
)
topology = builder.build()
