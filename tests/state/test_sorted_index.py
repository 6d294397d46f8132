"""The index that finds the next row of a key after a moment."""

import random

import numpy as np
import pytest

from penstock.state.columns.sorted_index import SortedIndex


def filled(rows: list[tuple[int, int]], sizes: list[int]) -> SortedIndex:
    """An index of rows (hash, time), added in pieces of these sizes."""
    index, at = SortedIndex(), 0
    for size in sizes:
        part = rows[at : at + size]
        hashes = np.array([hash_ for hash_, _ in part], np.uint64)
        index.add(hashes, np.array([time for _, time in part], np.int64), np.arange(at, at + len(part)))
        at += size
    return index


def test_an_empty_index_finds_nothing():
    assert SortedIndex().after(np.array([1], np.uint64), np.array([5])).tolist() == [-1]


def test_the_next_time_of_the_same_hash_is_found():
    index = filled([(7, 10), (7, 20), (9, 15)], [3])
    hashes = np.array([7, 7, 7, 7, 9, 8], np.uint64)
    assert index.after(hashes, np.array([0, 10, 19, 20, 0, 0])).tolist() == [0, 1, 1, -1, 2, -1]


def test_hashes_that_begin_alike_are_told_apart():
    alike = 0xABCDEF << 40
    index = filled([(alike, 10), (alike + 1, 12), (alike + 2, 14), (alike, 1 << 30)], [4])
    assert index.after(np.array([alike, alike + 1, alike + 2], np.uint64), np.array([10, 5, 5])).tolist() == [3, 1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_a_search_through_all_rows_finds(seed):
    choose = random.Random(seed)
    hashes = [choose.choice([1, 2, 3, 1 << 63, (1 << 63) + 1, choose.getrandbits(64)]) for _ in range(300)]
    rows = list(
        dict.fromkeys((hash_, choose.choice([choose.randrange(50), choose.getrandbits(61)])) for hash_ in hashes)
    )
    index = filled(rows, [choose.choice([1, 2, 5, 80]) for _ in range(300)])
    asked = [(choose.choice(hashes), choose.choice([choose.randrange(50), choose.getrandbits(61)])) for _ in range(200)]
    found = index.after(np.array([h for h, _ in asked], np.uint64), np.array([t for _, t in asked], np.int64))
    for (hash_, time), row in zip(asked, found.tolist(), strict=True):
        later = [(t, i) for i, (h, t) in enumerate(rows) if h == hash_ and t > time]
        assert row == (min(later)[1] if later else -1)
