"""Joins of streams with tables, plain and versioned, at once and after a grace period."""

from typing import Any

import pytest

from penstock import Joined, Materialized, StreamsBuilder, ValueTransformerWithKey, columnar
from support.flows import Run


def pair(value, other):
    return f"{value}+{other}"


def joined(kept: Materialized | None = None, left: bool = False, **options) -> StreamsBuilder:
    """A stream ``s`` joined with a table of ``t``."""
    builder = StreamsBuilder()
    stream, table = builder.stream("s", value=str), builder.table("t", value=str, materialized=kept)
    (stream.left_join if left else stream.join)(table, pair, name="join", **options).to("out")
    return builder


def versioned(history_retention: int = 1000) -> Materialized:
    return Materialized.as_versioned("versions", history_retention=history_retention)


ROWS = [
    # topic, key, value, timestamp
    ("s", "k", "s1", 1),
    ("t", "k", "t10", 10),
    ("s", "k", "s5", 5),  # before the table's first value
    ("t", "k", "t20", 20),
    ("s", "k", "s15", 15),  # out of order
    ("t", "k", "t12", 12),  # out of order, too
    ("s", "k", "S15", 15),
    ("s", "k", "s25", 25),
    ("t", "k", None, 30),
    ("s", "k", "s29", 29),
    ("s", "k", "s30", 30),
    ("s", "other", "x", 40),
]


@pytest.mark.kip("914-03")
def test_a_plain_table_is_looked_up_as_it_is_when_the_record_comes(run: Run):
    assert run(joined(Materialized.as_("rows")), ROWS).output() == [
        ("k", "s5+t10", 5),
        ("k", "s15+t20", 15),
        ("k", "S15+t12", 15),
        ("k", "s25+t12", 25),
    ]


@pytest.mark.kip("914-03")
def test_a_versioned_table_is_looked_up_as_of_the_records_time(run: Run):
    assert run(joined(versioned()), ROWS).output() == [
        ("k", "s15+t10", 15),
        ("k", "S15+t12", 15),
        ("k", "s25+t20", 25),
        ("k", "s29+t20", 29),
    ]


@pytest.mark.kip("914-03")
def test_a_left_join_keeps_records_that_find_nothing(run: Run):
    assert run(joined(versioned(), left=True), ROWS).output() == [
        ("k", "s1+None", 1),
        ("k", "s5+None", 5),
        ("k", "s15+t10", 15),
        ("k", "S15+t12", 15),
        ("k", "s25+t20", 25),
        ("k", "s29+t20", 29),
        ("k", "s30+None", 30),
        ("other", "x+None", 40),
    ]


BEYOND = [
    ("t", "k", "t0", 0),
    ("t", "k", "t50", 50),
    ("t", "j", "j120", 120),
    ("s", "k", "s19", 19),  # older than stream time 120 - 100
    ("s", "k", "s20", 20),
    ("s", "k", "s60", 60),
    ("t", "j", "j500", 500),
    ("s", "k", "S60", 60),  # old, but the latest version is still found
    ("s", "k", "S49", 49),
]


@pytest.mark.kip("914-04")
def test_a_record_older_than_the_history_retention_finds_only_a_latest_version(run: Run):
    assert run(joined(versioned(100)), BEYOND).output() == [
        ("k", "s20+t0", 20),
        ("k", "s60+t50", 60),
        ("k", "S60+t50", 60),
    ]
    ran = run(joined(versioned(100), left=True), BEYOND)
    assert ran.output() == [
        ("k", "s19+None", 19),
        ("k", "s20+t0", 20),
        ("k", "s60+t50", 60),
        ("k", "S60+t50", 60),
        ("k", "S49+None", 49),
    ]
    assert ran.dropped() == {}
    assert ran.counted("beyond-history-lookups-total") == {("versions", "versioned"): 2}


NULLS = [
    ("t", "k", "t", 1),
    ("s", None, "x", 2),
    ("s", "k", None, 3),
    ("s", None, None, 4),
    ("s", "k", "y", 5),
]


def test_records_without_a_key_or_a_value_are_dropped_and_counted(run: Run):
    ran = run(joined(), NULLS)
    assert ran.output() == [("k", "y+t", 5)]
    assert ran.dropped() == {("join", "null-key"): 2, ("join", "null-value"): 1}


@pytest.mark.parametrize("kept", [None, versioned()])
def test_a_left_join_keeps_records_without_a_key(run: Run, kept: Materialized | None):
    ran = run(joined(kept, left=True), NULLS)
    assert ran.output() == [(None, "x+None", 2), ("k", "y+t", 5)]
    assert ran.dropped() == {("join", "null-value"): 2}


@pytest.mark.kip("914-01", "914-08")
def test_through_filters_and_maps_a_versioned_table_stays_one(run: Run):
    builder = StreamsBuilder()
    stream, table = builder.stream("s", value=str), builder.table("t", value=str, materialized=versioned())
    table = table.filter(lambda key, value: value != "t10").map_values(str.upper, value=str)
    stream.left_join(table, pair).to("out")
    assert run(builder, ROWS).output() == [
        ("k", "s1+None", 1),
        ("k", "s5+None", 5),
        ("k", "s15+None", 15),
        ("k", "S15+T12", 15),
        ("k", "s25+T20", 25),
        ("k", "s29+T20", 29),
        ("k", "s30+None", 30),
        ("other", "x+None", 40),
    ]


class Upper(ValueTransformerWithKey[str, str]):
    def transform(self, key: str, value: str | None) -> str | None:
        return value and value.upper()


PLAIN_AGAIN = [("k", "s5+T10", 5), ("k", "s15+T20", 15), ("k", "S15+T12", 15), ("k", "s25+T12", 25)]
STILL_VERSIONED = [("k", "s15+T10", 15), ("k", "S15+T12", 15), ("k", "s25+T20", 25), ("k", "s29+T20", 29)]


@pytest.mark.kip("914-02")
@pytest.mark.parametrize(("store", "expected"), [(None, STILL_VERSIONED), ("plain", PLAIN_AGAIN)])
def test_transformed_values_keep_versions_unless_they_are_materialized_anew(run: Run, store: str | None, expected: Any):
    builder = StreamsBuilder()
    stream, table = builder.stream("s", value=str), builder.table("t", value=str, materialized=versioned())
    stream.join(table.transform_values(Upper, value=str, store=store), pair).to("out")
    assert run(builder, ROWS).output() == expected


@pytest.mark.kip("914-02")
def test_a_stream_of_a_versioned_table_makes_a_plain_one_again(run: Run):
    builder = StreamsBuilder()
    stream, table = builder.stream("s", value=str), builder.table("t", value=str, materialized=versioned())
    stream.join(table.map_values(str.upper, value=str).to_stream().to_table(), pair).to("out")
    assert run(builder, ROWS).output() == PLAIN_AGAIN


@pytest.mark.kip("914-02")
def test_materialized_anew_without_versions_it_is_plain_again(run: Run):
    builder = StreamsBuilder()
    stream, table = builder.stream("s", value=str), builder.table("t", value=str, materialized=versioned())
    stream.join(table.map_values(str.upper, value=str, store="plain"), pair).to("out")
    assert run(builder, ROWS).output() == [
        ("k", "s5+T10", 5),
        ("k", "s15+T20", 15),
        ("k", "S15+T12", 15),
        ("k", "s25+T12", 25),
    ]


def test_a_stream_may_be_joined_with_the_table_that_it_makes(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.join(stream.to_table(materialized=versioned()), pair).to("out")
    assert run(builder, [("k", "a", 10), ("k", "b", 5), ("k", "c", 7), ("k", "d", 7)]).output() == [
        ("k", "a+a", 10),
        ("k", "b+b", 5),
        ("k", "c+c", 7),
        ("k", "d+d", 7),
    ]


def test_joins_one_after_the_other_with_counts_and_with_their_own_source(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    counts = stream.group_by_key().count("counts")
    lengths = stream.to_table("rows").map_values(len, value=int)
    stream.join(counts, lambda key, value, count: f"{key}{value}{count}", value=str).join(lengths, pair, value=str).to(
        "out"
    )
    assert run(builder, [("k", "a", 1), ("j", "bb", 2), ("k", "ccc", 3)]).output() == [
        ("k", "ka1+1", 1),
        ("j", "jbb1+2", 2),
        ("k", "kccc2+3", 3),
    ]


def test_after_a_new_key_the_stream_is_repartitioned(run: Run):
    builder = StreamsBuilder()
    stream, table = builder.stream("s", value=str), builder.table("t", value=str)
    stream.select_key(lambda key, value: value[0]).left_join(table, pair, joined=Joined.with_name("mine")).to("out")
    topology = builder.build()
    assert topology.internal_topics == {"mine-repartition"}
    assert run(topology, [("t", "k", "t", 1), ("s", "x", "ka", 2), ("s", "x", "ja", 3)]).output() == [
        ("k", "ka+t", 2),
        ("j", "ja+None", 3),
    ]


def test_a_joiner_may_work_on_columns(run: Run):
    import pyarrow.compute as pc

    builder = StreamsBuilder()
    amounts, prices = builder.stream("s", value=int), builder.table("t", value=int)
    amounts.join(prices, columnar(lambda amount, price: pc.multiply(amount, price)), value=int).to("out")
    assert run(builder, [("t", "k", 3, 1), ("s", "k", 5, 2), ("t", "k", 4, 3), ("s", "k", 6, 4)]).output() == [
        ("k", 15, 2),
        ("k", 24, 4),
    ]


# --- with a grace period ---------------------------------------------------------------------------------------------

WAITING = [
    ("t", "k", "t0", 0),
    ("s", "k", "s10", 10),
    ("t", "k", "t8", 8),  # late, but in time for s10
    ("s", "k", "s19", 19),
    ("s", "k", "s12", 12),
    ("s", "b", "s20", 20),  # lets s10 go
    ("t", "b", "b15", 15),
    ("s", "k", "late", 9),  # later than the grace period: at once
    ("s", "k", "s35", 35),  # lets all up to 25 go, in the order of time and key
]


@pytest.mark.kip("914-03")
def test_with_a_grace_period_records_wait_for_versions_that_are_late(run: Run):
    ran = run(joined(versioned(), grace=10), WAITING)
    assert ran.output() == [
        ("k", "s10+t8", 10),
        ("k", "late+t8", 9),
        ("k", "s12+t8", 12),
        ("k", "s19+t8", 19),
        ("b", "s20+b15", 20),
    ]
    assert ran.dropped() == {}


def test_a_grace_period_can_be_given_with_joined(run: Run):
    builder = StreamsBuilder()
    stream, table = builder.stream("s", value=str), builder.table("t", value=str, materialized=versioned())
    stream.left_join(table, pair, joined=Joined.with_name("join").with_grace_period("10 ms")).to("out")
    rows = [
        ("s", "b", "one", 5),
        ("s", "a", "two", 5),
        ("s", None, "no key", 6),
        ("s", "b", "three", 5),
        ("s", "x", "", 15),
    ]
    assert run(builder, rows).output() == [
        (None, "no key+None", 6),
        ("a", "two+None", 5),
        ("b", "one+None", 5),
        ("b", "three+None", 5),
    ]
