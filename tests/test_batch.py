"""Batches: rows taken and kept, branches merged into the order of record-at-a-time processing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.batch import HEADERS, OF_CAUSE, Batch, Changes, Origins, Placement, join, merge, take_order
from penstock.columns.column import BytesColumn, ValuesColumn, WindowedColumn
from penstock.serdes import STR, TimeWindowedSerde

PLACED = Placement(0, 2)


def batch_of(*rows: tuple[Any, ...], headers: Any = None, placed: Placement | None = None) -> Batch:
    """Rows of (order, key, value, timestamp), where the order is a number or several."""
    orders = [order if isinstance(order, tuple) else (order,) for order, *_ in rows]
    order = tuple(np.array(column, np.int64) for column in zip(*orders, strict=True))
    _, keys, values, times = zip(*rows, strict=True)
    key, value = ValuesColumn(list(keys), STR), BytesColumn(STR.encode_all(list(values)), STR)
    return Batch(key, value, np.array(times, np.int64), order, headers, placed)


def headers_of(*texts: str | None) -> Any:
    """One header ``h`` for each record, none where there is no text."""
    return pa.array([[{"key": "h", "value": t.encode()}] if t is not None else None for t in texts], HEADERS)


def rows_of(batch: Batch) -> list[tuple[Any, ...]]:
    """Position, key, value and timestamp of all records."""
    return list(zip(batch.position.tolist(), batch.key.decoded(), batch.value.decoded(), batch.timestamp.tolist()))


def header_texts(batch: Batch) -> list[str | None]:
    return [None if pairs is None else pairs[0]["value"].decode() for pairs in batch.headers.to_pylist()]


def test_rows_are_taken_with_all_their_columns():
    batch = batch_of((3, "a", "1", 10), (3, "b", None, 11), (7, "c", "3", 5), headers=headers_of("x", None, "z"))
    taken = batch.take(np.array([2, 0]))
    assert rows_of(taken) == [(7, "c", "3", 5), (3, "a", "1", 10)]
    assert header_texts(taken) == ["z", "x"]
    assert (len(taken), rows_of(batch.take(np.array([], np.int64)))) == (2, [])


def test_rows_are_kept_where_a_mask_says_so_and_a_full_mask_costs_nothing():
    batch = batch_of((1, "a", "1", 10), (2, "b", "2", 11), (3, "c", "3", 12))
    assert rows_of(batch.keep(np.array([True, False, True]))) == [(1, "a", "1", 10), (3, "c", "3", 12)]
    assert batch.keep(np.array([True, True, True])) is batch
    assert rows_of(batch.keep(np.array([False, False, False]))) == []


def test_slices_and_joined_batches_keep_the_topics_and_partitions_that_were_chosen():
    batch = batch_of((1, "a", "1", 10), (2, "b", "2", 11), (3, "c", "3", 12))
    chosen = replace(batch, to_topic=np.array(["x", "y", "z"], object), to_partition=np.array([0, 1, 2]))

    def places(part: Batch) -> list[tuple[str, int]]:
        return list(zip(part.to_topic.tolist(), part.to_partition.tolist(), strict=True))

    assert places(chosen.slice(1, 3)) == places(chosen.take(np.array([1, 2]))) == [("y", 1), ("z", 2)]
    assert places(join([chosen.slice(2, 3), chosen.slice(0, 1)])) == [("z", 2), ("x", 0)]
    assert places(merge([chosen.slice(2, 3), chosen.slice(0, 1)])) == [("x", 0), ("z", 2)]


def test_new_keys_forget_where_the_old_ones_belong_and_new_values_do_not():
    batch = batch_of((1, "a", "1", 10), headers=headers_of("x"), placed=PLACED)
    by_value = batch.with_key(batch.value)
    upper = batch.with_value(ValuesColumn(["ONE"], STR))
    assert (rows_of(by_value), by_value.placed) == ([(1, "1", "1", 10)], None)
    assert (rows_of(upper), upper.placed, header_texts(upper)) == ([(1, "a", "ONE", 10)], PLACED, ["x"])
    assert rows_of(batch) == [(1, "a", "1", 10)]


def test_keys_that_get_windows_or_lose_them_belong_where_they_did():
    batch = batch_of((1, "a", "1", 10), placed=PLACED)
    windowed = batch.with_key(WindowedColumn(batch.key, np.array([5]), np.array([15]), TimeWindowedSerde(STR, 10)))
    assert (windowed.placed, windowed.with_key(batch.key).placed) == (PLACED, PLACED)
    assert windowed.with_key(ValuesColumn(["b"], STR)).placed is None


HELD = Origins(pa.array(["a", "b", None]), np.array([0, 1, -1]), np.array([4, 5, -1]))


def test_origins_are_joined_chosen_among_and_have_names_of_a_length():
    others = Origins.alike(3, OF_CAUSE)
    assert list(HELD.join(others).take(np.array([1, 3])).rows()) == [("b", 1, 5), (None, -1, OF_CAUSE)]
    assert list(HELD.where(np.array([True, False, False]), others).rows())[:2] == [("a", 0, 4), (None, -1, OF_CAUSE)]
    assert HELD.topic_bytes().tolist() == [1, 1, 0]


def test_of_batches_of_which_one_was_held_back_the_others_come_from_their_causes():
    held = replace(batch_of((1, "a", "1", 10)), held=HELD.take(np.array([0])))
    merged = merge([batch_of((2, "b", "2", 11)), held])
    assert list(merged.held.rows()) == [("a", 0, 4), (None, -1, OF_CAUSE)]
    assert merge([batch_of((1, "a", "1", 10)), batch_of((2, "b", "2", 11))]).held is None


def test_rows_that_follow_each_other_are_cut_out_with_all_their_columns():
    batch = batch_of((1, "a", "1", 10), (2, "b", None, 11), (3, "c", "3", 12), headers=headers_of("x", None, "z"))
    changes = batch.as_changes(batch.value, batch.timestamp, ValuesColumn(["0", "1", "2"], STR))
    changes = replace(changes, latest=np.array([True, False, True]), held=HELD)
    cut = changes.slice(1, 3)
    assert rows_of(cut) == [(2, "b", None, 11), (3, "c", "3", 12)]
    assert (header_texts(cut.slice(1, 2)), list(cut.held.rows())) == (["z"], [("b", 1, 5), (None, -1, -1)])
    assert (cut.old.decoded(), cut.latest.tolist()) == (["1", "2"], [False, True])


def test_changes_take_their_old_values_along_and_become_a_stream_of_the_new_ones():
    batch = batch_of((1, "a", "1", 10), (2, "b", "2", 11))
    old = ValuesColumn(["before", None], STR)
    changes = batch.as_changes(batch.value, np.array([20, 21]), old)

    taken = changes.take(np.array([1, 0]))
    assert isinstance(taken, Changes)
    assert rows_of(taken) == [(2, "b", "2", 21), (1, "a", "1", 20)]
    assert taken.old.decoded() == [None, "before"]
    assert batch.as_changes(batch.value, batch.timestamp, None).take(np.array([0])).old is None
    assert (type(changes.as_stream()), rows_of(changes.as_stream())) == (Batch, [(1, "a", "1", 20), (2, "b", "2", 21)])


# --- merging -------------------------------------------------------------------------------------------------------


def test_branches_are_merged_by_position_and_then_in_the_order_of_the_branches():
    first = batch_of((1, "a", "left", 10), (2, "b", "left", 11), (5, "c", "left", 9))
    second = batch_of((0, "z", "right", 1), (2, "b", "right", 11), (2, "b", "right again", 12), (6, "d", "right", 3))
    assert rows_of(merge([first.on_branch(0), second.on_branch(1)])) == [
        (0, "z", "right", 1),
        (1, "a", "left", 10),
        (2, "b", "left", 11),
        (2, "b", "right", 11),
        (2, "b", "right again", 12),
        (5, "c", "left", 9),
        (6, "d", "right", 3),
    ]


def test_deeper_branches_come_where_depth_first_processing_would_put_them():
    # record 1 goes down branch 0, splits there into 0 and 1, and then goes down branch 1
    shallow = batch_of((1, "a", "branch 1", 1), (2, "b", "branch 1", 2)).on_branch(1)
    deep = [
        batch_of((1, "a", f"branch 0, {b}", 1), (2, "b", f"branch 0, {b}", 2)).on_branch(0).on_branch(b) for b in (1, 0)
    ]
    assert [value for _, _, value, _ in rows_of(merge([shallow, *deep]))] == [
        "branch 0, 0",
        "branch 0, 1",
        "branch 1",
        "branch 0, 0",
        "branch 0, 1",
        "branch 1",
    ]


def test_empty_branches_do_not_count_and_a_single_one_is_handed_on_as_it_is():
    full, empty = batch_of((1, "a", "1", 10)), batch_of((1, "a", "1", 10)).take(np.array([], np.int64))
    assert merge([empty, full, empty]) is full


def test_headers_are_merged_where_any_branch_has_them():
    with_headers = batch_of((2, "b", "2", 2), headers=headers_of("x")).on_branch(0)
    without = batch_of((1, "a", "1", 1), (3, "c", "3", 3)).on_branch(1)
    assert header_texts(merge([with_headers, without])) == [None, "x", None]
    assert merge([without, without.on_branch(2)]).headers is None


def test_the_partition_is_known_only_if_it_is_for_all():
    here = batch_of((1, "a", "1", 1), placed=PLACED).on_branch(0)
    also, unknown, elsewhere = (
        batch_of((2, "b", "2", 2), placed=placed).on_branch(1) for placed in (PLACED, None, Placement(1, 2))
    )
    assert [merge([here, other]).placed for other in (also, unknown, elsewhere)] == [PLACED, None, None]


def test_changes_are_merged_with_their_old_values():
    def change(position: int, new: str, old: str | None) -> Changes:
        batch = batch_of((position, "k", new, position))
        return batch.as_changes(batch.value, batch.timestamp, ValuesColumn([old], STR))

    merged = merge([change(2, "new 2", "old 2"), change(1, "new 1", None)])
    assert isinstance(merged, Changes)
    assert (merged.value.decoded(), merged.old.decoded()) == (["new 1", "new 2"], [None, "old 2"])


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), min_size=1, max_size=4))
def test_merging_is_a_stable_sort_by_position_and_branch(branches: list[list[int]]):
    rows = [
        [(position, "k", f"{branch}/{i}", i) for i, position in enumerate(sorted(positions))]
        for branch, positions in enumerate(branches)
    ]
    merged = merge([batch_of(*some).on_branch(branch) for branch, some in enumerate(rows)])
    expected = sorted((row for some in rows for row in some), key=lambda row: row[0])
    assert rows_of(merged) == expected


def test_the_order_is_taken_with_its_rows_and_plain_numbers_stay():
    first, branch = take_order((np.array([5, 6, 7]), 1), np.array([2, 0]))
    assert (first.tolist(), branch) == ([7, 5], 1)
