"""``group_by_key`` and ``group_by`` of streams, ``group_by`` of tables."""

from penstock import StreamsBuilder
from support.flows import Run, source


def test_group_by_key_does_not_repartition_a_stream_that_kept_its_keys(run: Run):
    builder, stream = source(value=str)
    stream.filter(lambda key, value: True).map_values(str.upper, value=str).group_by_key().count("counts")
    topology = builder.build()
    assert topology.internal_topics == frozenset()
    assert run(topology, [("a", "x", 1), ("a", "y", 2)]).store("counts") == [("a", 2, 2)]


def test_group_by_key_repartitions_a_stream_whose_keys_changed(run: Run):
    builder, stream = source(value=str)
    stream.select_key(lambda key, value: value).group_by_key().count("counts")
    topology = builder.build()
    assert topology.internal_topics == {"counts-repartition"}
    assert run(topology, [("a", "x", 1), ("b", "x", 2)]).store("counts") == [("x", 2, 2)]


def test_group_by_of_a_stream_groups_by_what_the_function_gives_and_null_keys_vanish(run: Run):
    builder, stream = source(value=str)
    stream.group_by(lambda key, value: value and value[0]).count("counts").to_stream().to("out")
    ran = run(builder, [("a", "x1", 1), (None, "x2", 2), ("b", None, 3), ("c", "y1", 4)])
    assert ran.output() == [
        ("x", 1, 1),
        ("x", 2, 2),
        ("y", 1, 4),
    ]
    assert ran.dropped() == {}


def test_group_by_may_give_keys_of_another_type(run: Run):
    builder, stream = source(value=str)
    stream.group_by(lambda key, value: len(value), key=int).count("counts")
    assert run(builder, [("a", "x", 1), ("b", "yy", 2), ("c", "z", 3)]).store("counts") == [(1, 2, 3), (2, 1, 2)]


def test_two_aggregations_of_one_grouped_stream_share_its_named_repartition(run: Run):
    builder, stream = source(value=int)
    grouped = stream.group_by(lambda key, value: key[0], name="by-letter")
    grouped.count("counts").to_stream().to("counts")
    grouped.reduce(max, "largest").to_stream().to("largest")
    topology = builder.build()
    assert topology.internal_topics == {"by-letter-repartition"}
    ran = run(topology, [("a1", 3, 1), ("a2", 9, 2), ("a3", 4, 3)])
    assert ran.output("counts") == [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)]
    assert ran.output("largest") == [("a", 3, 1), ("a", 9, 2), ("a", 9, 3)]


def test_group_by_of_a_table_leaves_out_null_keys_and_null_values_but_takes_the_old_pair_out(run: Run):
    builder = StreamsBuilder()
    table = builder.table("in", value=str)
    groups = table.group_by(
        lambda key, value: (None if value == "no key" else "all", key if value else None), value=str
    )
    groups.count("counts").to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("b", "y", 2), ("a", "no key", 3), ("b", "", 4), ("c", "", 5), ("a", "z", 6)])
    assert ran.output() == [
        ("all", 1, 1),
        ("all", 2, 2),
        ("all", 1, 3),
        ("all", 0, 4),
        ("all", 1, 6),
    ]
    assert ran.dropped() == {}


def test_group_by_of_a_table_keeps_old_and_new_values_apart_for_every_row_of_a_chunk(run: Run):
    builder = StreamsBuilder()
    groups = builder.table("in", value=str).group_by(lambda key, value: (value, key), value=str)
    add = lambda group, key, members: members + key  # noqa: E731
    remove = lambda group, key, members: members.replace(key, "")  # noqa: E731
    groups.aggregate(str, add, remove, store="members").to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("b", "x", 2), ("a", "y", 3), ("a", "x", 4), ("b", "y", 5), ("a", None, 6)])
    assert ran.output() == [
        ("x", "a", 1),
        ("x", "ab", 2),
        ("x", "b", 3),
        ("y", "a", 3),
        ("y", "", 4),
        ("x", "ba", 4),
        ("x", "a", 5),
        ("y", "b", 5),
        ("x", "", 6),
    ]
    assert ran.store("members") == [("x", "", 6), ("y", "b", 5)]
