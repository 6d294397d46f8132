"""Topologies with processors: their stores, those of tables, punctuations, and steps behind that see the order."""

from __future__ import annotations

from typing import Any

from penstock import (
    STREAM_TIME,
    BufferConfig,
    Materialized,
    Processor,
    Record,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    ValueAndTimestamp,
    ValueTransformerWithKey,
)
from support.topologies import example, letter, pair, stream, table


class Counter(Processor[Any, Any]):
    """Forwards how often it saw a key, and as time goes on all counts; those of three and more begin anew then."""

    every: Any = None

    def init(self, context: Any) -> None:
        self.context = context
        self.counts = context.get_state_store("counts")
        if self.every:
            context.schedule(self.every, STREAM_TIME, self.tell)

    def process(self, record: Any) -> None:
        if record.key is not None:
            count = (self.counts.get(record.key) or 0) + 1
            self.counts.put(record.key, count)
            self.context.forward(record.with_value(count))

    def tell(self, now: int) -> None:
        for key, count in self.counts.all():
            self.context.forward(Record(key, -count, now))
            if count >= 3:
                self.counts.delete(key)


class CounterThatTells(Counter):
    every = 7


class TimestampedCounter(Processor[Any, Any]):
    """The same in a store that has the time of each count."""

    def init(self, context: Any) -> None:
        self.context = context
        self.counts = context.get_state_store("counts")
        context.schedule(5, STREAM_TIME, self.tell)
        context.schedule(15, STREAM_TIME, self.tell)

    def process(self, record: Any) -> None:
        if record.key is not None:
            before = self.counts.get(record.key) or ValueAndTimestamp(0, 0)
            self.counts.put(record.key, ValueAndTimestamp(before.value + 1, record.timestamp))
            self.context.forward(record.with_value(before.value).with_timestamp(before.timestamp))

    def tell(self, now: int) -> None:
        for key, (count, at) in self.counts.reverse_all():
            self.context.forward(Record(key, count, at))
        self.context.forward(Record("now", now, self.context.current_stream_time_ms))


class Once(Processor[Any, Any]):
    """Has a record called out later, once."""

    def init(self, context: Any) -> None:
        self.context = context
        self.left = 3
        self.scheduled = context.schedule(10, STREAM_TIME, self.tell)

    def process(self, record: Any) -> None:
        self.context.forward(record.with_value(self.context.current_stream_time_ms))

    def tell(self, now: int) -> None:
        self.context.forward(Record("once", now, now))
        if now >= 30:
            self.scheduled.cancel()


def counts(builder: StreamsBuilder, in_memory: bool = False, timestamped: bool = False) -> None:
    supplier = (Stores.in_memory_key_value_store if in_memory else Stores.persistent_key_value_store)("counts")
    build = Stores.timestamped_key_value_store_builder if timestamped else Stores.key_value_store_builder
    builder.add_state_store(build(supplier, str, int))


@example
def processor(builder: StreamsBuilder) -> None:
    counts(builder)
    stream(builder).process(Counter, "counts", value=int).to("out")


@example
def processor_with_punctuations(builder: StreamsBuilder) -> None:
    counts(builder, in_memory=True)
    stream(builder).process(CounterThatTells, "counts", value=int).to("out")


@example
def processor_of_timestamped_values(builder: StreamsBuilder) -> None:
    counts(builder, timestamped=True)
    stream(builder).process(TimestampedCounter, "counts", value=int).to("out")


@example
def processor_that_cancels_its_punctuation(builder: StreamsBuilder) -> None:
    stream(builder).process(Once, value=int).to("out")


@example
def processors_of_one_topic_that_share_a_store(builder: StreamsBuilder) -> None:
    counts(builder)
    numbers = stream(builder)
    numbers.process(CounterThatTells, "counts", value=int).to("out")
    numbers.filter(lambda key, value: value != 2).process(Counter, "counts", value=int).to("others")


@example
def processors_of_two_topics_that_share_a_store(builder: StreamsBuilder) -> None:
    counts(builder)
    stream(builder).process(Counter, "counts", value=int).to("out")
    stream(builder, "other").process(CounterThatTells, "counts", value=int).to("others")


@example
def processors_one_behind_the_other_that_share_a_store(builder: StreamsBuilder) -> None:
    counts(builder)
    first = stream(builder).process(CounterThatTells, "counts", value=int)
    first.process(Counter, "counts", value=int).to("out")


@example
def processors_behind_a_new_key(builder: StreamsBuilder) -> None:
    counts(builder)
    told = stream(builder).process(CounterThatTells, "counts", value=int)
    told.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 5)).count("windows").to_stream().to("out")


@example
def processor_that_sends_to_one_of_its_children(builder: StreamsBuilder) -> None:
    def route(record: Any, context: Any) -> None:
        context.forward(record, child=None if record.value is None else ("even", "odd")[record.value % 2])

    routed = stream(builder).process(route)
    routed.process(lambda record, context: context.forward(record), value=int, name="even").to("even")
    routed.process(lambda record, context: context.forward(record), value=int, name="odd").to("odd")
    routed.to("out")


@example
def processor_that_reads_a_table(builder: StreamsBuilder) -> None:
    def look_up(record: Any, context: Any) -> None:
        row = record.key and context.get_state_store("rows").get(record.key)
        context.forward(record.with_value([record.value, *(row or ())]))

    rows = builder.table("other", value=int, store="rows")
    stream(builder).process(look_up, "rows", value=list).to("out")
    rows.to_stream().process(look_up, "rows", value=list).to("again")


@example
def processor_that_writes_a_table(builder: StreamsBuilder) -> None:
    def write(record: Any, context: Any) -> None:
        if record.key is not None:
            value = None if record.value is None else ValueAndTimestamp(record.value * 100, record.timestamp)
            context.get_state_store("rows").put(record.key, value)

    rows = builder.table("other", value=int, materialized=Materialized.as_("rows").with_caching_disabled())
    stream(builder).process(write, "rows", value=int).to("nowhere")
    stream(builder).left_join(rows, pair, value=str).to("out")
    rows.to_stream().to("updates")


@example
def processor_that_reads_a_global_store(builder: StreamsBuilder) -> None:
    def keep(record: Any, context: Any) -> None:
        if record.key is not None:
            context.get_state_store("cities").put(record.key, record.value)

    def look_up(record: Any, context: Any) -> None:
        context.forward(record.with_value([record.value, context.get_state_store("cities").get("a")]))

    cities = Stores.key_value_store_builder(Stores.in_memory_key_value_store("cities"), str, int)
    builder.add_global_store(cities, "other", keep, value=int)
    stream(builder).process(look_up, value=list).to("out")


class Later(Processor[Any, Any]):
    """Forwards a record, and the same somewhat later; now and then the time."""

    every: Any = None

    def init(self, context: Any) -> None:
        self.context = context
        if self.every:
            context.schedule(self.every, STREAM_TIME, lambda now: context.forward(Record("now", now, now)))

    def process(self, record: Any) -> None:
        self.context.forward(record)
        self.context.forward(record.with_timestamp(record.timestamp + 7 * max(record.value or 0, 0)))


class LaterThatTells(Later):
    every = 5


@example
def punctuations_between_two_records_of_one_cause(builder: StreamsBuilder) -> None:
    counts(builder)
    later = stream(builder).process(Later, key=str, value=int)
    told = later.select_key(letter, key=str).repartition().process(CounterThatTells, "counts", value=int)
    told.to("out")
    told.repartition().process(LaterThatTells, key=str, value=int).to("later")


@example
def punctuations_of_a_group_between_two_records_of_one_cause(builder: StreamsBuilder) -> None:
    counts(builder)
    later = stream(builder).process(Later, key=str, value=int).select_key(letter, key=str).repartition()
    later.process(CounterThatTells, "counts", value=int).to("out")
    later.process(Counter, "counts", value=int).to("others")


@example
def processor_of_values(builder: StreamsBuilder) -> None:
    counts(builder)
    counted = stream(builder).process_values(Counter, "counts", value=int)
    counted.process_values(lambda record, context: [context.forward(record)] * 2).to("out")
    counted.group_by_key().reduce(lambda total, n: total * 10 + n, "totals").to_stream().to("totals")


class Labelled(ValueTransformerWithKey[Any, Any]):
    """Has no state of its own: its results are the same whoever asks, and however often."""

    def init(self, context: Any) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        return None if value in (None, 3) else f"{key}: {value}"


class LabelledWithDeletions(Labelled):
    def transform(self, key: Any, value: Any) -> Any:
        return f"{key}: {value}"


@example
def transformed_table_with_deletions(builder: StreamsBuilder) -> None:
    labels = table(builder, store="rows").transform_values(LabelledWithDeletions, value=str)
    labels.to_stream().to("out")


@example
def transformed_table(builder: StreamsBuilder) -> None:
    labels = table(builder, store="rows").transform_values(Labelled, value=str)
    labels.to_stream().to("out")
    stream(builder, "other").left_join(labels, pair, value=str).to("joined")


@example
def transformed_table_with_a_store(builder: StreamsBuilder) -> None:
    labels = table(builder).transform_values(Labelled, value=str, store="labels")
    labels.group_by(lambda key, value: (value[-1], value), value=str).count("lengths").to_stream().to("out")


@example
def transformed_table_that_counts_its_updates(builder: StreamsBuilder) -> None:
    class Numbered(ValueTransformerWithKey[Any, Any]):
        def init(self, context: Any) -> None:
            self.counts = context.get_state_store("counts")

        def transform(self, key: Any, value: Any) -> Any:
            self.counts.put(key, (self.counts.get(key) or 0) + 1)
            return f"{value}#{self.counts.get(key)}"

    counts(builder)
    numbered = table(builder).transform_values(Numbered, "counts", value=str, store="numbered")
    numbered.suppress(Suppressed.until_time_limit(3, BufferConfig.unbounded())).to_stream().to("out")


@example
def transformed_table_that_begins_anew_now_and_then(builder: StreamsBuilder) -> None:
    class SinceTheLastCall(ValueTransformerWithKey[Any, Any]):
        def init(self, context: Any) -> None:
            self.counts = context.get_state_store("counts")
            context.schedule(3, STREAM_TIME, lambda now: self.counts.put("since", 0))

        def transform(self, key: Any, value: Any) -> Any:
            self.counts.put("since", (self.counts.get("since") or 0) + 1)
            return f"{value}#{self.counts.get('since')}"

    counts(builder)
    table(builder).transform_values(SinceTheLastCall, "counts", value=str).to_stream().to("out")
