"""``KTable.transform_values``: what a transformer is asked for, its stores, and what it may not do."""

import pytest

from penstock import (
    STREAM_TIME,
    WALL_CLOCK_TIME,
    Materialized,
    ProcessingError,
    Record,
    Stores,
    StreamsBuilder,
    TopologyError,
    ValueTransformerWithKey,
)
from penstock.testing import TopologyTestDriver
from support.flows import Run

pytestmark = pytest.mark.kip("KS-04")

ROWS = [("a", 1, 10), ("b", 2, 20), ("a", 3, 30), ("b", None, 40)]


class Labelled(ValueTransformerWithKey):
    def transform(self, key, value):
        return "none" if value is None else f"{key}: {value}"


class Numbered(ValueTransformerWithKey):
    """How often it was asked for a key, in a store."""

    def init(self, context):
        self.counts = context.get_state_store("counts")

    def transform(self, key, value):
        count = (self.counts.get(key) or 0) + 1
        self.counts.put(key, count)
        return f"{value}#{count}"


def transformed(transformer, *stores, **how):
    builder = StreamsBuilder()
    if stores:
        counts = Stores.persistent_key_value_store("counts")
        builder.add_state_store(Stores.key_value_store_builder(counts, str, int))
    table = builder.table("in", value=int).transform_values(transformer, *stores, value=str, **how)
    table.to_stream().to("out")
    return builder


def test_a_transformer_makes_the_values_of_rows_and_is_asked_for_deletions_too(run: Run):
    assert run(transformed(Labelled), ROWS).output() == [
        ("a", "a: 1", 10),
        ("b", "b: 2", 20),
        ("a", "a: 3", 30),
        ("b", "none", 40),
    ]


def test_what_it_makes_is_kept_in_a_store_when_asked_for(run: Run):
    ran = run(transformed(Labelled, store="labels"), ROWS)
    assert ran.store("labels") == [("a", "a: 3", 30), ("b", "none", 40)]


def test_a_transformer_reads_what_it_wrote_into_its_store(run: Run):
    ran = run(transformed(Numbered, "counts"), ROWS)
    assert ran.output() == [("a", "1#1", 10), ("b", "2#1", 20), ("a", "3#2", 30), ("b", "None#2", 40)]


def test_a_store_that_a_transformer_is_not_connected_to_is_refused():
    with pytest.raises(ProcessingError, match="is not connected to a store 'counts'; its stores: none"):
        TopologyTestDriver(transformed(Numbered).build())


def test_a_transformers_store_that_nobody_added_is_refused_when_the_topology_is_built():
    builder = StreamsBuilder()
    builder.table("in", value=int).transform_values(Numbered, "counts").to_stream().to("out")
    with pytest.raises(TopologyError, match="names a store 'counts' that does not exist"):
        builder.build()


class Forwarding(Labelled):
    def init(self, context):
        self.context = context

    def transform(self, key, value):
        self.context.forward(Record(key, value, 1))
        return "forwarded"


class ForwardingFirst(Labelled):
    def init(self, context):
        context.forward(Record("a", 1, 1))


class SchedulingLater(Labelled):
    def init(self, context):
        self.context = context

    def transform(self, key, value):
        self.context.schedule("1 s", STREAM_TIME, print)
        return "scheduled"


class ForwardingInAPunctuation(Labelled):
    def init(self, context):
        context.schedule("1 ms", STREAM_TIME, lambda now: context.forward(Record("a", 1, now)))


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (Forwarding, "cannot forward; return the value instead"),
        (ForwardingFirst, "cannot forward; return the value instead"),
        (ForwardingInAPunctuation, "cannot forward; return the value instead"),
        (SchedulingLater, "may schedule punctuations only in init, not while it makes a value"),
    ],
)
def test_a_transformer_does_not_forward_and_schedules_in_init_only(run: Run, transformer, message):
    with pytest.raises(ProcessingError, match=f"labels: a transformer of transform_values {message}"):
        run(transformed(transformer, name="labels"), ROWS).output()


# --- punctuations ----------------------------------------------------------------------------------------------------


class Epochs(ValueTransformerWithKey):
    """Says with each value how many values there were since the last call, and at which times there were calls."""

    type = STREAM_TIME

    def init(self, context):
        self.counts = context.get_state_store("counts")
        context.schedule("10 ms", self.type, self.tick)

    def tick(self, now):
        self.counts.put(f"call {now}", 1)
        self.counts.put("since", 0)

    def transform(self, key, value):
        since = (self.counts.get("since") or 0) + 1
        self.counts.put("since", since)
        return f"{value}#{since}"


def test_stream_time_calls_come_between_the_rows_that_move_time_on_and_the_next(run: Run):
    """The first at the first row; calls tell stream time, and time may jump over some."""
    rows = [("a", 1, 3), ("b", 2, 9), ("c", 3, 12), ("d", 4, 47), ("e", 5, 20), ("f", 6, 49), ("g", 7, 50)]
    ran = run(transformed(Epochs, "counts"), rows)
    assert ran.output() == [
        ("a", "1#1", 3),
        ("b", "2#1", 9),
        ("c", "3#2", 12),
        ("d", "4#1", 47),
        ("e", "5#1", 20),
        ("f", "6#2", 49),
        ("g", "7#3", 50),
    ]
    calls = [(f"call {now}", 1) for now in (12, 3, 47, 50)]
    assert [row[:2] for row in ran.store("counts")] == [*calls, ("since", 0)]


def test_rows_that_do_not_reach_the_transformer_move_its_time_on_too(run: Run):
    builder = StreamsBuilder()
    counts = Stores.persistent_key_value_store("counts")
    builder.add_state_store(Stores.key_value_store_builder(counts, str, int))
    table = builder.stream("in", value=int).filter(lambda key, value: key == "a").to_table()
    table.transform_values(Epochs, "counts", value=str).to_stream().to("out")
    ran = run(builder, [("a", 1, 3), ("a", 2, 4), ("b", 3, 15), ("a", 4, 16), ("b", 5, 30)])
    assert ran.output() == [("a", "1#1", 3), ("a", "2#1", 4), ("a", "4#1", 16)]
    assert [row[0] for row in ran.store("counts")] == ["call 15", "call 3", "call 30", "since"]


def test_wall_clock_calls_come_when_the_clock_is_set_on():
    class ByTheClock(Epochs):
        type = WALL_CLOCK_TIME

    with TopologyTestDriver(transformed(ByTheClock, "counts").build()) as driver:
        driver.pipe_input("in", "a", 1, 0)
        began = driver.store("counts").get("since")
        driver.advance_wall_clock_time("10 ms")
        assert (began, driver.store("counts").get("since")) == (1, 0)


def test_a_call_that_raises_is_told_with_the_step(run: Run):
    class Raising(Labelled):
        def init(self, context):
            context.schedule("10 ms", STREAM_TIME, lambda now: 1 // 0)

    with pytest.raises(ProcessingError, match=r"labels.*ZeroDivisionError"):
        run(transformed(Raising, name="labels"), ROWS).output()


def test_one_that_is_looked_into_without_a_store_of_its_own_is_refused():
    builder = transformed(Labelled)
    table = builder.table("t", value=int).transform_values(Epochs, "counts", value=str)
    counts = Stores.persistent_key_value_store("counts")
    builder.add_state_store(Stores.key_value_store_builder(counts, str, int))
    builder.stream("s", value=int).join(table, lambda one, other: other, value=str).to("joined")
    with pytest.raises(ProcessingError, match=r"other steps read its table without a store.*store="):
        TopologyTestDriver(builder.build())


def test_a_row_whose_transformer_raises_is_left_out(run: Run):
    class NotOfB(ValueTransformerWithKey):
        def transform(self, key, value):
            if key == "b":
                raise ValueError("no b please")
            return str(value)

    ran = run(transformed(NotOfB, name="labels"), ROWS, on_error="skip")
    assert ran.output() == [("a", "1", 10), ("a", "3", 30)]
    assert ran.counted("skipped-records-total") == {("labels", "ValueError"): 2}


def test_each_task_closes_its_transformer():
    closed = []

    class Closing(Labelled):
        def close(self):
            closed.append("closed")

    TopologyTestDriver(transformed(Closing).build()).close()
    assert closed == ["closed"]


@pytest.mark.kip("KS-11")
def test_a_materialized_may_stand_in_front_of_the_stores_names_as_in_kafka_streams(run: Run):
    builder = StreamsBuilder()
    counts = Stores.persistent_key_value_store("counts")
    builder.add_state_store(Stores.key_value_store_builder(counts, str, int))
    table = builder.table("t", value=int)
    table.transform_values(Labelled, Materialized.as_("labels"), "counts", value=str)
    ran = run(builder, [("t", "a", 1, 10)])
    assert [key for key, *_ in ran.store("labels")] == ["a"]
    with pytest.raises(TopologyError, match="give materialized= once"):
        table.transform_values(Labelled, Materialized.as_("labels"), materialized=Materialized.as_("more"))
