"""At most one notification to a user in 10 minutes: the last one wins.

In: `notifications`, keyed by user. Out: `to-send`. What is held back is bounded: beyond 100,000 users the one that
waits longest goes out early. Run it with `penstock run notifications.py`.
"""

from __future__ import annotations

from penstock import BufferConfig, StreamsBuilder, Suppressed

builder = StreamsBuilder()
(
    builder.table("notifications", key=str, value=str, store="last")
    .suppress(Suppressed.until_time_limit("10 minutes", BufferConfig.max_records(100_000)))
    .to_stream()
    .to("to-send")
)
topology = builder.build()
