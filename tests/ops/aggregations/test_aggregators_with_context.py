"""Reducers, aggregators and mergers that take their record's context as one more argument (KS-08)."""

from __future__ import annotations

import pytest

from penstock import RecordContext, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from penstock.errors import ProcessingError, TopologyError
from penstock.testing import TopologyTestDriver
from support.flows import Run, source, windowed

pytestmark = pytest.mark.kip("KS-08")

ROWS = [("a", 1, 10), ("b", 2, 11), ("a", 3, 5), (None, 4, 6), ("a", 5, 30), ("b", None, 31), ("b", 6, 32)]


def seen(key, value, places, context):
    """The values of a key, each with its offset and time."""
    return [*places, f"{value} at {context.offset}, {context.timestamp}"]


def seen_by_both(key, one, other, context):
    return [*one, f"(merged at {context.offset})", *other]


def test_an_aggregator_is_told_the_context_of_the_record_that_it_adds(run: Run):
    builder, stream = source(value=int)
    stream.group_by_key().aggregate(list, seen).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        ("a", ["1 at 0, 10"], 10),
        ("b", ["2 at 1, 11"], 11),
        ("a", ["1 at 0, 10", "3 at 2, 5"], 10),
        ("a", ["1 at 0, 10", "3 at 2, 5", "5 at 4, 30"], 30),
        ("b", ["2 at 1, 11", "6 at 6, 32"], 32),
    ]


def test_a_reducer_is_told_the_context_of_the_later_value(run: Run):
    builder, stream = source(value=int)
    stream.group_by_key().reduce(lambda total, value, context: total + 100 * context.offset).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        ("a", 1, 10),
        ("b", 2, 11),
        ("a", 201, 10),
        ("a", 601, 30),
        ("b", 602, 32),
    ]


def test_in_hopping_windows_each_window_is_told_of_the_same_record(run: Run):
    builder, stream = source(value=int)
    hopping = TimeWindows.of_size_and_grace(20, 100).advance_by(10)
    stream.group_by_key().windowed_by(hopping).aggregate(list, seen).to_stream().to("out")
    assert run(builder, [("a", 1, 10), ("a", 2, 15), ("b", 3, 7)]).output() == [
        (windowed("a", 0, 20), ["1 at 0, 10"], 10),
        (windowed("a", 10, 30), ["1 at 0, 10"], 10),
        (windowed("a", 0, 20), ["1 at 0, 10", "2 at 1, 15"], 15),
        (windowed("a", 10, 30), ["1 at 0, 10", "2 at 1, 15"], 15),
        (windowed("b", 0, 20), ["3 at 2, 7"], 7),
    ]


def test_in_sliding_windows_it_is_told_of_the_record_that_is_added(run: Run):
    builder, stream = source(value=int)
    sliding = SlidingWindows.of_time_difference_and_grace(10, 100)
    stream.group_by_key().windowed_by(sliding).aggregate(list, seen).to_stream().to("out")
    assert run(builder, [("a", 1, 10), ("a", 2, 15)]).output() == [
        (windowed("a", 0, 10), ["1 at 0, 10"], 10),
        (windowed("a", 11, 21), ["2 at 1, 15"], 15),
        (windowed("a", 5, 15), ["1 at 0, 10", "2 at 1, 15"], 15),
    ]


def test_mergers_of_sessions_are_told_of_the_record_that_makes_them_merge(run: Run):
    builder, stream = source(value=int)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 100))
    sessions.aggregate(list, seen, seen_by_both).to_stream().to("out")
    assert run(builder, [("a", 1, 10), ("b", 9, 10), ("a", 2, 30), ("a", 3, 20)]).output() == [
        (windowed("a", 10, 10), ["1 at 0, 10"], 10),
        (windowed("b", 10, 10), ["9 at 1, 10"], 10),
        (windowed("a", 30, 30), ["2 at 2, 30"], 30),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 30, 30), None, 30),
        (
            windowed("a", 10, 30),
            ["(merged at 3)", "1 at 0, 10", "(merged at 3)", "2 at 2, 30", "3 at 3, 20"],
            30,
        ),
    ]


def test_reducers_of_sessions_are_told_too(run: Run):
    builder, stream = source(value=int)
    sessions = stream.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 100))
    sessions.reduce(lambda one, other, context: one + other + 100 * context.offset).to_stream().to("out")
    assert run(builder, [("a", 1, 10), ("a", 2, 30), ("a", 3, 20)]).output() == [
        (windowed("a", 10, 10), 1, 10),
        (windowed("a", 30, 30), 2, 30),
        (windowed("a", 10, 10), None, 10),
        (windowed("a", 30, 30), None, 30),
        (windowed("a", 10, 30), 406, 30),
    ]


def test_cogrouped_streams_have_aggregators_with_and_without(run: Run):
    builder, stream = source(value=int)
    odd, even = stream.filter(lambda key, value: value % 2), stream.filter_not(lambda key, value: value % 2)
    both = odd.group_by_key().cogroup(seen).cogroup(even.group_by_key(), lambda key, value, places: [*places, value])
    both.aggregate(list).to_stream().to("out")
    assert run(builder, [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)]).output() == [
        ("a", ["1 at 0, 1"], 1),
        ("a", ["1 at 0, 1", 2], 2),
        ("a", ["1 at 0, 1", 2, "3 at 2, 3"], 3),
    ]


def test_a_grouped_table_tells_of_the_record_that_changed_the_row(run: Run):
    builder = StreamsBuilder()
    grouped = builder.table("in", value=int).group_by(lambda key, value: ("all", value), key=str, value=int)

    def added(key, value, places, context):
        return [*places, f"{value} at {context.timestamp}"]

    def removed(key, value, places, context):
        return added(key, f"less {value}", places, context)

    grouped.aggregate(list, added, removed).to_stream().to("out")
    results = [value for _, value, _ in run(builder, [("a", 1, 10), ("b", 2, 20), ("a", 3, 30)]).output()]
    assert results == [
        ["1 at 10"],
        ["1 at 10", "2 at 20"],
        ["1 at 10", "2 at 20", "less 1 at 30", "3 at 30"],
    ]


def test_a_grouped_table_is_reduced_with_it_too(run: Run):
    builder = StreamsBuilder()
    grouped = builder.table("in", value=int).group_by(lambda key, value: ("all", value), key=str, value=int)
    reduced = grouped.reduce(
        lambda total, value, context: total + value + context.timestamp,
        lambda total, value, context: total - value + context.timestamp,
    )
    reduced.to_stream().to("out")
    assert [value for _, value, _ in run(builder, [("a", 1, 10), ("b", 2, 20), ("a", 3, 30)]).output()] == [1, 23, 85]


def test_aggregators_see_headers_and_topic():
    builder = StreamsBuilder()
    stream = builder.stream(["one", "two"], value=int)

    def places(key: str, value: int, found: list, at: RecordContext) -> list:
        return [*found, [at.topic, at.partition, dict(at.headers).get("h", b"").decode()]]

    stream.group_by_key().aggregate(list, places).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("one", "a", 1, headers=[("h", b"x")])
    driver.pipe_input("two", "a", 2)
    assert driver.read_output("out")[-1].value == [["one", 0, "x"], ["two", 0, ""]]


def test_where_one_fails_the_others_are_told_of_their_own_records(run: Run):
    builder, stream = source(value=int)

    def careful(key, value, places, context):
        if value == 3:
            raise ValueError("three")
        return seen(key, value, places, context)

    stream.group_by_key().aggregate(list, careful).to_stream().to("out")
    assert run(builder, ROWS, on_error="skip").output() == [
        ("a", ["1 at 0, 10"], 10),
        ("b", ["2 at 1, 11"], 11),
        ("a", ["1 at 0, 10", "5 at 4, 30"], 30),
        ("b", ["2 at 1, 11", "6 at 6, 32"], 32),
    ]


def test_one_that_fails_says_where_it_is():
    builder, stream = source(value=int)
    stream.group_by_key().aggregate(list, lambda key, value, places, context: context.nothing).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match=r"offset 0(?s:.)*test_aggregators_with_context.py"):
        driver.pipe_input("in", "a", 1)


def test_an_initializer_works_on_no_record_and_has_no_context():
    said = r"aggregate at .* takes a function without arguments; got '<lambda>' of \(context\)"
    with pytest.raises(TopologyError, match=said):
        source()[1].group_by_key().aggregate(lambda context: [], seen)
