"""Warnings of processors with stores whose records do not lie in the partitions of their keys."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from penstock import PartitioningWarning, Processor, Record, Stores, StreamsBuilder

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
