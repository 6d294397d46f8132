"""What is made of versioned tables is one only where it has a versioned store of its own.

The rows are Kafka Streams 4.4's own: what a stream finds in the made table, at its record's time or the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import KTable, Materialized, StreamsBuilder
from support.flows import Row, Run

pytestmark = pytest.mark.kip("914-02")

Made = Callable[[KTable, KTable, Materialized | None], KTable]

STORES = {
    "no store": None,
    "a plain store": Materialized.as_("made"),
    "a versioned store": Materialized.as_versioned("made", history_retention="1 minute"),
}


def pair(one: Any, other: Any) -> str:
    return f"{one}+{other}"


def group(table: KTable) -> Any:
    return table.group_by(lambda key, value: ("k", value), value=str)


def of_foreign_key(value: str) -> str:
    return value[0]


MADE: dict[str, Made] = {
    "join": lambda a, b, kept: a.join(b, pair, value=str, materialized=kept),
    "left_join": lambda a, b, kept: a.left_join(b, pair, value=str, materialized=kept),
    "outer_join": lambda a, b, kept: a.outer_join(b, pair, value=str, materialized=kept),
}
BY_FOREIGN_KEY: dict[str, Made] = {
    "join": lambda a, b, kept: a.join(b, pair, foreign_key=of_foreign_key, value=str, materialized=kept),
    "left_join": lambda a, b, kept: a.left_join(b, pair, foreign_key=of_foreign_key, value=str, materialized=kept),
}


def found(made: Made, kept: Materialized | None, run: Run, rows: list[Row]) -> list[Row]:
    """What a stream finds in a table that is made of two versioned ones."""
    builder = StreamsBuilder()
    stream = builder.stream("s", value=str)
    a, b = (
        builder.table(topic, value=str, materialized=Materialized.as_versioned(topic, history_retention="1 minute"))
        for topic in ("a", "b")
    )
    stream.left_join(made(a, b, kept), pair).to("out")
    return run(builder, rows).output()


JOINED = [
    # topic, key, value, timestamp
    ("a", "k", "k1", 1),
    ("b", "k", "b1", 1),
    ("s", "k", "s0", 0),
    ("s", "k", "s1", 1),
    ("a", "k", "k5", 5),
    ("s", "k", "s3", 3),
    ("b", "k", "b7", 7),
    ("s", "k", "s6", 6),
    ("a", "k", "k2", 2),
    ("s", "k", "s8", 8),
]
LATEST_JOINED = [
    ("k", "s0+k1+b1", 0),
    ("k", "s1+k1+b1", 1),
    ("k", "s3+k5+b1", 3),
    ("k", "s6+k5+b7", 6),
    ("k", "s8+k5+b7", 8),
]
JOINED_AS_OF = [
    ("k", "s0+None", 0),
    ("k", "s1+k1+b1", 1),
    ("k", "s3+k1+b1", 3),
    ("k", "s6+k5+b1", 6),
    ("k", "s8+k5+b7", 8),
]


@pytest.mark.parametrize("kept", STORES)
@pytest.mark.parametrize(
    "made",
    [*(pytest.param(made, id=name) for name, made in MADE.items())]
    + [pytest.param(made, id=f"foreign-key {name}") for name, made in BY_FOREIGN_KEY.items()],
)
def test_a_join_of_versioned_tables_is_one_only_in_a_versioned_store_of_its_own(run: Run, made: Made, kept: str):
    expected = JOINED_AS_OF if kept == "a versioned store" else LATEST_JOINED
    assert found(made, STORES[kept], run, JOINED) == expected


AGGREGATED = [
    ("a", "k", "v1", 1),
    ("s", "k", "s0", 0),
    ("s", "k", "s1", 1),
    ("a", "k", "v5", 5),
    ("s", "k", "s3", 3),
    ("a", "j", "w7", 7),
    ("s", "k", "s6", 6),
    ("a", "j", "w4", 4),
    ("s", "k", "s8", 8),
]


def texts(table: KTable, _: KTable, kept: Materialized | None) -> KTable:
    added = lambda key, value, text: f"{text}+{value}"  # noqa: E731
    removed = lambda key, value, text: f"{text}-{value}"  # noqa: E731
    return group(table).aggregate(str, added, removed, value=str, materialized=kept)


@pytest.mark.parametrize("kept", STORES)
def test_an_aggregate_of_a_versioned_table_is_one_only_in_a_versioned_store_of_its_own(run: Run, kept: str):
    as_of = [
        ("k", "s0+None", 0),
        ("k", "s1++v1", 1),
        ("k", "s3++v1", 3),
        ("k", "s6++v1-v1+v5", 6),
        ("k", "s8++v1-v1+v5+w7", 8),
    ]
    latest = [
        ("k", "s0++v1", 0),
        ("k", "s1++v1", 1),
        ("k", "s3++v1-v1+v5", 3),
        ("k", "s6++v1-v1+v5+w7", 6),
        ("k", "s8++v1-v1+v5+w7", 8),
    ]
    expected = as_of if kept == "a versioned store" else latest
    assert found(texts, STORES[kept], run, AGGREGATED) == expected


@pytest.mark.parametrize("kept", STORES)
def test_so_is_a_count(run: Run, kept: str):
    expected = ["s0+None", "s1+1", "s3+1", "s6+1", "s8+2"]
    if kept != "a versioned store":
        expected = ["s0+1", "s1+1", "s3+1", "s6+2", "s8+2"]
    counted = found(lambda table, _, store: group(table).count(materialized=store), STORES[kept], run, AGGREGATED)
    assert [value for _, value, _ in counted] == expected


# --- a filter behind it ----------------------------------------------------------------------------------------------

FILTERED = [
    # topic, key, value, timestamp
    ("b", "k", "b", 1),
    ("a", "k", "k yes", 1),
    ("a", "k", "k no", 2),
    ("a", "k", "k none", 3),
    ("a", "k", "k yes", 4),
]
ONE_DELETION = [("k", "k yes+b", 1), ("k", None, 2), ("k", "k yes+b", 4)]
EVERY_DELETION = [("k", "k yes+b", 1), ("k", None, 2), ("k", None, 3), ("k", "k yes+b", 4)]


def filtered(made: Made, kept: Materialized | None, run: Run) -> list[Row]:
    """What a filter lets through of a table that is made of two versioned ones."""
    builder = StreamsBuilder()
    a, b = (
        builder.table(topic, value=str, materialized=Materialized.as_versioned(topic, history_retention="1 minute"))
        for topic in ("a", "b")
    )
    made(a, b, kept).filter(lambda key, value: "yes" in value).to_stream().to("out")
    return run(builder, FILTERED).output()


@pytest.mark.parametrize("kept", STORES)
@pytest.mark.parametrize("made", ["join", "left_join"])
def test_a_filter_of_a_join_keeps_repeated_deletions_only_behind_a_versioned_store(run: Run, made: str, kept: str):
    expected = EVERY_DELETION if kept == "a versioned store" else ONE_DELETION
    assert filtered(MADE[made], STORES[kept], run) == expected


@pytest.mark.parametrize("kept", STORES)
@pytest.mark.parametrize("made", BY_FOREIGN_KEY)
def test_one_of_a_foreign_key_join_does_also_where_no_store_has_the_old_value(run: Run, made: str, kept: str):
    expected = ONE_DELETION if kept == "a plain store" else EVERY_DELETION
    assert filtered(BY_FOREIGN_KEY[made], STORES[kept], run) == expected


@pytest.mark.parametrize("kept", STORES)
def test_one_of_an_aggregate_does_only_behind_a_versioned_store(run: Run, kept: str):
    of_none_that_passes = lambda table, _, store: group(table).count(materialized=store).map_values(str, value=str)  # noqa: E731
    deletions = [("k", None, 1), ("k", None, 2), ("k", None, 3), ("k", None, 4)]
    assert filtered(of_none_that_passes, STORES[kept], run) == (deletions if kept == "a versioned store" else [])
