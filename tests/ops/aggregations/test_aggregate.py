"""``aggregate`` on grouped streams and grouped tables."""

from dataclasses import dataclass, field

from penstock import StreamsBuilder
from support.flows import Run, source


def appended(key, value, aggregate):
    return f"{aggregate}{value}"


def test_aggregate_begins_with_the_initial_value_and_keeps_the_largest_time(run: Run):
    builder, stream = source(value=str)
    texts = stream.group_by_key().aggregate(lambda: "<", appended, value=str, store="texts")
    texts.to_stream().to("out")
    rows = [
        ("a", "x", 10),
        ("b", "y", 3),
        ("a", "z", 5),
        (None, "x", 99),
        ("a", None, 99),
    ]
    ran = run(builder, rows)
    assert ran.output() == [
        ("a", "<x", 10),
        ("b", "<y", 3),
        ("a", "<xz", 10),
    ]
    assert ran.store("texts") == [("a", "<xz", 10), ("b", "<y", 3)]
    assert ran.dropped() == {
        ("KSTREAM-AGGREGATE-0000000001", "null-key"): 1,
        ("KSTREAM-AGGREGATE-0000000001", "null-value"): 1,
    }


def test_an_aggregator_that_gives_null_deletes_and_the_next_value_begins_with_the_initial_one(run: Run):
    def until_stop(key, value, aggregate):
        return None if value == "stop" else aggregate + value

    builder, stream = source(value=str)
    stream.group_by_key().aggregate(lambda: ":", until_stop, value=str, store="texts").to_stream().to("out")
    ran = run(builder, [("a", "x", 9), ("a", "stop", 1), ("a", "y", 2), ("b", "stop", 3)])
    assert ran.output() == [
        ("a", ":x", 9),
        ("a", None, 9),
        ("a", ":y", 2),
        ("b", None, 3),
    ]
    assert ran.store("texts") == [("a", ":y", 2)]


@dataclass
class Seen:
    keys: list[str] = field(default_factory=list)
    largest: int = 0


def test_an_aggregator_may_change_its_aggregate_in_place(run: Run):
    def add(key, value, seen):
        seen.keys.append(key)
        seen.largest = max(seen.largest, value)
        return seen

    builder, stream = source(value=int)
    stream.group_by(lambda key, value: "all").aggregate(Seen, add, value=Seen, store="seen").to_stream().to("out")
    ran = run(builder, [("a", 3, 1), ("b", 7, 2), ("c", 5, 3)])
    assert ran.output() == [
        ("all", Seen(["all"], 3), 1),
        ("all", Seen(["all", "all"], 7), 2),
        ("all", Seen(["all", "all", "all"], 7), 3),
    ]
    assert ran.store("seen") == [("all", Seen(["all", "all", "all"], 7), 3)]


def test_an_initial_value_of_null_is_passed_on(run: Run):
    builder, stream = source(value=str)
    stream.group_by_key().aggregate(lambda: None, appended, value=str).to_stream().to("out")
    assert run(builder, [("a", "x", 1), ("a", "y", 2)]).output() == [("a", "Nonex", 1), ("a", "Nonexy", 2)]


def lists():
    builder = StreamsBuilder()
    groups = builder.table("in", value=str).group_by(lambda key, value: (value[0], value), value=str)
    add = lambda key, value, aggregate: f"{aggregate}+{key}{value}"  # noqa: E731
    subtract = lambda key, value, aggregate: f"{aggregate}-{key}{value}"  # noqa: E731
    groups.aggregate(str, add, subtract, store="lists").to_stream().to("out")
    return builder


def test_aggregate_of_a_grouped_table_subtracts_the_old_value_before_it_adds_the_new_one(run: Run):
    rows = [
        ("a", "x1", 10),
        ("a", "x2", 5),  # the same group
        ("a", "y3", 20),  # another group: the old one first
        ("b", "x4", 1),
        ("b", None, 30),
    ]
    ran = run(lists(), rows)
    assert ran.output() == [
        ("x", "+xx1", 10),
        ("x", "+xx1-xx1+xx2", 10),
        ("x", "+xx1-xx1+xx2-xx2", 20),
        ("y", "+yy3", 20),
        ("x", "+xx1-xx1+xx2-xx2+xx4", 20),
        ("x", "+xx1-xx1+xx2-xx2+xx4-xx4", 30),
    ]
    assert ran.store("lists") == [
        ("x", "+xx1-xx1+xx2-xx2+xx4-xx4", 30),
        ("y", "+yy3", 20),
    ]


def test_the_first_result_of_an_aggregate_carries_its_initial_value_as_old_value(run: Run):
    builder, stream = source(value=int)
    sums = stream.group_by_key().aggregate(lambda: 100, lambda key, value, total: total + value, value=int, store="s")
    totals = sums.group_by(lambda key, total: ("all", total), value=int)
    totals.reduce(lambda all_, total: all_ + total, lambda all_, total: all_ - total).to_stream().to("out")
    assert run(builder, [("a", 1, 1), ("b", 2, 2), ("a", 3, 3)]).output() == [
        ("all", 101, 1),  # nothing to take 100 out of yet
        ("all", 103, 2),  # 101 - 100 + 102
        ("all", 106, 3),
    ]
