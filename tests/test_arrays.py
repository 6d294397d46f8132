"""The kernels over binary arrays against plain Python, over random data with nulls and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import arrays
from penstock.arrays import (
    fixed_binary,
    hash64,
    hash64_one,
    hash64_pair_one,
    hash64_pairs,
    last_numbers,
    murmur2,
    partitions,
    spans,
)

Values = list[bytes | None]


def murmur2_slowly(data: bytes) -> int:
    """Kafka's ``Utils.murmur2``, as the paper has it: a byte at a time, in Python's ints."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


class Cut:
    """Values, and an array that is a slice of a larger one, so that its offsets begin anywhere."""

    def __init__(self, before: Values, values: Values, behind: Values):
        self.values = values
        self.array = pa.array([*before, *values, *behind], pa.binary()).slice(len(before), len(values))

    def __repr__(self) -> str:
        return f"Cut({self.values})"


def cuts(item: st.SearchStrategy[bytes], nulls: bool = True) -> st.SearchStrategy[Cut]:
    """Slices of arrays of such items."""
    one = st.none() | item if nulls else item
    return st.builds(Cut, st.lists(one, max_size=3), st.lists(one, max_size=12), st.lists(one, max_size=3))


keys = st.binary(max_size=40)
long_enough = st.binary(min_size=8, max_size=20)


# --- Kafka's partitioner -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "expected", "of_seven"),
    [  # printed by Kafka's own Utils.murmur2 and its default partitioner
        ("", 275646681, 2),
        ("a", -1563381124, 5),
        ("ab", 316155434, 0),
        ("abc", 479470107, 4),
        ("abcd", -1323649548, 5),
        ("abcde", 461995741, 4),
        ("JFK", 531569365, 5),
        ("LGA", -1136745704, 6),
        ("EWR", 1590694519, 1),
        ("N14228", -1499626080, 1),
        ("ä€😀", -565103750, 1),
        ("the quick brown fox jumps over the lazy dog", -890066680, 3),
        (b"\xff\x80\x7f\x00\xfe", -1958495739, None),
    ],
)
def test_murmur2_and_the_partition_are_kafkas(key: str | bytes, expected: int, of_seven: int | None):
    data = key if isinstance(key, bytes) else key.encode()
    array = pa.array([data], pa.binary())
    assert murmur2(array).view(np.int32).tolist() == [expected]
    assert murmur2_slowly(data) == expected & 0xFFFFFFFF
    if of_seven is not None:
        assert partitions(array, 7, 0).tolist() == [of_seven]


@given(cuts(keys, nulls=False))
def test_murmur2_equals_the_plain_form(cut: Cut):
    assert murmur2(cut.array).tolist() == [murmur2_slowly(value) for value in cut.values]


def test_murmur2_equals_the_plain_form_for_many_keys_of_every_length():
    chance = np.random.default_rng(7)
    values = [chance.bytes(length) for length in range(70) for _ in range(30)]
    order = chance.permutation(len(values))
    values = [values[i] for i in order]
    assert murmur2(pa.array(values, pa.binary())).tolist() == [murmur2_slowly(value) for value in values]
    large = pa.array(values, pa.large_binary()).slice(11)
    assert murmur2(large).tolist() == [murmur2_slowly(value) for value in values[11:]]


@given(cuts(keys), st.integers(1, 50), st.integers(0, 1000))
def test_a_key_has_its_partition_and_none_has_the_one_whose_turn_it_is(cut: Cut, count: int, turn: int):
    turns = turn + np.arange(len(cut.values))
    expected = [
        (murmur2_slowly(value) & 0x7FFFFFFF if value is not None else turn + i) % count
        for i, value in enumerate(cut.values)
    ]
    assert partitions(cut.array, count, turns).tolist() == expected
    alone = [p if value is not None else turn % count for p, value in zip(expected, cut.values, strict=True)]
    assert partitions(cut.array, count, turn).tolist() == alone


# --- the other kernels ---------------------------------------------------------------------------------------------


@given(cuts(keys))
def test_spans_say_where_each_value_lies(cut: Cut):
    where = spans(cut.array)
    data = where.data.tobytes()
    found = [data[s : s + n] for s, n in zip(where.start.tolist(), where.length.tolist(), strict=True)]
    assert found == [value or b"" for value in cut.values]


@pytest.mark.parametrize(
    ("kernel", "plain"),
    [
        (lambda array: arrays.without_first(array, 3), lambda value: value[3:]),
        (lambda array: arrays.without_last(array, 8), lambda value: value[:-8]),
        (lambda array: arrays.without_last(array, 1), lambda value: value[:-1]),
    ],
)
@given(cut=cuts(keys))
def test_values_without_their_ends(kernel: Callable[[Any], Any], plain: Callable[[bytes], bytes], cut: Cut):
    assert kernel(cut.array).to_pylist() == [None if value is None else plain(value) for value in cut.values]


@given(cuts(long_enough))
def test_the_last_8_bytes_are_a_number_and_null_is_0(cut: Cut):
    expected = [0 if value is None else int.from_bytes(value[-8:], "big", signed=True) for value in cut.values]
    assert last_numbers(cut.array).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12), st.data())
def test_rows_of_a_numpy_array_become_values_of_equal_length(numbers: list[int], data: st.DataObject):
    rows = np.array(numbers, ">i8")
    expected: Values = [number.to_bytes(8, "big", signed=True) for number in numbers]
    assert fixed_binary(rows).to_pylist() == expected
    valid = data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    masked = [value if there else None for value, there in zip(expected, valid, strict=True)]
    assert fixed_binary(rows, np.array(valid, np.bool_)).to_pylist() == masked
    pairs = np.stack([rows, rows], axis=1).astype(">i8")
    assert fixed_binary(pairs).to_pylist() == [value + value for value in expected]


@given(cuts(keys))
def test_the_null_mask_tells_the_nulls_and_is_none_without_any(cut: Cut):
    mask = arrays.null_mask(cut.array)
    expected = [value is None for value in cut.values]
    assert (None if mask is None else mask.tolist()) == (expected if True in expected else None)
    assert arrays.nulls(len(expected)).to_pylist() == [None] * len(expected)


@given(st.lists(cuts(keys), min_size=1, max_size=4))
def test_arrays_are_joined(parts: list[Cut]):
    joined = arrays.concat([part.array for part in parts])
    assert joined.to_pylist() == [value for part in parts for value in part.values]


# --- hashes of tables in memory ------------------------------------------------------------------------------------


@given(cuts(keys, nulls=False), cuts(keys, nulls=False))
def test_equal_keys_have_equal_hashes_wherever_they_lie(one: Cut, other: Cut):
    by_key = dict(zip(one.values, hash64(one.array).tolist(), strict=True))
    for value, hashed in zip(other.values, hash64(other.array).tolist(), strict=True):
        assert by_key.setdefault(value, hashed) == hashed


def test_different_keys_have_different_hashes():
    chance = np.random.default_rng(3)
    values = {b"%d" % n for n in range(20_000)} | {bytes(n) for n in range(40)}  # of zeros: the length counts
    values |= {chance.bytes(int(length)) for length in chance.integers(1, 40, 20_000)}
    assert len(set(hash64(pa.array(list(values), pa.binary())).tolist())) == len(values)


def test_a_key_in_different_windows_has_different_hashes():
    hashes = hash64(pa.array([b"JFK"] * 10_000, pa.binary()))
    starts = np.arange(-5_000, 5_000) * 3_600_000
    assert len(set(hash64_pairs(hashes, starts).tolist())) == 10_000
    assert hash64_pairs(hashes[:1], starts[:1]).tolist() == hash64_pairs(hashes[5:6], starts[:1]).tolist()


@given(keys=st.lists(st.binary(max_size=20), max_size=5), number=st.integers(-(2**63), 2**63 - 1))
def test_one_key_has_the_hash_that_it_has_among_many(keys, number):
    hashes = hash64(pa.array(keys, pa.binary()))
    assert [hash64_one(key) for key in keys] == hashes.tolist()
    pairs = hash64_pairs(hashes, np.full(len(keys), number))
    assert [hash64_pair_one(hash64_one(key), number) for key in keys] == pairs.tolist()
