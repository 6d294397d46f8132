"""Global tables, and joins of streams with them."""

import pyarrow.compute as pc
import pytest

from penstock import Materialized, StreamsBuilder, TopologyError, columnar
from penstock.testing import TopologyTestDriver
from support.flows import Run


def pair(value, other):
    return f"{value}+{other}"


def city(key, value):
    return value[:1] if value and value != "?" else None


ROWS = [
    # topic, key, value, timestamp
    ("g", "a", "Athens", 5),
    ("s", "x", "a1", 1),
    ("s", "y", "b1", 2),
    ("g", "b", "Bergen", 0),
    ("g", None, "nowhere", 0),
    ("s", "y", "b2", 3),
    ("s", "z", "?", 4),
    ("s", None, "a2", 5),
    ("s", "x", None, 6),
    ("g", "a", None, 7),
    ("s", "x", "a3", 8),
]


def test_a_stream_meets_a_global_table_by_any_key(run: Run):
    builder = StreamsBuilder()
    cities = builder.global_table("g", value=str, store="cities", name="cities")
    builder.stream("s", value=str).join(cities, pair, key_selector=city, name="join").to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [("x", "a1+Athens", 1), ("y", "b2+Bergen", 3), (None, "a2+Athens", 5)]
    assert ran.store("cities") == [("b", "Bergen", 0)]
    assert ran.dropped() == {("cities", "null-key"): 1, ("join", "null-key"): 1, ("join", "null-value"): 1}


def test_a_left_join_keeps_records_that_find_nothing(run: Run):
    builder = StreamsBuilder()
    cities = builder.global_table("g", value=str)
    builder.stream("s", value=str).left_join(cities, pair, key_selector=city, name="join").to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("x", "a1+Athens", 1),
        ("y", "b1+None", 2),
        ("y", "b2+Bergen", 3),
        ("z", "?+None", 4),
        (None, "a2+Athens", 5),
        ("x", "a3+None", 8),
    ]
    assert ran.dropped()[("join", "null-value")] == 1


def test_several_sub_topologies_share_a_global_table_and_its_drops_count_once(run: Run):
    builder = StreamsBuilder()
    cities = builder.global_table("g", value=str, store="cities", name="cities")
    stream = builder.stream("s", value=str)
    stream.join(cities, pair, key_selector=city).to("out")
    renamed = stream.select_key(city).repartition("renamed")
    renamed.join(cities, lambda key, value, other: f"{key}:{other}", key_selector=lambda key, value: key).to("again")
    ran = run(builder, ROWS)
    assert ran.output("out") == [("x", "a1+Athens", 1), ("y", "b2+Bergen", 3), (None, "a2+Athens", 5)]
    assert ran.output("again") == [("a", "a:Athens", 1), ("b", "b:Bergen", 3), ("a", "a:Athens", 5)]
    assert ran.store("cities") == [("b", "Bergen", 0)]
    assert ran.dropped()[("cities", "null-key")] == 1


def test_a_global_table_that_nobody_joins_can_be_read(run: Run):
    builder = StreamsBuilder()
    builder.global_table("g", value=str, store="cities")
    builder.stream("s", value=str).to("out")
    assert run(builder, ROWS[:4]).store("cities") == [("a", "Athens", 5), ("b", "Bergen", 0)]


def test_a_topology_of_global_tables_alone_is_refused_before_it_starts_since_no_task_would_have_them():
    builder = StreamsBuilder()
    builder.global_table("g", value=str, store="cities")
    with pytest.raises(TopologyError, match=r"only global tables and stores.*builder.table\(topic, store"):
        TopologyTestDriver(builder.build())


@pytest.mark.kip("914-11")
def test_a_global_table_cannot_be_versioned():
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=r"the global table of topic 'g' at .* cannot be versioned"):
        builder.global_table("g", materialized=Materialized.as_versioned("versions", history_retention=10))


@pytest.mark.kip("44-05")
def test_a_joiner_may_take_the_key_that_was_looked_up_beside_the_records_own(run: Run):
    def told(key, mapped_key, value, other):
        return f"{key}/{mapped_key}: {value}+{other}"

    builder = StreamsBuilder()
    cities = builder.global_table("g", value=str)
    stream = builder.stream("s", value=str)
    stream.join(cities, told, key_selector=city).to("out")
    stream.left_join(cities, told, key_selector=city).to("left")
    ran = run(builder, ROWS)
    assert ran.output() == [("x", "x/a: a1+Athens", 1), ("y", "y/b: b2+Bergen", 3), (None, "None/a: a2+Athens", 5)]
    assert ran.output("left") == [
        ("x", "x/a: a1+Athens", 1),
        ("y", "y/b: b1+None", 2),
        ("y", "y/b: b2+Bergen", 3),
        ("z", "z/None: ?+None", 4),
        (None, "None/a: a2+Athens", 5),
        ("x", "x/a: a3+None", 8),
    ]


@pytest.mark.kip("44-05")
def test_so_may_columnar_joiners_and_the_context_is_known_by_its_name(run: Run):
    @columnar
    def together(key, mapped_key, value, other):
        return pc.binary_join_element_wise(mapped_key, other, "=")

    builder = StreamsBuilder()
    cities = builder.global_table("g", value=str)
    stream = builder.stream("s", value=str)
    stream.join(cities, together, key_selector=city).to("out")
    stream.join(cities, lambda key, value, other, context: f"{key}@{context.offset}", key_selector=city).to("places")
    stream.join(cities, lambda key, mapped, value, other, context: f"{mapped}@{context.offset}", key_selector=city).to(
        "mapped"
    )
    ran = run(builder, ROWS)
    assert [value for _, value, _ in ran.output()] == ["a=Athens", "b=Bergen", "a=Athens"]
    assert [value for _, value, _ in ran.output("places")] == ["x@0", "y@2", "None@4"]
    assert [value for _, value, _ in ran.output("mapped")] == ["a@0", "b@2", "a@4"]
