"""``reduce`` on grouped streams and grouped tables."""

from penstock import StreamsBuilder
from support.flows import Run, source


def test_reduce_begins_with_the_first_value_and_keeps_the_largest_time(run: Run):
    builder, stream = source(value=int)
    stream.group_by_key().reduce(lambda total, value: total + value, "totals").to_stream().to("out")
    rows = [
        ("a", 1, 10),
        ("b", 5, 3),
        ("a", 2, 5),
        (None, 9, 99),
        ("a", None, 99),
        ("a", 3, 12),
    ]
    ran = run(builder, rows)
    assert ran.output() == [
        ("a", 1, 10),
        ("b", 5, 3),
        ("a", 3, 10),
        ("a", 6, 12),
    ]
    assert ran.store("totals") == [("a", 6, 12), ("b", 5, 3)]
    assert ran.dropped() == {
        ("KSTREAM-REDUCE-0000000001", "null-key"): 1,
        ("KSTREAM-REDUCE-0000000001", "null-value"): 1,
    }


def test_a_reducer_that_gives_null_deletes_and_the_next_value_begins_afresh(run: Run):
    builder, stream = source(value=int)
    stream.group_by_key().reduce(lambda total, value: total + value or None, "totals").to_stream().to("out")
    ran = run(builder, [("a", 1, 10), ("a", -1, 5), ("a", 4, 3), ("a", 2, 2)])
    assert ran.output() == [
        ("a", 1, 10),
        ("a", None, 10),
        ("a", 4, 3),  # a new aggregate, with its own time
        ("a", 6, 3),
    ]
    assert ran.store("totals") == [("a", 6, 3)]


def test_the_same_result_again_is_emitted_again(run: Run):
    builder, stream = source(value=int)
    stream.group_by_key().reduce(max, "largest").to_stream().to("out")
    assert run(builder, [("a", 5, 1), ("a", 3, 2), ("a", 5, 1)]).output() == [("a", 5, 1), ("a", 5, 2), ("a", 5, 2)]


def totals():
    builder = StreamsBuilder()
    table = builder.table("in", value=dict)
    groups = table.group_by(lambda key, row: (row["group"], row["n"]), value=int)
    groups.reduce(lambda total, n: total + n, lambda total, n: total - n, "totals").to_stream().to("out")
    return builder


def row(group, n):
    return {"group": group, "n": n}


def test_reduce_of_a_grouped_table_takes_the_old_value_out_and_adds_the_new_one(run: Run):
    rows = [
        ("a", row("x", 1), 10),
        ("b", row("x", 2), 5),
        ("a", row("x", 5), 7),  # the same group: one update
        ("a", row("y", 5), 20),  # another group: out of the one, into the other
        ("b", None, 15),
    ]
    ran = run(totals(), rows)
    assert ran.output() == [
        ("x", 1, 10),
        ("x", 3, 10),
        ("x", 7, 10),
        ("x", 2, 20),
        ("y", 5, 20),
        ("x", 0, 20),
    ]
    assert ran.store("totals") == [("x", 0, 20), ("y", 5, 20)]


def test_a_subtractor_is_not_called_where_there_is_no_aggregate(run: Run):
    calls = []

    def subtract(total, n):
        calls.append((total, n))
        return

    builder = StreamsBuilder()
    groups = builder.table("in", value=int, store="rows").group_by(lambda key, n: ("all", n), value=int)
    groups.reduce(lambda total, n: total + n, subtract, "totals").to_stream().to("out")
    ran = run(builder, [("a", 1, 1), ("b", 2, 2), ("a", None, 3), ("b", None, 4), ("c", 7, 5)])
    assert ran.output() == [
        ("all", 1, 1),
        ("all", 3, 2),
        ("all", None, 3),
        ("all", None, 4),
        ("all", 7, 5),
    ]
    assert calls == [(3, 1)]  # not for b, whose group was gone
    assert ran.store("totals") == [("all", 7, 5)]
