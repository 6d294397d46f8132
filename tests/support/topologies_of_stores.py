"""Topologies with processors that read and write every kind of store; they are among the examples of ``topologies``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import (
    AggregationWithHeaders,
    Processor,
    Record,
    SessionKey,
    Stores,
    StreamsBuilder,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from support.topologies import example, stream

Step = Callable[[Any, Record], Any]
"""What a processor does with its store at a record, and what it says of it."""


def with_store(builder: StreamsBuilder, store: Any, step: Step) -> None:
    """A processor that forwards what it says of its store, as text."""

    class Stepping(Processor):
        def init(self, context: Any) -> None:
            self.context = context
            self.store = context.get_state_store(store.name)

        def process(self, record: Record) -> None:
            if record.key is not None:
                self.context.forward(record.with_value(repr(step(self.store, record))))

    builder.add_state_store(store)
    stream(builder).process(Stepping, store.name, value=str).to("out")


@example
def key_value_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        before = (
            store.get(record.key),
            store.put_if_absent(record.key, record.value),
            list(store.range(None, record.key)),
        )
        if record.timestamp % 5 == 0:
            return before, store.delete(record.key)
        store.put(record.key, (store.get(record.key) or 0) + 1)
        return before, [key for key, _ in store.reverse_all()]

    with_store(builder, Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), str, int), step)


@example
def lru_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        before = store.get(record.key)
        store.put(record.key, ValueAndTimestamp(record.value or 0, record.timestamp))
        return before, list(store.all())

    with_store(builder, Stores.timestamped_key_value_store_builder(Stores.lru_map("s", 2), str, int), step)


@example
def window_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        start = record.timestamp // 10 * 10
        count = store.get(record.key, start) or 0
        store.put(record.key, count + 1, start)
        return count, list(store.fetch(record.key, start - 20, start)), len(list(store.backward_all()))

    supplier = Stores.persistent_window_store("s", 100, 10, segment_interval=30)
    with_store(builder, Stores.window_store_builder(supplier, str, int), step)


@example
def duplicate_window_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        start = record.timestamp // 10 * 10
        store.put(record.key, ValueAndTimestamp(record.value or 0, record.timestamp), start)
        return store.get(record.key, start), list(store.backward_fetch(record.key)), list(store.fetch_all(start, start))

    supplier = Stores.in_memory_window_store("s", 100, 10, retain_duplicates=True)
    with_store(builder, Stores.timestamped_window_store_builder(supplier, str, int), step)


@example
def session_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        time = record.timestamp
        merged = list(store.find_sessions(record.key, time - 5, time + 5))
        for session, _ in merged:
            store.remove(session)
        start = min([time, *(session.start for session, _ in merged)])
        end = max([time, *(session.end for session, _ in merged)])
        store.put(SessionKey(record.key, start, end), 1 + sum(count for _, count in merged))
        return merged, list(store.backward_fetch(record.key))

    supplier = Stores.persistent_session_store("s", 100, segment_interval=30)
    with_store(builder, Stores.session_store_builder(supplier, str, int), step)


@example
def versioned_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        time = record.timestamp
        if time % 7 == 0:
            return store.delete(record.key, time), store.get(record.key)
        return store.put(record.key, record.value, time), store.get(record.key), store.get(record.key, max(time - 9, 0))

    supplier = Stores.persistent_versioned_key_value_store("s", 100, 20)
    with_store(builder, Stores.versioned_key_value_store_builder(supplier, str, int), step)


def headers_of(record: Record) -> tuple[tuple[str, bytes], ...]:
    """Some for two records of three, which follow from the record."""
    return (("n", b"%d" % record.timestamp), ("n", b"")) if record.timestamp % 3 else ()


@example
def headed_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        before = store.get(record.key), list(store.range(None, record.key))
        if record.timestamp % 5 == 0:
            return before, store.delete(record.key)
        store.put(record.key, ValueTimestampHeaders(record.value or 0, record.timestamp, headers_of(record)))
        return before

    supplier = Stores.persistent_timestamped_key_value_store_with_headers("s")
    with_store(builder, Stores.timestamped_key_value_store_with_headers_builder(supplier, str, int), step)


@example
def headed_window_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        start = record.timestamp // 10 * 10
        before = store.get(record.key, start), list(store.backward_fetch_all(start - 20, start))
        store.put(record.key, ValueTimestampHeaders(record.value or 0, record.timestamp, headers_of(record)), start)
        return before

    supplier = Stores.persistent_timestamped_window_store_with_headers("s", 100, 10, segment_interval=30)
    with_store(builder, Stores.timestamped_window_store_with_headers_builder(supplier, str, int), step)


@example
def headed_session_records(builder: StreamsBuilder) -> None:
    def step(store: Any, record: Record) -> Any:
        time = record.timestamp
        merged = list(store.find_sessions(record.key, time - 5, time + 5))
        for session, _ in merged:
            store.remove(session)
        start = min([time, *(session.start for session, _ in merged)])
        end = max([time, *(session.end for session, _ in merged)])
        count = 1 + sum(row.aggregation for _, row in merged)
        store.put(SessionKey(record.key, start, end), AggregationWithHeaders(count, headers_of(record)))
        return merged, list(store.fetch(record.key))

    supplier = Stores.persistent_session_store_with_headers("s", 100, segment_interval=30)
    with_store(builder, Stores.session_store_with_headers_builder(supplier, str, int), step)
