"""Caching: updates that a commit sends on once; it never changes what a table ends as."""

import pytest

from penstock import Materialized, StreamsBuilder
from penstock.dsl.ktable import KTable
from penstock.testing.cuts import CutDriver


def in_one_commit(builder: StreamsBuilder, *rows, chunk_records=1000):
    """The updates of ``out`` when these rows are one commit, and tables cache."""
    with CutDriver(builder.build(), chunk_records=chunk_records) as driver:
        for topic, key, value, timestamp in rows:
            driver.pipe_input(topic, key, value, timestamp)
        return [record[:3] for record in driver.read_output("out")]


def tables(**kept) -> tuple[StreamsBuilder, KTable, KTable]:
    builder = StreamsBuilder()
    left = builder.table("left", value=str, materialized=kept.get("left"))
    return builder, left, builder.table("right", value=str, materialized=kept.get("right"))


def pair(left, right):
    return f"{left}+{right}"


AT_ONCE = Materialized.as_("at-once").with_caching_disabled()


def test_a_foreign_key_join_forgets_a_row_whose_right_side_comes_and_goes_in_one_commit():
    builder, left, right = tables()
    left.join(right, pair, value=str, foreign_key=lambda value: "x", store="joined").to_stream().to("out")
    rows = [("right", "x", "R", 0), ("left", "l", "L", 1), ("right", "x", None, 2)]
    assert in_one_commit(builder, *rows) == []


def test_a_foreign_key_join_finds_the_last_of_several_right_values_of_one_commit():
    builder, left, right = tables()
    left.join(right, pair, value=str, foreign_key=lambda value: "x", store="joined").to_stream().to("out")
    rows = [("right", "x", "R", 0), ("left", "l", "L", 1), ("right", "x", "S", 2)]
    assert in_one_commit(builder, *rows) == [("l", "L+S", 2)]


@pytest.mark.parametrize("chunk_records", [1, 1000])
def test_a_join_keeps_no_row_of_which_one_side_came_and_went_before_the_commit(chunk_records):
    builder, left, right = tables(right=AT_ONCE)
    left.join(right, pair, value=str).to_stream().to("out")
    rows = [("left", "k", "L", 0), ("right", "k", "R", 1), ("left", "k", None, 2)]
    assert in_one_commit(builder, *rows, chunk_records=chunk_records) == []


def test_a_row_of_a_join_of_which_both_sides_change_in_one_commit_counts_once():
    builder, left, right = tables()
    joined = left.join(right, pair, value=str)
    joined.group_by(lambda key, value: ("rows", value), value=str).count().to_stream().to("out")
    assert in_one_commit(builder, ("left", "k", "L", 0), ("right", "k", "R", 1)) == [("rows", 1, 1)]


def test_a_join_takes_out_what_it_sent_when_one_side_caches_and_the_other_does_not():
    builder, left, right = tables(right=AT_ONCE)
    joined = left.outer_join(right, pair, value=str)
    texts = joined.group_by(lambda key, value: ("rows", value), value=str)
    kept = Materialized.as_("texts").with_caching_disabled()
    texts.reduce(
        lambda all, one: f"{all} {one}", lambda all, one: all.replace(one, "-"), materialized=kept
    ).to_stream().to("out")
    rows = [("left", "k", "L", 0), ("right", "k", "R", 1), ("left", "k", "M", 2)]
    assert in_one_commit(builder, *rows) == [("rows", "None+R", 1), ("rows", "- M+R", 2)]


def test_a_join_with_a_table_made_of_its_own_other_side_ends_with_what_that_sends_at_the_commit():
    builder, left, right = tables(left=AT_ONCE, right=Materialized.as_("right").with_caching_disabled())
    both = left.join(right, pair, value=str)
    same = both.map_values(lambda value: value, store="same")
    both.left_join(same, pair, value=str, store="joined").to_stream().to("out")
    rows = [("left", "k", "L", 0), ("right", "k", "R", 1)]
    assert in_one_commit(builder, *rows) == [("k", "L+R+L+R", 1)]


def test_a_versioned_table_has_the_versions_that_a_cached_table_in_front_of_it_had():
    builder, left, _ = tables(left=Materialized.as_("rows"))
    kept = Materialized.as_versioned("versions", "1 day")
    left.filter(lambda key, value: True, materialized=kept).to_stream().to("out")
    assert in_one_commit(builder, ("left", "k", "late", 9), ("left", "k", "early", 5)) == [
        ("k", "late", 9),
        ("k", "early", 5),
    ]


def test_a_deletion_of_what_was_not_there_is_not_sent_although_a_versioned_table_needs_every_update():
    builder, left, _ = tables(left=Materialized.as_("rows"))
    left.filter(lambda key, value: True, materialized=Materialized.as_versioned("versions", "1 day"))
    left.to_stream().to("out")
    rows = [("left", "k", None, 0), ("left", "k", "L", 1), ("left", "k", None, 2), ("left", "k", None, 3)]
    assert in_one_commit(builder, *rows) == [("k", "L", 1), ("k", None, 2)]
