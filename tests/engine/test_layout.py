"""How a topology is laid out over the topics of a log."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import StreamsBuilder, Topology, TopologyError
from penstock.engine.commit.topics import create_sink_topics
from penstock.engine.shared.layout import layout_of
from penstock.errors import TopicNotFoundError
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.settings import Settings


def test_without_a_source_topic_no_output_topic_is_made():
    builder = StreamsBuilder()
    builder.stream(["here", "missing"]).to("out")
    log = MemoryLog()
    log.create_topic(TopicInfo("here", 2))
    with pytest.raises(TopicNotFoundError, match="'missing'"):
        create_sink_topics(builder.build(), log, Settings(on_error="dead_letter:failed"))
    assert log.topics() == ["here"]


def test_output_topics_have_the_types_of_their_sinks_and_as_many_partitions_as_the_widest_source():
    builder = StreamsBuilder()
    builder.stream(["narrow", "wide"], value=str).map(lambda key, value: (1, 0.5), key=int, value=float).to("again")
    builder.stream("again", key=int, value=float).to("out")
    log = MemoryLog()
    log.create_topic(TopicInfo("narrow", 1))
    log.create_topic(TopicInfo("wide", 3))
    create_sink_topics(builder.build(), log, Settings(on_error="dead_letter:failed"))
    assert [log.topic(name) for name in log.topics()] == [
        TopicInfo("again", 3, "int", "float"),
        TopicInfo("failed", 3, "bytes", "bytes"),
        TopicInfo("narrow", 1),
        TopicInfo("out", 3, "int", "float"),
        TopicInfo("wide", 3),
    ]


# --- joins -----------------------------------------------------------------------------------------------------------


def joined(build: Any) -> tuple[MemoryLog, Topology]:
    log = MemoryLog()
    log.create_topic(TopicInfo("four", 4))
    log.create_topic(TopicInfo("two", 2))
    builder = StreamsBuilder()
    build(builder)
    return log, builder.build()


def test_topics_that_are_joined_need_the_same_number_of_partitions():
    def build(builder):
        builder.stream("four").join(builder.table("two"), lambda value, other: value, name="both").to("out")

    log, topology = joined(build)
    with pytest.raises(TopologyError, match=r"the join 'both' at .* but 'four' has 4, 'two' has 2; send one side"):
        layout_of(topology, log)


def test_a_repartition_topic_has_as_many_partitions_as_the_topic_it_is_joined_with():
    def build(builder):
        stream = builder.stream("four").select_key(lambda key, value: value)
        stream.join(builder.table("two"), lambda value, other: value, name="both").to("out")

    log, topology = joined(build)
    layout = layout_of(topology, log)
    assert layout.partitions == {"four": 4, "two": 2, "both-repartition": 2}
    assert layout.tasks == {0: 4, 1: 2}


def test_a_global_table_has_no_tasks_and_any_number_of_partitions():
    def build(builder):
        table = builder.global_table("two")
        builder.stream("four").join(table, lambda value, other: value, key_selector=lambda key, value: key).to("out")

    log, topology = joined(build)
    assert layout_of(topology, log).tasks == {sub.id: 4 for sub in topology.sub_topologies if not sub.is_global}
