"""Functions of tables that take their record's context as one more argument (KS-08).

What such a function gave for a row cannot be worked out again when another record is at hand, so it is kept.
"""

from __future__ import annotations

import pytest

from penstock import Materialized, RecordContext, StreamsBuilder
from penstock.errors import TopologyError
from support.flows import Run

pytestmark = pytest.mark.kip("KS-08")

ROWS = [("a", 1, 10), ("b", 2, 11), ("a", 3, 12), ("b", None, 13), ("a", 4, 9)]


def place(value, context) -> str:
    return f"{value} at {context.offset}, {context.timestamp}"


def test_map_values_is_told_the_context_of_the_record_that_changed_the_row(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int).map_values(place).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        ("a", "1 at 0, 10", 10),
        ("b", "2 at 1, 11", 11),
        ("a", "3 at 2, 12", 12),
        ("b", None, 13),
        ("a", "4 at 4, 9", 9),
    ]


def test_map_values_of_key_and_value_may_ask_too(run: Run):
    builder = StreamsBuilder()
    mapped = builder.table("in", value=int).map_values(
        lambda key, value, at: [key, value, at.topic, at.partition], value=list
    )
    mapped.to_stream().to("out")
    assert run(builder, ROWS[:1]).output() == [("a", ["a", 1, "in", 0], 10)]


def test_filters_are_told_and_delete_what_held_before(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int)
    table.filter(lambda key, value, context: context.offset != 2).to_stream().to("out")
    table.filter_not(lambda key, value, context: context.offset != 2).to_stream().to("others")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("a", 1, 10),
        ("b", 2, 11),
        ("a", None, 12),
        ("b", None, 13),
        ("a", 4, 9),
    ]
    assert ran.output("others") == [
        ("a", None, 10),
        ("b", None, 11),
        ("a", 3, 12),
        ("b", None, 13),
        ("a", None, 9),
    ]


def test_a_group_takes_out_what_was_given_then_and_not_what_would_be_given_now(run: Run):
    builder = StreamsBuilder()
    places = builder.table("in", value=int).map_values(lambda value, context: value + 1000 * context.offset)
    grouped = places.group_by(lambda key, value: ("all", value), key=str, value=int)
    grouped.reduce(lambda total, value: total + value, lambda total, value: total - value).to_stream().to("out")
    assert [value for _, value, _ in run(builder, ROWS).output()] == [1, 1003, 3005, 2003, 4004]


def test_a_join_finds_what_was_given_then(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int).map_values(place)
    builder.stream("asked", value=int).join(table, lambda left, right: [left, right]).to("out")
    rows = [("in", "a", 1, 10), ("asked", "a", 7, 20), ("in", "a", 2, 30), ("asked", "a", 8, 40)]
    assert run(builder, rows).output() == [("a", [7, "1 at 0, 10"], 20), ("a", [8, "2 at 1, 30"], 40)]


def test_joins_of_tables_are_told_of_the_record_of_the_side_that_changed(run: Run):
    builder = StreamsBuilder()
    left, right = builder.table("left", value=int), builder.table("right", value=int)
    joined = left.outer_join(
        right, lambda one, other, context: f"{one}, {other}: {context.topic} {context.offset}", value=str
    )
    joined.to_stream().to("out")
    rows = [("left", "a", 1, 1), ("right", "a", 2, 2), ("left", "a", 3, 3), ("right", "a", None, 4)]
    assert run(builder, rows).output() == [
        ("a", "1, None: left 0", 1),
        ("a", "1, 2: right 0", 2),
        ("a", "3, 2: left 1", 3),
        ("a", "3, None: right 1", 4),
    ]


def test_behind_such_a_join_a_group_takes_out_what_was_given_then(run: Run):
    builder = StreamsBuilder()
    left, right = builder.table("left", value=int), builder.table("right", value=int)
    joined = left.join(right, lambda one, other, context: one + other + 1000 * context.timestamp, value=int)
    grouped = joined.group_by(lambda key, value: ("all", value), key=str, value=int)
    grouped.reduce(lambda total, value: total + value, lambda total, value: total - value).to_stream().to("out")
    rows = [("left", "a", 1, 1), ("right", "a", 2, 2), ("left", "a", 3, 3), ("right", "a", None, 4)]
    assert [value for _, value, _ in run(builder, rows).output()] == [2003, 3005, 0]


def test_a_joiner_by_a_foreign_key_is_told_of_the_message_that_brings_the_answer(run: Run):
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", value=str), builder.table("customers", value=str)
    joined = orders.join(
        customers,
        lambda order, customer, context: [customer, context.timestamp],
        foreign_key=lambda order: order,
        value=list,
    )
    joined.to_stream().to("out")
    rows = [("customers", "ann", "Ann", 1), ("orders", "1", "ann", 2), ("customers", "ann", "Anna", 3)]
    assert run(builder, rows).output() == [("1", ["Ann", 2], 2), ("1", ["Anna", 3], 3)]


def test_what_it_gives_is_kept_in_a_store_of_a_name_where_one_is_given(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int).map_values(place, store="places")
    assert run(builder, ROWS).store("places") == [("a", "4 at 4, 9", 9)]


def test_annotated_as_context_it_may_have_any_name(run: Run):
    def where(value: int, at: RecordContext) -> str:
        return f"{value} at {at.offset}"

    builder = StreamsBuilder()
    builder.table("in", value=int).map_values(where).to_stream().to("out")
    assert run(builder, ROWS[:1]).output() == [("a", "1 at 0", 10)]


def versioned(builder: StreamsBuilder):
    return builder.table("in", value=int, materialized=Materialized.as_versioned("in", history_retention="1 hour"))


def test_of_a_versioned_table_it_is_asked_whether_the_results_are_versioned():
    builder = StreamsBuilder()
    versioned(builder).map_values(place).to_stream().to("out")
    with pytest.raises(TopologyError, match=r"asks for the context.*To make the results versioned, too"):
        builder.build()


def test_of_a_versioned_table_results_are_kept_as_they_are_told_to(run: Run):
    builder = StreamsBuilder()
    kept = Materialized.as_versioned("places", history_retention="1 hour")
    table = versioned(builder).map_values(place, materialized=kept)
    builder.stream("asked", value=int).join(table, lambda left, right: right, value=str).to("out")
    rows = [("in", "a", 1, 10), ("in", "a", 2, 30), ("asked", "a", 0, 20), ("asked", "a", 0, 40)]
    assert run(builder, rows).output() == [("a", "1 at 0, 10", 20), ("a", "2 at 1, 30", 40)]


def test_where_a_row_was_cannot_depend_on_the_record():
    table = StreamsBuilder().table("in", value=int)
    asked_again = "it is asked again where a row was, when that changes, and then another record is at hand"
    with pytest.raises(TopologyError, match=rf"^group_by at .*test_functions_with_context.py:\d+ .*{asked_again}"):
        table.group_by(lambda value, context: ("k", value))
    with pytest.raises(TopologyError, match=rf"^join: foreign_key at .*{asked_again}"):
        table.join(table, lambda left, right: left, foreign_key=lambda value, context: value)


def test_a_complete_join_cannot_ask():
    table = versioned(StreamsBuilder())
    with pytest.raises(TopologyError, match="corrects past results, whose records are no longer known"):
        table.join(table, lambda left, right, context: left, versioned_join="complete")
