"""The window store that keeps duplicates, on ranges of time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from penstock.arrays import binary
from penstock.state.columns.rows import Values
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.segments import KeyedRow

KEYS = [b"", b"k", b"k1", b"k\x00", b"k" + bytes(8), b"k" + (5).to_bytes(8, "big") + b"x", b"l"]
"""Some of them begin others, also where a start would stand behind a shorter key."""


def filled(
    in_memory: bool, count: int, keys: list[bytes]
) -> tuple[DuplicateWindowStore, list[tuple[bytes, int, bytes]]]:
    """A store, and what was put into it in order."""
    choose = random.Random(1)
    store = DuplicateWindowStore("store", 10, 10**9, in_memory, 60_000)
    puts = [(choose.choice(keys), choose.randrange(200_000), str(n).encode()) for n in range(count)]
    for first in range(0, count, 7):
        some = puts[first : first + 7]
        starts = np.array([start for _, start, _ in some], np.int64)
        values = Values(binary([value for *_, value in some]), starts + 1)
        store.put_all(binary([key for key, _, _ in some]), starts, values)
    return store, puts


@pytest.mark.kip("KS-03")
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_range_of_time_of_a_key_has_its_own_values_in_order(in_memory: bool):
    store, puts = filled(in_memory, 600, KEYS)
    for key in KEYS:
        for earliest, latest in [(0, 199_999), (5, 5), (59_990, 60_010), (100, 90_000), (90_000, 100)]:
            mine = sorted(
                (start, n) for n, (at, start, _) in enumerate(puts) if at == key and earliest <= start <= latest
            )
            expected = [(start, str(n).encode(), start + 1) for start, n in mine]
            assert list(store.fetch(key, earliest, latest)) == expected
            assert list(store.fetch(key, earliest, latest, reverse=True)) == expected[::-1]


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_range_of_keys_and_time_comes_as_it_lies_there(in_memory: bool):
    store, puts = filled(in_memory, 600, KEYS)
    inside = [row for row in enumerate(puts) if b"k" <= row[1][0] <= b"k1" and 50_000 <= row[1][1] <= 130_000]

    def place(row: tuple[int, tuple[bytes, int, bytes]]) -> tuple[object, ...]:
        number, (key, start, _) = row
        return (start, key, number) if in_memory else (start // 60_000, key + start.to_bytes(8, "big"), number)

    expected = [(key, start, value, start + 1) for _, (key, start, value) in sorted(inside, key=place)]
    assert list(store.scan_windows(b"k", b"k1", 50_000, 130_000)) == expected
    assert list(store.scan_windows(b"k", b"k1", 50_000, 130_000, reverse=True)) == expected[::-1]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[KeyedRow]:
    """The rows that stores have read."""
    read: list[KeyedRow] = []
    scanned = DuplicateWindowStore._scanned

    def counting(self: DuplicateWindowStore, *arguments: object) -> Iterator[KeyedRow]:
        for row in scanned(self, *arguments):  # type: ignore[arg-type]
            read.append(row)
            yield row

    monkeypatch.setattr(DuplicateWindowStore, "_scanned", counting)
    return read


def test_a_range_of_time_reads_no_more_than_it_has(read: list[KeyedRow]):
    store, puts = filled(False, 2000, [b"k"])
    found = list(store.fetch(b"k", 1000, 3000))
    assert len(found) == sum(1000 <= start <= 3000 for _, start, _ in puts) > 5
    assert 0 < sum(len(packed) for _, _, packed, _ in read) < 40 * len(found)


@pytest.mark.parametrize("reverse", [False, True])
def test_what_a_key_has_is_read_without_the_keys_that_begin_like_it(read: list[KeyedRow], reverse: bool):
    store, puts = filled(False, 1500, [b"", b"k", *(b"k%d" % n for n in range(12))])
    for key in (b"", b"k", b"k1"):  # "k1" begins "k10"
        read.clear()
        found = list(store.fetch(key, 20_000, 150_000, reverse))
        starts = {start for at, start, _ in puts if at == key and 20_000 <= start <= 150_000}
        assert len(found) >= len(starts) > 10
        assert len(read) == len(starts)  # a row for each


def test_of_keys_that_go_on_like_times_those_of_the_range_alone_are_read_as_well(read: list[KeyedRow]):
    going_on = [b"k" + (at * 10_000).to_bytes(8, "big") + b"x" for at in range(20)]
    store, puts = filled(False, 1500, [b"k", *going_on])
    rows = {(key, start) for key, start, _ in puts if start < 120_000}  # of two segments
    assert {start for start, *_ in store.fetch(b"k", 65_000, 115_000)} == {
        start for key, start in rows if key == b"k" and 65_000 <= start <= 115_000
    }
    beside = [row for row in rows if row[0] in going_on[7:12] and row[1] >= 60_000]
    assert [row[:2] for row in read if row[0] != b"k"] == sorted(beside)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_of_time_of_all_keys_reads_its_segments_and_no_others(read: list[KeyedRow], reverse: bool):
    store, puts = filled(False, 1500, KEYS)
    found = list(store.scan_windows(None, None, 65_000, 70_000, reverse))
    assert len(found) == sum(65_000 <= start <= 70_000 for _, start, _ in puts) > 10
    assert len(read) == len({(key, start) for key, start, _ in puts if 60_000 <= start < 120_000})


@pytest.mark.parametrize("reverse", [False, True])
def test_who_takes_a_few_rows_of_all_has_only_those_read(read: list[KeyedRow], reverse: bool):
    store, _ = filled(False, 1500, KEYS)
    assert len(list(islice(store.scan_windows(None, None, 0, 199_999, reverse), 10))) == 10
    assert len(read) <= 10
