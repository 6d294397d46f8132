"""The departures of every hour once it is over for good, and an alert for hours that went badly (KIP-328).

The departures of `topology.py` are updated with every flight that lands; who sends messages or settles accounts wants
each hour once. It is final when its window closes, six hours later, and nothing is sent before.

Run it: `penstock run examples/flights/final.py:topology` on a log with a topic `flights`.
"""

from __future__ import annotations

from penstock import BufferConfig, StreamsBuilder, Suppressed, Windowed
from topology import HOURS, Departures, Flight, add

MANY = 10
LATE_MINUTES = 60.0


def is_bad(hour: Windowed, departures: Departures) -> bool:
    return departures.flights >= MANY and departures.mean_delay >= LATE_MINUTES


def alert(hour: Windowed, departures: Departures) -> str:
    return f"{departures.flights} flights left {hour.key} {departures.mean_delay:.0f} minutes late on average"


builder = StreamsBuilder()
flights = builder.stream("flights", key=str, value=Flight)
departures = flights.group_by_key().windowed_by(HOURS).aggregate(Departures, add, value=Departures)
room = BufferConfig.max_bytes("5 MB").spill_to_disk_when_full()
final = departures.suppress(Suppressed.until_window_closes(room).with_name("final-departures")).to_stream()
final.to("final-departures")
final.filter(is_bad).map_values(alert, value=str).to("alerts")
topology = builder.build()
