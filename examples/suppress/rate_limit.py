"""At most one update of a key in 30 seconds, as long as no more than 1000 keys change: the second program of KIP-328.

Run it with `penstock run examples/suppress/rate_limit.py` on a log with a topic `prices`.
"""

from penstock import BufferConfig, StreamsBuilder, Suppressed

builder = StreamsBuilder()
prices = builder.table("prices", key=str, value=str)
calm = prices.suppress(Suppressed.until_time_limit("30 s", BufferConfig.max_records(1000)))
calm.to_stream().to("calm-prices")
topology = builder.build()
