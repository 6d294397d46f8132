"""``builder.table``: a topic read as a table."""

from penstock import Materialized, StreamsBuilder
from support.flows import Run

ROWS = [
    ("a", 1, 10),
    ("b", 2, 20),
    ("a", 3, 5),  # out of order: the last arrival wins, with its own time
    (None, 9, 30),  # dropped
    ("b", None, 25),  # deleted
    ("c", None, 1),  # nothing to delete
    ("a", 3, 5),  # the same again
]
CHANGES = [
    ("a", 1, 10),
    ("b", 2, 20),
    ("a", 3, 5),
    ("b", None, 25),
    ("c", None, 1),
    ("a", 3, 5),
]


def test_a_table_with_a_store_keeps_the_newest_value_of_each_key(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int, store="newest").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == CHANGES
    assert ran.store("newest") == [("a", 3, 5)]
    assert ran.dropped() == {("KTABLE-SOURCE-0000000001", "null-key"): 1}


def test_a_table_that_nobody_asks_has_no_store_and_hands_on_the_same(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int).to_stream().to("out")
    topology = builder.build()
    assert topology.facts.stores == {}
    ran = run(topology, ROWS)
    assert ran.output() == CHANGES
    assert ran.dropped() == {("KTABLE-SOURCE-0000000002", "null-key"): 1}


def test_a_table_in_memory_keeps_the_same(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int, materialized=Materialized.as_("newest").in_memory()).to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == CHANGES
    assert ran.store("newest") == [("a", 3, 5)]


def test_one_key_of_a_store_can_be_looked_up(run: Run):
    builder = StreamsBuilder()
    builder.table("in", key=int, value=int, store="newest")
    ran = run(builder, [(5, 50, 1), (-3, 30, 2), (5, 51, 3)])
    store = ran.driver.store("newest")
    assert store.get(5) == 51
    assert store.get_with_timestamp(-3) == (30, 2)
    assert store.get(7) is None
    assert list(store.range(5, 9)) == [(5, 51, 3)]
    assert store.approximate_num_entries() == 2
