"""An alert for every user with fewer than three events in an hour, ten minutes after it: the first program of KIP-328.

Run it with `penstock run examples/suppress/too_quiet.py` on a log with a topic `events`.
"""

from penstock import StreamsBuilder, Suppressed, TimeWindows, Windowed

ENOUGH = 3


def alert(hour: Windowed, count: int) -> tuple[str, str]:
    return hour.key, f"{count} events in the hour from {hour.start}"


builder = StreamsBuilder()
events = builder.stream("events", key=str, value=str)
counts = events.group_by_key().windowed_by(TimeWindows.of_size_and_grace("1 hour", "10 min")).count()
# An alert cannot be taken back, so only final counts will do. In limited memory, give until_window_closes a
# BufferConfig.max_bytes("5 MB"), and end it with .shut_down_when_full() or .spill_to_disk_when_full().
final = counts.suppress(Suppressed.until_window_closes())
final.to_stream().filter(lambda hour, count: count < ENOUGH).map(alert, key=str, value=str).to("alerts")
topology = builder.build()
