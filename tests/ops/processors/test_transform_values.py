"""``KTable.transform_values``: what a transformer is asked for, its stores, and what it may not do."""

import pytest

from penstock import (
    STREAM_TIME,
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
    with pytest.raises(TopologyError, match="connected to a store 'counts', which is not added yet"):
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


class SchedulingFirst(Labelled):
    def init(self, context):
        context.schedule("1 s", STREAM_TIME, print)


class SchedulingLater(Labelled):
    def init(self, context):
        self.context = context

    def transform(self, key, value):
        self.context.schedule("1 s", STREAM_TIME, print)
        return "scheduled"


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (Forwarding, "cannot forward; it returns the value"),
        (ForwardingFirst, "cannot forward; it returns the value"),
        (SchedulingFirst, "cannot schedule punctuations, .*; use table.to_stream"),
        (SchedulingLater, "cannot schedule punctuations, .*; use table.to_stream"),
    ],
)
def test_a_transformer_neither_forwards_nor_schedules(run: Run, transformer, message):
    with pytest.raises(ProcessingError, match=f"labels: a transformer of transform_values {message}"):
        run(transformed(transformer, name="labels"), ROWS).output()


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
