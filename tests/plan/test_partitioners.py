"""Warnings of keyed steps behind partitioners that look at more than the key: equal keys lie in several partitions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock import PartitioningWarning, Record, Stores, StreamsBuilder
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.kip("KS-01")


def forward(record: Record, context: Any) -> None:
    context.forward(record)


def by_value(topic: str, key: str, value: Any, partitions: int) -> int:
    return value["id"] % partitions


def by_value_alone(key: str, value: Any, partitions: int) -> int:
    return value["id"] % partitions


def by_headers(topic: str, key: str, value: Any, headers: Any, partitions: int) -> int:
    return len(headers) % partitions


class ByValue:
    def partitions(self, topic: str, key: str, value: Any, partitions: int) -> set[int]:
        return {other["id"] for other in [value]}


def by_key(topic: str, key: str, value: Any, partitions: int) -> int:
    return len(key) % partitions


KEYED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "count": ("counts", lambda s: s.group_by_key().count("counts")),
    "reduce": ("kept", lambda s: s.group_by_key().reduce(lambda one, other: other, store="kept")),
    "to_table": ("rows", lambda s: s.filter(lambda k, v: True).to_table("rows")),
    "deduplicate_by_key": ("KSTREAM", lambda s: s.deduplicate_by_key("1 h")),
    "process": ("counts", lambda s: s.process(forward, "counts")),
}


def warned_of(build: Callable[[StreamsBuilder, Any], Any]) -> list[str]:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("added"), str, int))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        build(builder, builder.stream("in", key=str, value=dict))
        builder.build()
    assert {one.category for one in found} <= {PartitioningWarning}
    return [str(one.message) for one in found]


@pytest.mark.parametrize("partitioner", [by_value, by_value_alone, by_headers, ByValue(), ByValue().partitions])
def test_a_keyed_step_behind_a_partitioner_that_looks_at_more_than_the_key_is_warned_of(partitioner: Any) -> None:
    name = getattr(getattr(partitioner, "partitions", partitioner), "__qualname__", "")
    [text] = warned_of(lambda b, s: s.repartition(partitioner=partitioner, name="r").group_by_key().count("counts"))
    assert re.sub(re.escape(__file__) + r":\d+", "HERE", text) == (
        "KSTREAM-AGGREGATE-0000000004 at HERE has the store 'counts', and its records come through topic "
        f"'r-repartition' by the partitioner {name} at HERE, which looks at more than the key. With several partitions "
        "the rows of one key lie in several tasks, each with a part of them. Have the partitioner look at the key "
        "alone, or put .repartition() in "
        "between. If it is meant so: warnings.filterwarnings('ignore', category=penstock.PartitioningWarning)"
    )


@pytest.mark.parametrize("method", KEYED)
def test_so_is_every_kind_of_keyed_step(method: str) -> None:
    store, step = KEYED[method]

    def build(builder: StreamsBuilder, stream: Any) -> None:
        if method == "process":
            described = Stores.persistent_key_value_store("counts")
            builder.add_state_store(Stores.key_value_store_builder(described, str, int))
        step(stream.repartition(partitioner=by_value))

    [text] = warned_of(build)
    assert f" at {__file__}:" in text.partition(" has the store ")[0]
    assert f"has the store '{store}" in text


def test_so_is_one_behind_a_topic_that_the_program_writes_in_such_a_way() -> None:
    def through(builder: StreamsBuilder, stream: Any) -> None:
        stream.to("between", partitioner=by_value)
        builder.stream("between", key=str, value=dict).group_by_key().count("counts")

    [text] = warned_of(through)
    assert "its records come through topic 'between' by the partitioner by_value at" in text


@pytest.mark.parametrize(
    "build",
    [
        lambda b, s: s.repartition(partitioner=by_key).group_by_key().count(),
        lambda b, s: s.repartition(partitioner=by_value).to("out"),
        lambda b, s: s.repartition(partitioner=by_value).repartition().group_by_key().count(),
        lambda b, s: s.repartition(partitioner=by_value).group_by(lambda k, v: v["id"], key=str).count(),
        lambda b, s: s.to("out", partitioner=by_value),
        lambda b, s: s.repartition(partitioner=partial(by_value)).group_by_key().count(),  # nobody can look inside
    ],
)
def test_a_partitioner_that_parts_no_keys_is_not_warned_of(build: Callable[[StreamsBuilder, Any], Any]) -> None:
    assert warned_of(build) == []


def test_such_a_count_is_one_for_each_partition_as_in_kafka_streams() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict).repartition(partitioner=by_value)
    stream.group_by_key().count().to_stream().to("out")
    with pytest.warns(PartitioningWarning):
        driver = TopologyTestDriver(builder.build(), partitions=2)
    for number in range(4):
        driver.pipe_input("in", "a", {"id": number}, number)
    assert [record.value for record in driver.read_output("out")] == [1, 1, 2, 2]
