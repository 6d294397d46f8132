"""Tables in versioned stores: what they send on, drop and keep, and what filters and aggregations make of them."""

import pytest

from penstock import Materialized, Stores, StreamsBuilder
from support.flows import Run

VERSIONS = Materialized.as_versioned("versions", history_retention=1000)


def value_contains_v(key, value):
    return "v" in value


def by_one_group(key, value):
    return "all", value


def append(key, value, values):
    return [*values, value]


def remove(key, value, values):
    return [other for other in values if other != value]


# --- the worked tables of the proposal -------------------------------------------------------------------------------

FILTERED = [
    # key, value, timestamp
    ("k", "v1", 1),
    ("k", None, 2),
    ("k", None, 4),
    ("k", "v2", 3),
]


@pytest.mark.kip("914-08")
def test_a_filter_on_a_versioned_table_keeps_repeated_deletions(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=str, materialized=VERSIONS).filter(value_contains_v).to_stream().to("out")
    assert run(builder, FILTERED).output() == FILTERED


@pytest.mark.kip("914-08")
def test_a_filter_on_an_unversioned_table_leaves_repeated_deletions_out(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=str, store="rows").filter(value_contains_v).to_stream().to("out")
    assert run(builder, FILTERED).output() == [
        ("k", "v1", 1),
        ("k", None, 2),
        ("k", "v2", 3),
    ]


@pytest.mark.kip("914-08")
@pytest.mark.parametrize(
    ("source", "latest"),
    [("versioned", [("k", "v1", 1, 2), ("k", "v2", 3, 4)]), ("unversioned", [("k", "v1", 1, 2), ("k", "v2", 3, None)])],
)
def test_the_table_downstream_of_the_filter_is_right_only_with_all_deletions(run: Run, source: str, latest: list):
    builder = StreamsBuilder()
    kept = VERSIONS if source == "versioned" else Materialized.as_("rows")
    downstream = Materialized.as_versioned("downstream", history_retention=1000)
    table = builder.table("in", value=str, materialized=kept)
    table.filter(value_contains_v, materialized=downstream).to_stream().to("out")
    assert run(builder, FILTERED).store("downstream") == latest


AGGREGATED = [
    ("k", "v1", 1),
    ("k", "v2", 10),
    ("k", "v3", 5),
]


@pytest.mark.kip("914-09")
@pytest.mark.parametrize(
    ("kept", "aggregates"),
    {
        "unversioned": (
            Materialized.as_("rows"),
            [
                ("all", ["v1"], 1),
                ("all", ["v2"], 10),
                ("all", ["v3"], 10),  # remove: v2; add: v3
            ],
        ),
        "versioned": (
            VERSIONS,
            [
                ("all", ["v1"], 1),
                ("all", ["v2"], 10),
                # nothing: v3 has an older timestamp than v2
            ],
        ),
    }.values(),
    ids=["unversioned", "versioned"],
)
def test_an_aggregation_of_a_versioned_table_ignores_what_comes_out_of_order(run: Run, kept, aggregates):
    builder = StreamsBuilder()
    groups = builder.table("in", value=str, materialized=kept).group_by(by_one_group, value=str)
    groups.aggregate(list, append, remove).to_stream().to("out")
    assert run(builder, AGGREGATED).output() == aggregates


@pytest.mark.kip("914-09")
def test_so_do_count_and_reduce(run: Run):
    builder = StreamsBuilder()
    groups = builder.table("in", value=str, materialized=VERSIONS).group_by(by_one_group, value=str)
    groups.count().to_stream().to("counts")
    groups.reduce(lambda total, value: total + value, lambda total, value: total.replace(value, "")).to_stream().to(
        "out"
    )
    ran = run(builder, AGGREGATED)
    assert ran.output("counts") == [("all", 1, 1), ("all", 1, 10)]
    assert ran.output() == [("all", "v1", 1), ("all", "v2", 10)]


# --- what a versioned table sends on and keeps -----------------------------------------------------------------------

ROWS = [
    ("k", "v0", 0),
    ("k", "v50", 50),
    ("k", "v120", 120),
    ("k", "late", 19),  # older than stream time 120 - 100
    ("k", "edge", 20),
    (None, "x", 130),
    ("j", "j300", 300),
    ("k", "late", 199),
    ("k", None, 250),
]


@pytest.mark.kip("914-13")
@pytest.mark.parametrize("in_memory", [False, True])
def test_versions_older_than_the_history_retention_are_dropped_whatever_their_key(run: Run, in_memory: bool):
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("versions", 100)
    if in_memory:
        supplier = Stores.in_memory_versioned_key_value_store("versions", 100)
    builder.table("in", value=str, materialized=Materialized.as_(supplier), name="rows").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("k", "v0", 0),
        ("k", "v50", 50),
        ("k", "v120", 120),
        ("k", "edge", 20),
        ("j", "j300", 300),
        ("k", None, 250),
    ]
    assert ran.dropped() == {("rows", "null-key"): 1, ("rows", "expired-put"): 2}
    assert ran.store("versions") == [
        ("j", "j300", 300, None),
        ("k", "v0", 0, 20),
        ("k", "edge", 20, 50),
        ("k", "v50", 50, 120),
        ("k", "v120", 120, 250),
    ]


@pytest.mark.kip("914-14")
def test_a_versioned_store_answers_what_was_valid_when(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.to_table(materialized=Materialized.as_versioned("versions", "1 second"))
    store = run(builder, [("k", "v10", 10), ("k", "v30", 30), ("k", "v20", 20), ("j", None, 40)]).driver.store(
        "versions"
    )
    assert [store.get("k"), store.get("k", as_of=29), store.get("k", as_of=9), store.get("j")] == [
        "v30",
        "v20",
        None,
        None,
    ]
    assert store.get_version("k", as_of=29) == ("v20", 20, 30)
    assert store.get_version("k") == ("v30", 30, None)
    assert list(store.versions("k", 10, 25)) == [("v10", 10, 20), ("v20", 20, 30)]
    assert list(store.versions("k", reverse=True)) == [("v30", 30, None), ("v20", 20, 30), ("v10", 10, 20)]


def test_an_aggregate_in_a_versioned_store_keeps_its_history(run: Run):
    builder = StreamsBuilder()
    kept = Materialized.as_versioned("counts", history_retention=5)
    builder.stream("in", value=str).group_by_key(name="g").count(materialized=kept, name="count").to_stream().to("out")
    ran = run(builder, [("a", "x", 5), ("b", "x", 3), ("a", "x", 4), ("b", "x", 9), ("c", "x", 0), ("b", "x", 30)])
    assert ran.output() == [("a", 1, 5), ("b", 1, 3), ("a", 2, 5), ("b", 2, 9), ("b", 3, 30)]
    assert ran.dropped() == {("count", "expired-put"): 1}
    assert ran.store("counts") == [("a", 2, 5, None), ("b", 1, 3, 9), ("b", 2, 9, 30), ("b", 3, 30, None)]


def test_a_deleted_aggregate_stays_deleted_for_records_from_before_its_deletion(run: Run):
    builder = StreamsBuilder()
    kept = Materialized.as_versioned("sums", history_retention=100)
    sums = (
        builder.stream("in", value=int).group_by_key().reduce(lambda a, b: None if b == 0 else a + b, materialized=kept)
    )
    sums.to_stream().to("out")
    ran = run(builder, [("a", 1, 10), ("a", 0, 20), ("a", 5, 15), ("a", 7, 16), ("a", 9, 30)])
    assert ran.output() == [("a", 1, 10), ("a", None, 20), ("a", 5, 15), ("a", 7, 16), ("a", 9, 30)]
    assert ran.store("sums") == [("a", 1, 10, 15), ("a", 5, 15, 16), ("a", 7, 16, 20), ("a", 9, 30, None)]
