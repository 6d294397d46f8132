"""``flat_map_values`` on streams."""

from support.flows import Run, source


def test_flat_map_values_gives_any_number_of_values_under_the_same_key(run: Run):
    builder, stream = source(value=str)
    stream.flat_map_values(str.split, value=str).to("out")
    assert run(builder, [("a", "x y", 10), ("b", "", 11), (None, "z", 5)]).output() == [
        ("a", "x", 10),
        ("a", "y", 10),
        (None, "z", 5),
    ]


def test_flat_map_values_of_key_and_value(run: Run):
    builder, stream = source(value=int)
    stream.flat_map_values(lambda key, value: [key] * value, value=str).to("out")
    assert run(builder, [("a", 2, 1), ("b", 1, 2)]).output() == [("a", "a", 1), ("a", "a", 1), ("b", "b", 2)]


def test_flat_map_values_takes_generators_and_views(run: Run):
    builder, stream = source(value=int)
    stream.flat_map_values(lambda value: (n for n in range(value)), value=int).to("generator")
    stream.flat_map_values(lambda value: {value: "x"}.keys(), value=int).to("keys")
    ran = run(builder, [("a", 2, 1)])
    assert ran.output("generator") == [("a", 0, 1), ("a", 1, 1)]
    assert ran.output("keys") == [("a", 2, 1)]


def test_flat_map_values_sees_and_may_give_null_values(run: Run):
    builder, stream = source(value=str)
    stream.flat_map_values(lambda value: [value, None], value=str).to("out")
    assert run(builder, [("a", None, 1)]).output() == [("a", None, 1), ("a", None, 1)]
