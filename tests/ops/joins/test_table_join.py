"""``join``, ``left_join`` and ``outer_join`` of tables by their keys."""

import pytest

from penstock import BufferConfig, Materialized, StreamsBuilder, Suppressed
from penstock.errors import TopologyError
from support.flows import Run

ROWS = [
    ("A", "x", "a1", 1),
    ("B", "x", "b1", 3),
    ("A", "x", "a2", 2),
    ("B", "y", "b2", 4),
    ("B", "x", None, 5),
    ("A", "x", None, 6),
    ("B", "y", None, 7),
    ("A", "z", None, 8),
]


def joined(method, left=None, right=None, **options):
    """A join of the tables ``A`` and ``B`` into ``out``."""
    builder = StreamsBuilder()
    one = builder.table("A", value=str, materialized=left)
    other = builder.table("B", value=str, materialized=right)
    table = getattr(one, method)(other, lambda left, right: f"{left} {right}", value=str, **options)
    table.to_stream().to("out")
    return builder


def test_a_join_has_the_keys_that_both_sides_have(run: Run):
    ran = run(joined("join", store="kept"), ROWS)
    assert ran.output() == [
        ("x", "a1 b1", 3),
        ("x", "a2 b1", 3),  # the later of both times
        ("x", None, 5),
    ]
    assert ran.store("kept") == []
    assert ran.dropped() == {}


def test_a_left_join_has_all_keys_of_the_left_side(run: Run):
    ran = run(joined("left_join", store="kept"), ROWS[:-3])
    assert ran.output() == [
        ("x", "a1 None", 1),
        ("x", "a1 b1", 3),
        ("x", "a2 b1", 3),
        ("x", "a2 None", 5),
    ]
    assert ran.store("kept") == [("x", "a2 None", 5)]


def test_an_outer_join_has_all_keys_of_both_sides(run: Run):
    ran = run(joined("outer_join", store="kept"), ROWS)
    assert ran.output() == [
        ("x", "a1 None", 1),
        ("x", "a1 b1", 3),
        ("x", "a2 b1", 3),
        ("y", "None b2", 4),
        ("x", "a2 None", 5),
        ("x", None, 6),
        ("y", None, 7),  # z was never there: nothing to delete
    ]
    assert ran.store("kept") == []


def test_the_joiner_may_want_the_key_too(run: Run):
    builder = StreamsBuilder()
    left, right = builder.table("A", value=str), builder.table("B", value=str)
    left.join(right, lambda key, one, other: f"{key}: {one} {other}", value=str).to_stream().to("out")
    assert run(builder, ROWS[:2]).output() == [("x", "x: a1 b1", 3)]


def test_a_joiner_that_returns_none_deletes(run: Run):
    builder = StreamsBuilder()
    left, right = builder.table("A", value=str), builder.table("B", value=str)
    left.join(right, lambda one, other: None if one == "a2" else one + other, value=str).to_stream().to("out")
    assert run(builder, ROWS[:3]).output() == [("x", "a1b1", 3), ("x", None, 3)]


def test_a_table_joined_with_itself_answers_twice(run: Run):
    builder = StreamsBuilder()
    table = builder.table("A", value=str)
    table.join(table, lambda left, right: left + right, value=str).to_stream().to("out")
    assert run(builder, [("A", "x", "1", 1), ("A", "x", "2", 2)]).output() == [
        ("x", "11", 1),
        ("x", "11", 1),
        ("x", "22", 2),
        ("x", "22", 2),
    ]


def test_the_other_side_is_seen_through_filters_and_mapped_values_without_stores(run: Run):
    builder = StreamsBuilder()
    left = builder.table("A", value=str).filter(lambda key, value: value != "a1")
    right = builder.table("B", value=str).map_values(lambda value: value.upper(), value=str)
    left.left_join(right, lambda one, other: f"{one} {other}", value=str).to_stream().to("out")
    assert run(builder, ROWS[:3]).output() == [
        ("x", "a2 B1", 3),
    ]


@pytest.mark.kip("328-16")
def test_a_suppressed_side_answers_with_what_was_sent_on_last(run: Run):
    builder = StreamsBuilder()
    limit = Suppressed.until_time_limit(10, BufferConfig.unbounded())
    left, right = builder.table("A", value=str), builder.table("B", value=str).suppress(limit)
    left.left_join(right, lambda one, other: f"{one} {other}", value=str).to_stream().to("out")
    rows = [
        ("B", "x", "b1", 0),
        ("A", "x", "a1", 1),  # b1 is held back
        ("B", "y", "go", 10),  # b1 goes on
        ("B", "x", "b2", 11),
        ("A", "x", "a2", 12),  # b2 is held back
        ("B", "y", "go", 21),
    ]
    assert run(builder, rows).output() == [
        ("x", "a1 None", 1),
        ("x", "a1 b1", 1),
        ("x", "a2 b1", 12),
        ("x", "a2 b2", 12),
    ]


# --- versioned tables (KIP-914) --------------------------------------------------------------------------------------

SEQUENCE = [
    ("A", "k", "a0", 0),
    ("A", "k", "a5", 5),
    ("B", "k", "b2", 2),
    ("B", "k", "b3", 3),
    ("B", "k", "b4", 4),
    ("A", "k", "a1", 1),  # out of order
]


def versioned(name):
    return Materialized.as_versioned(name, 1000)


@pytest.mark.kip("914-05")
@pytest.mark.kip("914-07")
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_out_of_order_records_of_versioned_tables_emit_nothing(run: Run, method):
    ran = run(joined(method, versioned("a"), versioned("b")), SEQUENCE)
    alone = [] if method == "join" else [("k", "a0 None", 0), ("k", "a5 None", 5)]
    assert ran.output() == [
        *alone,
        ("k", "a5 b2", 5),
        ("k", "a5 b3", 5),
        ("k", "a5 b4", 5),
    ]
    assert sum(ran.dropped().values()) == 1


@pytest.mark.kip("914-05")
def test_the_newest_result_is_the_join_of_the_newest_records(run: Run):
    rows = [
        ("A", "k", "a0", 0),
        ("A", "k", "a4", 4),
        ("B", "k", "b2", 2),
        ("B", "k", "b1", 1),  # would replace (a4, b2), and must not
    ]
    assert run(joined("join", versioned("a"), versioned("b")), rows).output() == [("k", "a4 b2", 4)]


@pytest.mark.kip("914-06")
def test_with_one_versioned_side_only_its_records_may_be_out_of_order(run: Run):
    rows = [
        ("A", "k", "a5", 5),
        ("B", "k", "b4", 4),
        ("A", "k", "a3", 3),  # versioned: nothing, and a5 stays the latest
        ("B", "k", "b2", 2),  # not versioned: the last one counts
    ]
    ran = run(joined("join", versioned("a")), rows)
    assert ran.output() == [("k", "a5 b4", 5), ("k", "a5 b2", 5)]
    assert sum(ran.dropped().values()) == 1


# --- refusals --------------------------------------------------------------------------------------------------------


def test_both_sides_need_keys_of_one_type():
    builder = StreamsBuilder()
    left, right = builder.table("A", key=str), builder.table("B", key=int)
    with pytest.raises(TopologyError, match="the left side has keys of type str, the right side of type int"):
        left.join(right, lambda one, other: one)


def test_both_sides_belong_to_one_builder():
    left, right = StreamsBuilder().table("A"), StreamsBuilder().table("B")
    with pytest.raises(TopologyError, match="streams or tables of two builders"):
        left.join(right, lambda one, other: one)


def test_a_table_is_not_joined_with_a_stream():
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="joins a table with a table; got"):
        builder.table("A").left_join(builder.stream("B"), lambda one, other: one)
