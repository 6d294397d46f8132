"""``Produced``: how a stream is written into a topic (KS-11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, Produced, StreamsBuilder, consume
from penstock.errors import TopologyError
from penstock.log.base import TopicInfo
from penstock.serdes import FLOAT, INT, STR
from support.flows import source
from support.world import World

pytestmark = pytest.mark.kip("KS-11")


def one(topic: str, key: Any, value: Any, partitions: int) -> int:
    assert topic == "out"
    return 1


def sink(topology: Any) -> Any:
    [written] = [node for node in topology.nodes if type(node).__name__.endswith("Sink")]
    return written


@pytest.mark.parametrize("topic", ["out", lambda key, value: "out"])
def test_a_topic_is_written_with_its_types(topic: Any):
    builder, stream = source(key=str, value=str)
    stream.to(topic, Produced.with_(int, float))
    written = sink(builder.build())
    assert (written.key, written.value) == (INT, FLOAT)


def test_types_that_it_does_not_say_are_the_streams_or_a_keywords():
    builder, stream = source(key=str, value=str)
    stream.to("out", produced=Produced.value_serde(int))
    written = sink(builder.build())
    assert (written.key, written.value) == (STR, INT)
    builder, stream = source(key=str, value=str)
    stream.to("out", Produced.key_serde(int), value=float)
    written = sink(builder.build())
    assert (written.key, written.value) == (INT, FLOAT)


def test_its_name_is_the_sinks_and_numbers_go_on_behind_it():
    builder, stream = source(value=str)
    stream.to("out", Produced.as_("writes"))
    stream.to("more")
    assert builder.build().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n"
        "      --> KSTREAM-SINK-0000000002, writes\n"
        "    Sink: KSTREAM-SINK-0000000002 (topic: more)\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
        "    Sink: writes (topic: out)\n"
        "      <-- KSTREAM-SOURCE-0000000000\n\n"
    )


@pytest.mark.parametrize(
    "produced",
    [
        Produced.stream_partitioner(one),
        Produced.as_("writes").with_stream_partitioner(one),
        Produced.with_(str, str, one),
    ],
)
def test_its_partitioner_chooses_the_partitions(tmp_path: Path, produced: Produced):
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(str, str)).to("out", produced)
    world = World(tmp_path, builder.build())
    world.log.create_topic(TopicInfo("in", 2, "str", "str"))
    world.produce(*"abcdefgh")
    world.start().run_until()
    assert sorted((r.key, r.partition) for r in consume("out", log=world.log)) == [(key, 1) for key in "abcdefgh"]


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"value": int}, r"to at .*test_produced.py:\d+: give value= once, not in produced= as well; got <serde int>"),
        ({"name": "other"}, "give name= once, not in produced= as well; got 'other' and 'writes'"),
        ({"partitioner": max}, "give partitioner= once, not in produced= as well; got <built-in function max> and <fu"),
        ({"produced": Produced.as_("other")}, "to at .*: give produced= once; got Produced"),
    ],
)
def test_what_is_said_twice_is_refused_and_both_are_named(keywords: dict[str, Any], said: str):
    _, stream = source(value=str)
    with pytest.raises(TopologyError, match=said):
        stream.to("out", Produced.with_(str, str, one).with_name("writes"), **keywords)
