"""How a topology is laid out over the topics of a log."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

from penstock import (
    Deduplicated,
    PartitioningWarning,
    Processor,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
)
from penstock.engine.commit.topics import create_sink_topics
from penstock.engine.shared.layout import layout_of
from penstock.errors import TopicNotFoundError
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.settings import Settings
from penstock.testing import TopologyTestDriver


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


def cogrouped(builder: StreamsBuilder, left: str, right: str) -> None:
    grouped = builder.stream(left, key=str, value=int).group_by_key()
    both = grouped.cogroup(lambda key, value, total: total + value)
    both = both.cogroup(builder.stream(right, key=str, value=int).group_by_key(), lambda key, value, total: total)
    both.aggregate(int, value=int, name="sums").to_stream().to("out")


def test_streams_that_are_aggregated_together_need_the_same_number_of_partitions():
    log, topology = joined(lambda builder: cogrouped(builder, "four", "two"))
    with pytest.raises(TopologyError) as refused:
        layout_of(topology, log)
    assert re.sub(re.escape(__file__) + r":\d+", "HERE", str(refused.value)) == (
        "the aggregation 'sums-cogroup-merge' at HERE needs topics with the same number of partitions, so that equal "
        "keys meet in one task, but 'four' has 4, 'two' has 2; send one side through repartition(partitions=...)"
    )


def test_a_group_by_new_keys_has_as_many_partitions_as_the_stream_that_it_is_aggregated_with():
    def build(builder):
        moved = builder.stream("four", key=str, value=int).group_by(lambda key, value: key, key=str, name="moved")
        both = moved.cogroup(lambda key, value, total: total + value)
        other = builder.stream("two", key=str, value=int).group_by_key()
        both.cogroup(other, lambda key, value, total: total).aggregate(int, value=int).to_stream().to("out")

    log, topology = joined(build)
    assert layout_of(topology, log).partitions["moved-repartition"] == 2


# --- topics with different numbers of partitions that nothing joins ---------------------------------------------------


class Counted(Processor):
    def process(self, record):
        raise AssertionError("nothing comes")


def added(builder):
    spec = Stores.key_value_store_builder(Stores.persistent_key_value_store("kept"), str, int)
    return builder.add_state_store(spec)


def merged(builder):
    return builder.stream("four", key=str, value=int).merge(builder.stream("two", key=str, value=int))


def both_topics(builder):
    return builder.stream(["four", "two"], key=str, value=int)


UNEVEN = {
    "a merge that is counted": lambda b: merged(b).group_by_key().count("kept"),
    "two topics that are counted": lambda b: both_topics(b).group_by_key().count("kept"),
    "two topics by a pattern": lambda b: b.stream(re.compile("four|two"), key=str, value=int).to_table(store="kept"),
    "a deduplication": lambda b: both_topics(b).deduplicate_by_key("1 h", Deduplicated(store_name="kept")),
    "a window": lambda b: (
        both_topics(b).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count("kept")
    ),
    "processors that share a store": lambda b: (
        added(b).stream("four", key=str, value=int).process(Counted, "kept"),
        b.stream("two", key=str, value=int).process(Counted, "kept"),
    ),
    "a processor with a table's store": lambda b: (
        b.table("four", key=str, value=int, store="kept"),
        b.stream("two", key=str, value=int).process_values(Counted, "kept"),
    ),
}


def told(use) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        use()
    assert {(one.category, one.filename) for one in found} <= {(PartitioningWarning, __file__)}
    return [str(one.message) for one in found]


@pytest.mark.parametrize("name", UNEVEN)
def test_a_store_behind_topics_with_different_numbers_of_partitions_is_warned_of_once(name: str):
    log, topology = joined(UNEVEN[name])
    topology = topology.expanded(log.topics())
    [text] = told(lambda: layout_of(topology, log))
    assert (
        "has the store 'kept' for the records of topics with different numbers of partitions: 'four' has 4, 'two' has "
        "2. The rows of one key lie in several tasks, each with a part of them. Give the topics the same number, or "
        "put .repartition() in front of the step. If it is meant so: warnings.filterwarnings('ignore', "
    ) in text
    assert told(lambda: layout_of(topology, log)) == []


@pytest.mark.parametrize(
    "build",
    [
        lambda b: merged(b).filter(lambda key, value: True).to("out"),
        lambda b: merged(b).repartition().group_by_key().count(),
        lambda b: merged(b).group_by(lambda key, value: key, key=str).count(),
        lambda b: (b.table("four", value=int, store="one"), b.table("two", value=int, store="other")),
        lambda b: (b.global_table("four", value=int, store="one"), b.table("two", value=int, store="other")),
    ],
)
def test_where_topics_do_not_meet_in_a_store_nothing_is_said(build):
    log, topology = joined(build)
    assert told(lambda: layout_of(topology, log)) == []


def test_the_driver_warns_of_it_as_an_application_does():
    _, topology = joined(UNEVEN["a merge that is counted"])
    [text] = told(lambda: TopologyTestDriver(topology, partitions={"four": 4, "two": 2}))
    assert "'four' has 4, 'two' has 2" in text


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
