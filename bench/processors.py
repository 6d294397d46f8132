"""Jobs with processors of the user's own: a get, a put and a forward for each record."""

from __future__ import annotations

from typing import Any

from penstock import STREAM_TIME, Processor, ProcessorContext, Record, Stores, StreamsBuilder, Topology

MINUTE = 60_000
RETENTION = "20 minutes"
"""Longer than records are late, so that every one counts."""


class Counter(Processor[str, bytes]):
    """Counts the records of each key."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._counts: Any = context.get_state_store("counts")

    def process(self, record: Record) -> None:
        count = (self._counts.get(record.key) or 0) + 1
        self._counts.put(record.key, count)
        self._context.forward(record.with_value(f'{{"n":{count}}}'))


class WindowCounter(Processor[str, bytes]):
    """Counts the records of each key in windows of a minute, and forwards a record each second of stream time."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._counts: Any = context.get_state_store("counts")
        context.schedule("1 s", STREAM_TIME, self._tick)

    def _tick(self, now: int) -> None:
        self._context.forward(Record("tick", '{"w":0,"n":0}', now))

    def process(self, record: Record) -> None:
        start = record.timestamp - record.timestamp % MINUTE
        count = (self._counts.get(record.key, start) or 0) + 1
        self._counts.put(record.key, count, start)
        self._context.forward(record.with_value(f'{{"w":{start},"n":{count}}}'))


def w10(source: str, sink: str) -> Topology:
    """A count for each key in a key-value store."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), str, int))
    builder.stream(source, key=str, value=bytes).process(Counter, "counts", value=str).to(sink)
    return builder.build()


def w11(source: str, sink: str) -> Topology:
    """A count for each key and minute in a window store, and a punctuation each second of stream time."""
    builder = StreamsBuilder()
    store = Stores.persistent_window_store("counts", RETENTION, MINUTE)
    builder.add_state_store(Stores.window_store_builder(store, str, int))
    builder.stream(source, key=str, value=bytes).process(WindowCounter, "counts", value=str).to(sink)
    return builder.build()
