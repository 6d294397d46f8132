"""Warnings of processors with stores whose records do not lie in the partitions of their keys."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    FixedKeyProcessor,
    JoinWindows,
    PartitioningWarning,
    ProcessingError,
    Processor,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
)
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.kip("KS-01", "KIP-655")


def forward(record: Record, context: Any) -> None:
    context.forward(record)


def warned(steps: Callable[[Any], Any]) -> list[str]:
    """The texts of the warnings of a program whose stream ends in a processor with the store ``counts``."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), str, int))
    stream = steps(builder.stream("in", key=str, value=dict))
    stream.process(forward, "counts", key=str, value=dict).to("out")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        builder.build()
    assert {one.category for one in found} <= {PartitioningWarning}
    assert all(one.filename == __file__ or one.filename.endswith("test_partitioning.py") for one in found)
    return [str(one.message) for one in found]


MOVING = {
    "select_key": lambda s: s.select_key(lambda k, v: v["id"], key=str),
    "map": lambda s: s.map(lambda k, v: (v["id"], v), key=str, value=dict),
    "flat_map": lambda s: s.flat_map(lambda k, v: [(v["id"], v)], key=str, value=dict),
    "process": lambda s: s.process(forward, key=str, value=dict),
    "deduplicate": lambda s: s.deduplicate("id", "1 h"),
}


@pytest.mark.parametrize("method", MOVING)
def test_a_processor_with_a_store_behind_a_step_that_changes_keys_is_warned_of(method: str) -> None:
    [text] = warned(MOVING[method])
    assert text.startswith("process at ")
    assert f"has the store 'counts', and {method} at " in text
    assert "Put .repartition() in between" in text
    assert "filterwarnings('ignore', category=penstock.PartitioningWarning)" in text


def test_a_table_whose_stream_gets_other_keys_is_warned_of_in_its_line() -> None:
    [text] = warned(lambda s: s.to_table().to_stream(lambda k, v: v["id"], key=str))
    assert f" at {__file__}:" in text.partition(", and ")[2]
    assert "gives records other keys, and they stay in the partitions of the old ones" in text


@pytest.mark.parametrize(
    "steps",
    [
        lambda s: s.filter(lambda k, v: True).map_values(lambda v: v, value=dict),
        lambda s: s.process_values(forward),
        lambda s: s.deduplicate_by_key_value("id", "1 h"),
        lambda s: s.deduplicate_by_key("1 h"),
        lambda s: s.select_key(lambda k, v: v["id"], key=str).repartition(),
        lambda s: MOVING["deduplicate"](s).repartition().peek(lambda k, v: None),
        lambda s: s.select_key(lambda k, v: v["id"], key=str).to_table().to_stream(),
        lambda s: s.group_by(lambda k, v: v["id"], key=str).reduce(lambda a, b: b).to_stream(),
    ],
)
def test_where_records_lie_in_the_partitions_of_their_keys_nothing_is_said(steps: Callable[[Any], Any]) -> None:
    assert warned(steps) == []


def test_what_merges_or_splits_or_keeps_keys_in_between_hides_nothing() -> None:
    def merged(stream: Any) -> Any:
        moved = stream.map(lambda k, v: (v["id"], v), key=str, value=dict)
        return stream.merge(MOVING["deduplicate"](stream)).merge(moved).filter(lambda k, v: True)

    first, second = warned(merged)
    assert "deduplicate_by_key_value(...)" in first
    assert "gives records other keys" in second


def test_processors_without_stores_are_not_warned_of() -> None:
    builder = StreamsBuilder()
    moved = builder.stream("in", key=str, value=dict).select_key(lambda k, v: v["id"], key=str)
    moved.process(forward, key=str, value=dict).to("out")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        builder.build()


def test_process_values_and_stores_of_tables_and_of_suppliers_count_too() -> None:
    class Forward(Processor):
        def process(self, record: Record) -> None:
            raise AssertionError("nothing comes")

    class Supplier:
        def get(self) -> Any:
            return Forward()

        def stores(self) -> list[Any]:
            return [Stores.key_value_store_builder(Stores.persistent_key_value_store("own"), str, int)]

    builder = StreamsBuilder()
    builder.table("rows", key=str, value=dict, store="rows")
    moved = builder.stream("in", key=str, value=dict).select_key(lambda k, v: v["id"], key=str)
    moved.process_values(forward, "rows").to("out")
    moved.process(Supplier(), key=str, value=dict).to("others")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        builder.build()
    texts = [str(one.message) for one in found]
    assert [text.partition(" at ")[0] for text in texts] == ["process_values", "process"]
    assert [name in text for name, text in zip(("'rows'", "'own'"), texts, strict=True)] == [True, True]


def test_the_warning_can_be_silenced() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=PartitioningWarning)
        builder = StreamsBuilder()
        builder.table("rows", key=str, value=dict, store="rows")
        moved = builder.stream("in", key=str, value=dict).select_key(lambda k, v: v["id"], key=str)
        moved.process_values(forward, "rows").to("out")
        builder.build()


# --- topologies by hand ----------------------------------------------------------------------------------------------


def store() -> Any:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), str, int)


class Renamed(Processor):
    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record.with_key("x"))


class Kept(FixedKeyProcessor):
    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record)


class Cheated(Renamed, FixedKeyProcessor):
    """Says that it keeps keys, and does not."""


def by_hand(first: Any) -> Topology:
    topology = Topology().add_source("in", "in", key=str, value=int).add_processor("first", first, "in")
    topology.add_processor("counted", forward, "first").add_state_store(store(), "counted")
    return topology.add_sink("to-out", "out", "counted")


def warnings_of(use: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        use()
    assert {one.category for one in found} <= {PartitioningWarning}
    assert all(one.filename.endswith("test_partitioning.py") for one in found)
    return [str(one.message) for one in found]


@pytest.mark.parametrize("first", [Renamed, forward, lambda: Renamed()])
def test_a_processor_by_hand_with_a_store_behind_one_that_may_change_keys_is_warned_of_once(first: Any) -> None:
    topology = by_hand(first)
    [text] = warnings_of(lambda: TopologyTestDriver(topology))
    assert text.startswith("the processor 'counted' at ")
    assert "has the store 'counts', and the processor 'first' at " in text
    assert "may forward records under other keys, which stay in the partitions of the old ones" in text
    assert (
        "Send the records through a topic in between, with add_sink and add_source; if the keys stay the same, make a "
        "FixedKeyProcessor class of 'first'. If it is meant so: warnings.filterwarnings('ignore'"
    ) in text
    assert warnings_of(lambda: TopologyTestDriver(topology)) == []
    assert warnings_of(topology.describe) == []


def test_a_step_of_the_dsl_that_changes_keys_before_a_processor_by_hand_is_warned_of() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).select_key(lambda key, value: "x", key=str, name="moved")
    topology = builder.build()
    topology.add_processor("counted", forward, "moved").add_state_store(store(), "counted")
    [text] = warnings_of(lambda: TopologyTestDriver(topology))
    assert text.startswith("the processor 'counted' at ")
    assert "select_key at " in text
    assert "Put .repartition() in between. If it is meant so" in text


def test_by_hand_a_processor_that_keeps_keys_or_a_topic_in_between_says_so() -> None:
    assert warnings_of(lambda: TopologyTestDriver(by_hand(Kept))) == []
    topology = Topology().add_source("in", "in", key=str, value=int).add_processor("first", Renamed, "in")
    topology.add_sink("to-mid", "mid", "first").add_source("mid", "mid", key=str, value=int)
    topology.add_processor("counted", forward, "mid").add_state_store(store(), "counted")
    topology.add_sink("to-out", "out", "counted")
    assert warnings_of(lambda: TopologyTestDriver(topology)) == []


def test_by_hand_a_processor_that_says_that_it_keeps_keys_and_changes_one_fails() -> None:
    with pytest.raises(ProcessingError, match="key"):
        TopologyTestDriver(by_hand(Cheated)).pipe_input("in", "a", 1)


def test_a_topology_that_is_warned_of_when_it_is_built_is_not_warned_of_again() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(store())
    moved = builder.stream("in", key=str, value=int).select_key(lambda key, value: "x", key=str)
    moved.process(forward, "counts").to("out")
    built: list[Topology] = []
    assert len(warnings_of(lambda: built.append(builder.build()))) == 1
    assert warnings_of(lambda: TopologyTestDriver(built[0], partitions=2)) == []


# --- joins -----------------------------------------------------------------------------------------------------------


def by_value(topic: str, key: Any, value: Any, partitions: int) -> int:
    return int(value) % partitions


def by_key(topic: str, key: Any, value: Any, partitions: int) -> int:
    return len(key) % partitions


def two(left: Any, right: Any) -> str:
    return f"{left} {right}"


WITHIN = JoinWindows.of_time_difference_with_no_grace(10)


def joined(build: Callable[[Any, Any], Any]) -> list[str]:
    builder = StreamsBuilder()
    left, right = builder.stream("left", key=str, value=int), builder.stream("right", key=str, value=int)
    build(left, right)
    return warnings_of(builder.build)


TWO_WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "streams": lambda left, right: left.repartition("l", partitioner=by_value).join(right, two, WITHIN, value=str),
    "the other side": lambda left, right: left.join(
        right.repartition("l", partitioner=by_value), two, WITHIN, value=str
    ),
    "a table": lambda left, right: left.repartition("l", partitioner=by_value).left_join(
        right.to_table(), two, value=str
    ),
    "two functions": lambda left, right: left.repartition("l", partitioner=by_value).join(
        right.repartition("r", partitioner=by_key), two, WITHIN, value=str
    ),
    "a repartition that is put in": lambda left, right: left.repartition("l", partitioner=by_value).join(
        right.select_key(lambda key, value: "x", key=str), two, WITHIN, value=str
    ),
    "tables": lambda left, right: (
        left.repartition("l", partitioner=by_value).to_table().outer_join(right.to_table(), two, value=str)
    ),
    "a cogroup": lambda left, right: (
        left.repartition("l", partitioner=by_value)
        .group_by_key()
        .cogroup(lambda key, value, total: total + value)
        .cogroup(right.group_by_key(), lambda key, value, total: total - value)
        .aggregate(int, value=int)
    ),
}


@pytest.mark.parametrize("name", TWO_WAYS)
def test_a_join_of_streams_that_are_partitioned_in_two_ways_is_warned_of(name: str) -> None:
    [text] = joined(TWO_WAYS[name])
    what = "the aggregation" if name == "a cogroup" else "the join"
    assert text.startswith(f"{what} at {__file__}:")
    assert "gets records that are partitioned in two ways: " in text
    assert f"through topic 'l-repartition' by by_value at {__file__}:" in text
    assert "equal keys do not meet in one task. Give both sides the same partitioner" in text


def test_a_topic_that_the_program_partitions_itself_counts_as_well() -> None:
    builder = StreamsBuilder()
    builder.stream("left", key=str, value=int).to("mid", partitioner=by_value)
    table = builder.table("right", key=str, value=int)
    builder.stream("mid", key=str, value=int).join(table, two, value=str).to("out")
    [text] = warnings_of(builder.build)
    assert f"in topic 'mid' by by_value at {__file__}:" in text
    assert "and in topic 'right' by Kafka's partitioner" in text


@pytest.mark.parametrize(
    "build",
    [
        lambda left, right: left.join(right, two, WITHIN, value=str),
        lambda left, right: left.repartition(partitioner=by_key).join(
            right.repartition(partitioner=by_key), two, WITHIN, value=str
        ),
        lambda left, right: left.repartition(partitioner=by_value).repartition().join(right, two, WITHIN, value=str),
        lambda left, right: left.repartition(partitioner=by_value).merge(right),
        lambda left, right: left.to_table().join(
            right.to_table(), two, foreign_key=lambda value: "x", partitioner=by_key, value=str
        ),
    ],
)
def test_of_streams_that_are_partitioned_in_one_way_nothing_is_said(build: Callable[[Any, Any], Any]) -> None:
    assert joined(build) == []
