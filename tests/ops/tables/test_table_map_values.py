"""``map_values`` on tables."""

from penstock import StreamsBuilder
from support.flows import Run

ROWS = [
    ("a", 1, 10),
    ("b", 2, 20),
    ("a", 3, 5),
    ("b", None, 25),
    ("c", None, 1),
]


def test_map_values_gives_new_values_and_deletions_stay_deletions(run: Run):
    calls = []

    def times_ten(value):
        calls.append(value)
        return value * 10

    builder = StreamsBuilder()
    builder.table("in", value=int).map_values(times_ten, value=int).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        ("a", 10, 10),
        ("b", 20, 20),
        ("a", 30, 5),
        ("b", None, 25),
        ("c", None, 1),
    ]
    assert calls == [1, 2, 3]  # never with a null value


def test_map_values_of_key_and_value_with_a_store_of_its_own(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int)
    table.map_values(lambda key, value: f"{key}{value}", value=str, store="texts").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("a", "a1", 10),
        ("b", "b2", 20),
        ("a", "a3", 5),
        ("b", None, 25),
        ("c", None, 1),
    ]
    assert ran.store("texts") == [("a", "a3", 5)]


def test_a_function_that_gives_null_deletes_the_row(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=int).map_values(lambda v: v if v != 3 else None, value=int, store="but-3")
    table.to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("a", 1, 10),
        ("b", 2, 20),
        ("a", None, 5),
        ("b", None, 25),
        ("c", None, 1),
    ]
    assert ran.store("but-3") == []


def test_a_grouping_behind_map_values_takes_the_old_value_out_as_it_was_mapped(run: Run):
    builder = StreamsBuilder()
    tens = builder.table("in", value=int).map_values(lambda value: value * 10, value=int)
    totals = tens.group_by(lambda key, value: ("all", value), key=str, value=int)
    totals.reduce(lambda total, value: total + value, lambda total, value: total - value, "total").to_stream().to("out")
    assert run(builder, ROWS).output() == [
        ("all", 10, 10),
        ("all", 30, 20),
        ("all", 50, 20),
        ("all", 30, 25),
    ]
