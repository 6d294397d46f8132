"""Functions of streams that take their record's context as one more argument (KS-08).

Those of aggregations and of tables: ``aggregations/test_aggregators_with_context.py`` and
``tables/test_functions_with_context.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    BufferConfig,
    JoinWindows,
    Materialized,
    Printed,
    RecordContext,
    StreamsBuilder,
    Suppressed,
    columnar,
)
from penstock.errors import TopologyError
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-08")

ROWS = [("a", 1, 10), ("b", 2, 5), (None, 3, 7), ("c", None, 8)]


def place(context: RecordContext) -> str:
    return f"{context.topic}/{context.partition}/{context.offset}@{context.timestamp}"


def driver_of(steps) -> TopologyTestDriver:
    builder = StreamsBuilder()
    steps(builder.stream("in", value=int)).to("out")
    return TopologyTestDriver(builder.build())


def test_a_mapper_of_values_sees_where_its_record_came_from(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda value, context: [value, place(context)], value=list).to("out")
    assert run(builder, ROWS).output() == [
        ("a", [1, "in/0/0@10"], 10),
        ("b", [2, "in/0/1@5"], 5),
        (None, [3, "in/0/2@7"], 7),
        ("c", [None, "in/0/3@8"], 8),
    ]


def test_every_step_that_keeps_nothing_gives_the_context_to_those_who_ask(run: Run):
    seen: set[tuple[str, int]] = set()
    builder, stream = source(value=int)
    branches = (
        stream.filter(lambda key, value, context: context.offset != 1)
        .filter_not(lambda key, value, context: context.offset == 2)
        .peek(lambda key, value, context: seen.add(("peek", context.offset)))
        .map(lambda key, value, context: (key, [context.offset]), key=str, value=list)
        .flat_map(lambda key, value, context: [(key, [*value, context.timestamp])], key=str)
        .flat_map_values(lambda value, context: [[*value, context.partition]])
        .select_key(lambda key, value, context: f"{key} of {context.topic}")
        .split()
        .branch(lambda key, value, context: context.offset == 0, name="first")
        .default_branch("rest")
    )
    branches["first"].to("out")
    branches["rest"].foreach(lambda key, value, context: seen.add(("foreach", context.offset)))
    assert run(builder, ROWS).output() == [("a of in", [0, 10, 0], 10)]
    assert seen == {("peek", 0), ("peek", 3), ("foreach", 3)}


def test_the_context_has_the_headers():
    driver = driver_of(
        lambda stream: stream.map_values(lambda value, context: dict(context.headers)["h"].decode(), value=str)
    )
    driver.pipe_input("in", "a", 1, headers=[("h", b"x")])
    driver.pipe_record_list("in", [("a", 1, 5, [("h", b"y")]), ("a", 1, 6, [("h", b"z")])])
    assert [record.value for record in driver.read_output("out")] == ["x", "y", "z"]


def test_behind_a_repartition_the_context_is_that_of_the_repartition_topic():
    driver = driver_of(
        lambda stream: (
            stream.select_key(lambda key, value: str(value))
            .repartition()
            .map_values(lambda value, context: [context.topic, context.offset], value=list)
        )
    )
    for value in (7, 8):
        driver.pipe_input("in", "a", value)
    topic = "test-KSTREAM-REPARTITION-0000000002-repartition"
    assert [record.value for record in driver.read_output("out")] == [[topic, 0], [topic, 1]]


def test_behind_a_suppression_the_context_is_that_of_the_record_that_was_held_back(run: Run):
    builder, stream = source(value=int)
    counts = stream.group_by_key().count().suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded()))
    counts.to_stream().map_values(lambda value, context: [value, place(context)], value=list).to("out")
    assert run(builder, [("a", 1, 5), ("b", 2, 6), ("a", 3, 8), ("c", 4, 100)]).output() == [
        ("a", [2, "in/0/2@8"], 8),
        ("b", [1, "in/0/1@6"], 6),
    ]


def test_behind_a_join_with_grace_the_context_is_that_of_the_record_that_waited(run: Run):
    builder, stream = source(value=int)
    versions = Materialized.as_versioned("table", history_retention="1 hour")
    table = builder.table("table", value=int, materialized=versions)
    joined = stream.join(table, lambda left, right, context: [right, place(context)], grace=10)
    joined.map_values(lambda value, context: [*value, place(context)], value=list).to("out")
    rows = [("table", "a", 7, 0), ("in", "a", 1, 5), ("in", "b", 2, 6), ("in", "c", 3, 100)]
    assert run(builder, rows).output() == [("a", [7, "in/0/0@5", "in/0/0@5"], 5)]


def test_joins_and_groupings_have_it_too():
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    table = builder.table("table", value=int)
    everywhere = builder.global_table("everywhere", value=int)
    stream.join(table, lambda left, right, context: [left, right, context.offset], value=list).to("with-table")
    stream.join(
        everywhere,
        lambda key, left, right, context: [key, left, right, context.offset],
        key_selector=lambda key, value, context: key if context.offset else None,
        value=list,
    ).to("with-all")
    near = JoinWindows.of_time_difference_with_no_grace(5)
    stream.join(stream, lambda left, right, context: context.offset, near).to("with-itself")
    stream.group_by(lambda key, value, context: str(context.offset)).count().to_stream().to("counts")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("table", "a", 5)
    driver.pipe_input("everywhere", "a", 6)
    driver.pipe_input("in", "a", 1, 100)
    driver.pipe_input("in", "a", 2, 200)
    values = {topic: [record.value for record in driver.read_output(topic)] for topic in ("with-table", "with-all")}
    assert values == {"with-table": [[1, 5, 0], [2, 5, 1]], "with-all": [["a", 2, 6, 1]]}
    assert [record.value for record in driver.read_output("with-itself")] == [0, 1]
    assert [record.key for record in driver.read_output("counts")] == ["0", "1"]


def test_it_is_asked_for_by_name_by_annotation_or_as_a_third_argument():
    def named(value, context):
        return context.offset

    def annotated(value, where: RecordContext):
        return where.offset

    def third(key, value, anything):
        return anything.offset

    class Method:
        def mapped(self, value, context):
            return context.offset

    for function in (named, annotated, third, Method().mapped):
        driver = driver_of(lambda stream, function=function: stream.map_values(function))
        driver.pipe_input("in", "a", 5)
        assert [record.value for record in driver.read_output("out")] == [0]


def test_who_does_not_ask_gets_what_was_always_given():
    def with_default(key, value, context=None):
        return [key, value, context]

    for function, given in [
        (lambda key, value: [key, value], ["a", 5]),
        (with_default, ["a", 5, None]),
        (lambda context: context, 5),
        (lambda *arguments: list(arguments), [5]),
    ]:
        driver = driver_of(lambda stream, function=function: stream.map_values(function, value=Any))
        driver.pipe_input("in", "a", 5)
        assert [record.value for record in driver.read_output("out")] == [given]


def test_functions_of_columns_cannot_ask():
    with pytest.raises(TopologyError, match="works on whole columns, which have no context"):
        driver_of(lambda stream: stream.filter(columnar(lambda key, value, context: value)))


def test_ids_of_deduplications_may_be_made_of_it(run: Run):
    builder, stream = source(value=int)
    stream.deduplicate_by_key_value(lambda key, value, context: context.offset // 2, interval=100).to("by-key")
    stream.deduplicate(lambda key, value, context: context.offset % 2, interval=100).to("all")
    ran = run(builder, [("a", 1, 10), ("a", 2, 11), ("a", 3, 12), ("b", 4, 13)])
    assert ran.output("by-key") == [("a", 1, 10), ("a", 3, 12), ("b", 4, 13)]
    assert ran.output("all") == [("a", 1, 10), ("a", 2, 11)]


def test_what_is_printed_may_say_it(capsys):
    printed = Printed.to_sys_out().with_label("in")
    driver = driver_of(
        lambda stream: (
            stream.print(printed.with_key_value_mapper(lambda key, value, context: f"{key} at {context.offset}"))
            or stream
        )
    )
    driver.pipe_input("in", "a", 1)
    driver.pipe_input("in", "b", 2)
    assert capsys.readouterr().out == "[in]: a at 0\n[in]: b at 1\n"


def test_where_it_cannot_be_had_it_is_refused_and_nothing_else_given_for_it():
    with pytest.raises(TopologyError, match=r"headers, partitions., without the context of a record; the last"):
        driver_of(lambda stream: stream.repartition(partitioner=lambda topic, key, value, context: 0))
