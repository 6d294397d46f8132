"""A table that is materialized in a store without versions is versioned no more, whatever the tables before it are.

Each program stands beside the same one without the store, where the table stays versioned. So does Kafka Streams.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock import KTable, Materialized, StreamsBuilder
from support.flows import Run

PLAIN, VERSIONED = {"store": "again"}, dict[str, Any]()


def versioned(builder: StreamsBuilder, topic: str) -> KTable:
    kept = Materialized.as_versioned(topic, history_retention=60_000)
    return builder.table(topic, key=str, value=str, materialized=kept)


def all_of(table: KTable, store: dict[str, Any]) -> KTable:
    return table.filter(lambda key, value: True, **store)


def joined(run: Run, store: dict[str, Any], right_is_versioned: bool) -> list[Any]:
    builder = StreamsBuilder()
    left = all_of(versioned(builder, "A"), store)
    right = versioned(builder, "B") if right_is_versioned else builder.table("B", key=str, value=str, store="B")
    left.join(right, lambda a, b: f"{a}|{b}").to_stream().to("out")
    rows = [
        ("A", "k", "a10", 10),
        ("B", "k", "b10", 10),
        ("A", "k", "a5", 5),
        ("B", "k", "b5", 5),
        ("B", "k", "b20", 20),
    ]
    return run(builder, rows).output()


@pytest.mark.kip("914-05")
def test_in_a_join_with_a_versioned_table_it_sends_on_what_is_out_of_order(run: Run):
    assert joined(run, VERSIONED, right_is_versioned=True) == [("k", "a10|b10", 10), ("k", "a10|b20", 20)]
    assert joined(run, PLAIN, right_is_versioned=True) == [
        ("k", "a10|b10", 10),
        ("k", "a5|b10", 10),
        ("k", "a5|b20", 20),
    ]


@pytest.mark.kip("914-06")
def test_in_a_join_with_a_table_without_versions_both_sides_send_on_what_is_out_of_order(run: Run):
    assert joined(run, VERSIONED, right_is_versioned=False) == [
        ("k", "a10|b10", 10),
        ("k", "a10|b5", 10),
        ("k", "a10|b20", 20),
    ]
    assert joined(run, PLAIN, right_is_versioned=False) == [
        ("k", "a10|b10", 10),
        ("k", "a5|b10", 10),
        ("k", "a5|b5", 5),
        ("k", "a5|b20", 20),
    ]


@pytest.mark.kip("914-08")
@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (VERSIONED, [("k", None, 1), ("k", "a2", 2), ("k", None, 3), ("k", None, 4)]),
        (PLAIN, [("k", "a2", 2), ("k", None, 3)]),
    ],
)
def test_a_filter_behind_it_sends_each_deletion_once(run: Run, store: dict[str, Any], expected: list[Any]):
    builder = StreamsBuilder()
    all_of(all_of(versioned(builder, "in"), store), {}).to_stream().to("out")
    assert run(builder, [("k", None, 1), ("k", "a2", 2), ("k", None, 3), ("k", None, 4)]).output() == expected


@pytest.mark.kip("914-09")
@pytest.mark.parametrize(("store", "out_of_order"), [(VERSIONED, []), (PLAIN, [("w", 0, 3), ("x", 1, 2)])])
def test_an_aggregate_of_it_counts_what_is_out_of_order(run: Run, store: dict[str, Any], out_of_order: list[Any]):
    builder = StreamsBuilder()
    grouped = all_of(versioned(builder, "in"), store).group_by(lambda key, value: (value, value), str, str)
    grouped.count("counts").to_stream().to("out")
    expected = [("v", 1, 1), ("v", 0, 3), ("w", 1, 3), *out_of_order]
    assert run(builder, [("k", "v", 1), ("k", "w", 3), ("k", "x", 2)]).output() == expected
