"""``filter`` and ``filter_not`` on tables."""

from penstock import StreamsBuilder
from support.flows import Run

ROWS = [
    ("a", 1, 1),  # never in the result
    ("a", 5, 2),
    ("a", 6, 3),
    ("a", 2, 4),  # leaves the result
    ("a", 1, 5),  # still out of it
    ("b", None, 6),  # nothing to delete
    ("a", 7, 7),
    ("a", None, 8),  # deleted
]


def at_least_3(key, value):
    return value >= 3


def test_a_row_that_ceases_to_fit_is_deleted_and_one_that_never_did_says_nothing(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int, store="all").filter(at_least_3, store="large").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("a", 5, 2),
        ("a", 6, 3),
        ("a", None, 4),
        ("a", 7, 7),
        ("a", None, 8),
    ]
    assert ran.store("large") == []
    assert ran.dropped() == {}


def test_filter_not_keeps_the_other_rows(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int, store="all").filter_not(at_least_3, store="small").to_stream().to("out")
    ran = run(builder, ROWS[:5])
    assert ran.output() == [
        ("a", 1, 1),
        ("a", None, 2),
        ("a", 2, 4),
        ("a", 1, 5),
    ]
    assert ran.store("small") == [("a", 1, 5)]


def test_behind_a_table_without_a_store_every_rejected_row_is_a_deletion(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int).filter(at_least_3).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        ("a", None, 1),
        ("a", 5, 2),
        ("a", 6, 3),
        ("a", None, 4),
        ("a", None, 5),
        ("b", None, 6),
        ("a", 7, 7),
        ("a", None, 8),
    ]


def test_without_a_store_of_its_own_it_filters_the_old_value_too(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int, store="all").filter(at_least_3).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        ("a", 5, 2),
        ("a", 6, 3),
        ("a", None, 4),
        ("a", 7, 7),
        ("a", None, 8),
    ]


def test_filters_on_filters_each_send_a_deletion_once(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int, store="all")
    table.filter(at_least_3).filter_not(lambda key, value: value > 6, store="some").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("a", 5, 2),
        ("a", 6, 3),
        ("a", None, 4),
    ]
    assert ran.store("some") == []


def test_behind_a_count_the_old_value_of_the_first_change_is_0(run: Run):
    builder = StreamsBuilder()
    counts = builder.stream("in", value=int).group_by_key().count("counts")
    counts.filter(lambda key, count: count != 2).to_stream().to("out")
    assert run(builder, [("a", 1, 1), ("a", 1, 2), ("a", 1, 3), ("a", 1, 4)]).output() == [
        ("a", 1, 1),
        ("a", None, 2),
        ("a", 3, 3),
        ("a", 4, 4),
    ]
