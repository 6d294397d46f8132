"""``Joined`` and ``TableJoined`` where Kafka Streams has them: behind the joiner (KS-11)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Joined, JoinWindows, StreamsBuilder, TableJoined
from penstock.errors import TopologyError
from penstock.plan.nodes import Repartition
from penstock.serdes import INT
from support.flows import of_rows, source

pytestmark = pytest.mark.kip("KS-11")


def left_first(left: Any, right: Any) -> str:
    return f"{left} {right}"


def by_key(key: Any, value: Any, partitions: int) -> int:
    return int(key) % partitions


def backwards(key: Any, value: Any, partitions: int) -> int:
    return (int(key) + 1) % partitions


def joined(method: str, *given: Any, **keywords: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    orders, cities = builder.table("orders", value=int), builder.table("cities", key=int, value=str)
    by_city = {"foreign_key": lambda order: order % 10, **keywords}
    getattr(orders, method)(cities, left_first, *given, **by_city).to_stream().to("out")
    return builder


ROWS = [("cities", 7, "Oslo", 0), ("orders", "a", 17, 1)]


@pytest.mark.parametrize("method", ["join", "left_join"])
@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_join_by_a_foreign_key_has_the_partitioners_and_the_name_of_its_table_joined(method: str, by_keyword: bool):
    given = TableJoined.with_(by_key, backwards).with_name("found")
    builder = joined(method, table_joined=given) if by_keyword else joined(method, given)
    same = joined(method, partitioner=by_key, other_partitioner=backwards, name="found")
    assert builder.build().describe() == same.build().describe()
    assert chosen(builder) == chosen(same)
    assert {call for _, call in chosen(builder)} == {by_key, backwards}
    assert {topic.startswith("found-") for topic, _ in chosen(builder)} == {True}


def chosen(builder: StreamsBuilder) -> list[tuple[str, Any]]:
    made = [node for node in builder.build().nodes if isinstance(node, Repartition)]
    return [(node.topic, node.partitioner and node.partitioner.call) for node in made]


def test_its_results_are_those_of_the_join():
    assert of_rows(joined("join", TableJoined.as_("found")), ROWS).output() == [("a", "17 Oslo", 1)]


def test_one_partitioner_and_then_the_other_are_both_kept():
    assert TableJoined.with_partitioner(by_key).with_other_partitioner(backwards) == TableJoined(by_key, backwards)
    assert TableJoined.with_(other_partitioner=backwards) == TableJoined.with_other_partitioner(backwards)


def test_names_and_numbers_with_a_table_joined_are_those_without_one():
    assert joined("join", TableJoined()).build().describe() == joined("join").build().describe()


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"name": "other"}, r"join at .*: give name= once, not in table_joined= as well; got 'other' and 'found'"),
        ({"partitioner": max}, "give partitioner= once, not in table_joined= as well; got <built-in function max> and"),
        ({"table_joined": TableJoined.as_("x")}, "join at .*: give table_joined= once; got TableJoined"),
        ({"foreign_key": None}, "partitioner= and other_partitioner= are for joins by a foreign key"),
    ],
)
def test_what_is_said_twice_of_tables_is_refused_and_both_are_named(keywords: dict[str, Any], said: str):
    with pytest.raises(TopologyError, match=said):
        joined("join", TableJoined.with_(by_key).with_name("found"), **keywords)


# --- streams with tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["join", "left_join"])
def test_a_stream_is_joined_with_a_table_as_a_joined_behind_the_joiner_says(method: str):
    builder, stream = source(value=int)
    prices = builder.table("prices", key=int, value=int)
    keyed = stream.select_key(lambda key, value: 7, key=int)
    getattr(keyed, method)(prices, lambda amount, price: amount * price, Joined.with_(int, int).with_name("priced")).to(
        "out"
    )
    described = builder.build().describe()
    assert "Processor: priced (stores: [" in described
    assert "topics: [priced-repartition]" in described
    ran = of_rows(builder, [("prices", 7, 3, 0), ("in", "a", 5, 1)])
    assert ran.output() == [(7, 15, 1)]


def test_what_is_said_twice_of_a_stream_and_a_table_is_refused_and_both_are_named():
    builder, stream = source(value=int)
    prices = builder.table("prices", value=int)
    given = Joined.with_name("one").with_grace_period(10)
    for keywords, said in [
        ({"name": "other"}, r"join at .*: give name= once, not in joined= as well; got 'other' and 'one'"),
        ({"grace": 5}, r"join at .*: give grace= once, not in joined= as well; got 5 and 10"),
        ({"joined": Joined.as_("x")}, r"join at .*: give joined= once; got Joined"),
    ]:
        with pytest.raises(TopologyError, match=said):
            stream.join(prices, max, given, **keywords)
    near = JoinWindows.of_time_difference_with_no_grace(5)
    with pytest.raises(TopologyError, match="joined= is for tables, but the other side is a stream"):
        stream.join(stream, max, near, joined=given)
    with pytest.raises(TopologyError, match="joined= is for tables, but the other side is a stream"):
        stream.join(stream, max, given)


def test_keys_of_a_joined_are_those_of_the_table():
    builder, stream = source(value=int)
    prices = builder.table("prices", key=int, value=int)
    made = stream.select_key(lambda key, value: 7).join(prices, max, Joined.with_key_serde(int))
    assert made._key == INT
