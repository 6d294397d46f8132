"""The columns below every store: the growing bytes, the hash index, the table of rows."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from penstock.arrays import hash64
from penstock.state.columns import rows as state_rows
from penstock.state.columns.arena import Arena
from penstock.state.columns.index import HashIndex
from penstock.state.columns.rows import RowTable
from support.rows import as_tuples, binary, keys_of, values_of

items = st.lists(st.none() | st.binary(max_size=20))

# --- Arena --------------------------------------------------------------------------------------------------------


@given(st.lists(items), st.data())
def test_an_arena_gives_back_what_was_appended(batches, data):
    arena, expected = Arena(), []
    for batch in batches:
        assert arena.append(binary(*batch)) == len(expected)
        expected += [b"" if item is None else item for item in batch]
    assert len(arena) == len(expected)
    picked = data.draw(st.lists(st.sampled_from(range(len(expected)))) if expected else st.just([]))
    entries = np.array(picked, np.int64)
    assert arena.take(entries).to_pylist() == [expected[i] for i in picked]
    assert arena.lengths(entries).tolist() == [len(expected[i]) for i in picked]


@given(st.lists(st.binary(max_size=20), min_size=1), st.data())
def test_an_arena_keeps_chosen_entries_under_new_numbers(values, data):
    arena = Arena()
    arena.append(binary(*values))
    kept = data.draw(st.lists(st.sampled_from(range(len(values)))))
    arena.keep(np.array(kept, np.int64))
    arena.append(binary(b"behind"))
    assert arena.take(np.arange(len(arena))).to_pylist() == [*(values[i] for i in kept), b"behind"]


def test_an_arena_takes_slices_of_arrays():
    arena = Arena()
    arena.append(binary(b"left", b"out", b"in", None, b"also").slice(2))
    assert arena.take(np.arange(3)).to_pylist() == [b"in", b"", b"also"]


def test_an_arena_grows_over_many_small_appends_and_one_large_one():
    arena = Arena()
    for i in range(2_000):
        arena.append(binary(b"%d" % i))
    arena.append(binary(b"x" * 1_000_000))
    assert arena.take(np.array([0, 1_999, 2_000])).to_pylist() == [b"0", b"1999", b"x" * 1_000_000]
    assert arena.nbytes < 3_000_000


# --- HashIndex ----------------------------------------------------------------------------------------------------


def rows_of(index: HashIndex, hash_: int) -> list[int]:
    """All rows of a hash, in the order in which probing meets them."""
    hashes = np.array([hash_], np.uint64)
    found, (row, at) = [], index.find(hashes, index.home(hashes))
    while row[0] >= 0:
        found.append(int(row[0]))
        row, at = index.find(hashes, index.after(at))
    return found


@given(st.lists(st.lists(st.sampled_from([0, 1, 63, 64, 65, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1))))
def test_an_index_finds_every_row_of_a_hash_also_among_equal_ones(batches):
    index, expected = HashIndex(), {}
    for batch in batches:
        rows = index.add(np.array(batch, np.uint64)).tolist()
        for hash_, row in zip(batch, rows, strict=True):
            expected.setdefault(hash_, []).append(row)
    assert {hash_: sorted(rows_of(index, hash_)) for hash_ in expected} == expected
    assert rows_of(index, 12345) == expected.get(12345, [])
    assert index.size == sum(map(len, batches))


def test_an_index_of_many_rows_finds_all_of_them_and_nothing_else():
    hashes = np.random.default_rng(1).integers(0, 2**64, 100_000, np.uint64)
    index = HashIndex()
    for part in np.array_split(hashes[:50_000], 37):
        index.add(part)
    rows, _ = index.find(hashes, index.home(hashes))
    assert rows[:50_000].tolist() == list(range(50_000))
    assert (rows[50_000:] == -1).all()


# --- RowTable -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["own hash", "all keys collide"])
def hashing(request, monkeypatch):
    if request.param == "all keys collide":
        monkeypatch.setattr(state_rows, "hash64", lambda keys: np.zeros(len(keys), np.uint64))
        monkeypatch.setattr(state_rows, "hash64_pairs", lambda hashes, times: hashes)


@pytest.mark.usefixtures("hashing")
def test_rows_are_found_by_empty_long_and_similar_keys():
    names = [b"", b"\0", b"\0\0", b"a", b"a\0", b"12345678", b"123456789", b"x" * 10_000, b"x" * 9_999 + b"y"]
    table = RowTable()
    table.add(keys_of(names))
    assert table.find(keys_of(reversed(names))).tolist() == list(range(len(names)))[::-1]
    assert table.find(keys_of([b"\0\0\0", b"b", b"x" * 9_999])).tolist() == [-1, -1, -1]
    assert table.keys(np.array([7, 0])).data.to_pylist() == [b"x" * 10_000, b""]


@pytest.mark.usefixtures("hashing")
def test_rows_are_found_by_key_and_time():
    table = RowTable()
    table.add(keys_of([b"a", b"a", b"", b"b"], [0, 10, 0, -5]))
    assert table.find(keys_of([b"b", b"a", b"a", b"", b"a"], [-5, 10, 0, 0, 5])).tolist() == [3, 1, 0, 2, -1]
    assert table.times().tolist() == [0, 10, 0, -5]


def test_a_table_of_many_rows_finds_all_of_them_while_it_grows():
    names = [b"key-%d" % i for i in range(30_000)]
    table = RowTable()
    for start in range(0, len(names), 700):
        some = names[start : start + 700]
        table.assign(table.add(keys_of(some)), values_of((name, 1) for name in some))
    rows = table.find(keys_of([*names, b"key-30000"]))
    assert rows[-1] == -1
    assert table.values(rows[:-1]).data.to_pylist() == names


def test_values_are_assigned_replaced_taken_away_and_restored():
    table = RowTable()
    rows = table.add(keys_of([b"a", b"b", b"c"]))
    assert as_tuples(table.values(rows)) == [None, None, None]
    table.assign(rows, values_of([(b"1", 1), (b"", 2), (None, 3)]))
    assert as_tuples(table.values(rows[::-1])) == [None, (b"", 2), (b"1", 1)]
    remembered = table.remember(rows[:2])
    table.assign(rows[:2], values_of([(None, 4), (b"22", 5)]))
    assert as_tuples(table.values(rows)) == [None, (b"22", 5), None]
    assert table.present().tolist() == [False, True, False]
    table.restore(rows[:2], remembered)
    assert as_tuples(table.values(rows)) == [(b"1", 1), (b"", 2), None]


def test_a_table_keeps_chosen_rows_under_new_numbers():
    table = RowTable()
    rows = table.add(keys_of([b"a", b"b", b"c"], [1, 2, 3]))
    table.assign(rows, values_of([(b"1", 1), (None, 2), (b"3", 3)]))
    table.keep(np.array([2, 1]))
    assert len(table) == 2
    assert table.find(keys_of([b"a", b"b", b"c"], [1, 2, 3])).tolist() == [-1, 1, 0]
    assert as_tuples(table.values(np.array([0, 1]))) == [(b"3", 3), None]
    table.keep(np.zeros(0, np.int64))
    assert (len(table), table.find(keys_of([b"b"], [2])).tolist()) == (0, [-1])


def test_compacting_throws_away_replaced_values_and_keeps_the_rest():
    table = RowTable()
    rows = table.add(keys_of([b"%d" % i for i in range(100)]))
    for _ in range(20):
        table.assign(rows, values_of((b"x" * 100, i) for i in range(100)))
    table.assign(rows[:1], values_of([(None, 0)]))
    before, values = table.nbytes, as_tuples(table.values(rows))
    table.compact()
    assert table.nbytes < before / 2
    assert as_tuples(table.values(rows)) == values == [None, *((b"x" * 100, i) for i in range(1, 100))]


def test_hashes_of_keys_stay_with_them():
    keys = keys_of([b"a", b"b", b"c"], [1, 2, 3])
    some = keys.take(np.array([2, 0]))
    assert some.hashes.tolist() == hash64(binary(b"c", b"a")).tolist()
    assert some.times.tolist() == [3, 1]
    again = keys.at(np.array([1, 1]), np.array([7, 8]))
    assert (again.data.to_pylist(), again.times.tolist()) == ([b"b", b"b"], [7, 8])
    assert len(set(again.row_hashes.tolist())) == 2
