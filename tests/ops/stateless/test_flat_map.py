"""``flat_map`` on streams."""

from support.flows import Run, source


def test_flat_map_gives_any_number_of_pairs_in_their_order_at_the_time_of_the_record(run: Run):
    builder, stream = source(value=int)
    stream.flat_map(lambda key, value: [(f"{key}{i}", i) for i in range(value)], value=int).to("out")
    assert run(builder, [("a", 2, 10), ("b", 0, 11), ("c", 3, 5), ("d", 1, 6)]).output() == [
        ("a0", 0, 10),
        ("a1", 1, 10),
        ("c0", 0, 5),
        ("c1", 1, 5),
        ("c2", 2, 5),
        ("d0", 0, 6),
    ]


def test_flat_map_sees_and_may_give_nulls(run: Run):
    builder, stream = source(value=str)
    stream.flat_map(lambda key, value: [(value, key), (None, None)], value=str).to("out")
    assert run(builder, [(None, "x", 1)]).output() == [("x", None, 1), (None, None, 1)]


def test_flat_map_of_a_flat_map_keeps_the_order_of_processing(run: Run):
    builder, stream = source(value=str)
    twice = stream.flat_map(lambda key, value: [(key, value + "1"), (key, value + "2")], value=str)
    twice.flat_map(lambda key, value: [(key, value + "x"), (key, value + "y")], value=str).to("out")
    assert run(builder, [("a", "v", 1), ("a", "w", 2)]).output() == [
        ("a", "v1x", 1),
        ("a", "v1y", 1),
        ("a", "v2x", 1),
        ("a", "v2y", 1),
        ("a", "w1x", 2),
        ("a", "w1y", 2),
        ("a", "w2x", 2),
        ("a", "w2y", 2),
    ]


def test_flat_map_may_give_a_tuple_of_pairs(run: Run):
    builder, stream = source(value=str)
    stream.flat_map(lambda key, value: ((value, key),), value=str).to("out")
    assert run(builder, [("a", "x", 1)]).output() == [("x", "a", 1)]
