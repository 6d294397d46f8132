"""Uncommitted writes over the database answer every read as if they were written (KIP-892)."""

from pathlib import Path

import numpy as np
import pytest

from penstock.state.database import Database
from penstock.state.transactional import TransactionalRows, after_prefix, pack_all, unpack_all
from support.rows import binary, changes_of, get, keys_of, put, values_of


@pytest.fixture
def store(tmp_path: Path):
    """On disk a=1, b=2, ba=3, c=4; in the running transaction b deleted, ba and bb written."""
    database = Database(tmp_path / "db")
    database.write({"store": packed({b"a": (b"1", 1), b"b": (b"2", 2), b"ba": (b"3", 3), b"c": (b"4", 4)})}, {})
    store = TransactionalRows(database.family("store"))
    put(store, {b"b": (None, 5), b"ba": (b"30", 6), b"bb": (b"7", 7)})
    yield store
    database.close()


def packed(rows: dict[bytes, tuple[bytes, int]]):
    """Rows as they lie on disk."""
    return iter(sorted(zip(rows, pack_all(values_of(rows.values())).to_pylist(), strict=True)))


A, BA, BB, C = (b"a", b"1", 1), (b"ba", b"30", 6), (b"bb", b"7", 7), (b"c", b"4", 4)


@pytest.mark.kip("892-07")
def test_point_reads_see_uncommitted_writes_and_deletes_over_the_database(store):
    assert get(store, b"a", b"b", b"ba", b"bb", b"c", b"nowhere") == [
        (b"1", 1),
        None,
        (b"30", 6),
        (b"7", 7),
        (b"4", 4),
        None,
    ]


@pytest.mark.kip("892-07")
@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (None, None, [A, BA, BB, C]),
        (b"b", None, [BA, BB, C]),
        (b"ba", b"c", [BA, BB]),
        (None, b"bb", [A, BA]),
        (b"b", b"ba", []),
        (b"c", b"b", []),
        (b"", b"\xff", [A, BA, BB, C]),
    ],
)
def test_range_scans_see_them_in_order_and_backwards(store, low, high, expected):
    assert list(store.scan(low, high)) == expected
    assert list(store.scan(low, high, reverse=True)) == expected[::-1]


@pytest.mark.kip("892-07")
@pytest.mark.parametrize(
    ("prefix", "expected"),
    [(b"", [A, BA, BB, C]), (b"b", [BA, BB]), (b"ba", [BA]), (b"bc", []), (b"\xff", [])],
)
def test_prefix_scans_see_them_in_order_and_backwards(store, prefix, expected):
    assert list(store.prefix_scan(prefix)) == expected
    assert list(store.prefix_scan(prefix, reverse=True)) == expected[::-1]


@pytest.mark.kip("892-07")
def test_the_answers_are_the_same_after_the_rows_were_written_to_the_database(tmp_path: Path, store):
    before = list(store.scan()), list(store.scan(reverse=True)), list(store.prefix_scan(b"b"))
    store.commit()
    database = Database(tmp_path / "other")
    database.write({"store": packed({b"a": (b"1", 1), b"b": (b"2", 2), b"ba": (b"3", 3), b"c": (b"4", 4)})}, {})
    database.write({"store": store.dirty_rows()}, {})
    written = TransactionalRows(database.family("store"))
    assert (list(written.scan()), list(written.scan(reverse=True)), list(written.prefix_scan(b"b"))) == before
    database.close()


def test_a_rollback_shows_the_database_again(store):
    store.rollback()
    assert list(store.scan()) == [A, (b"b", b"2", 2), (b"ba", b"3", 3), C]
    assert changes_of(store.changes()) == {}


@pytest.mark.kip("892-11")
def test_a_new_transaction_begins_after_each_commit():
    store = TransactionalRows()
    put(store, {b"a": (b"1", 1), b"b": (b"2", 2)})
    assert store.approximate_num_uncommitted_entries == 2
    store.commit()
    assert store.approximate_num_uncommitted_entries == 0
    assert store.approximate_num_uncommitted_bytes == 0
    put(store, {b"a": (b"3", 3)})
    assert changes_of(store.changes()) == {b"a": (b"3", 3)}
    store.rollback()
    assert list(store.scan()) == [(b"a", b"1", 1), (b"b", b"2", 2)]
    put(store, {b"c": (b"4", 4)})
    store.commit()
    assert list(store.scan()) == [(b"a", b"1", 1), (b"b", b"2", 2), (b"c", b"4", 4)]


def test_a_rollback_takes_back_several_writes_of_one_key():
    store = TransactionalRows()
    put(store, {b"a": (b"first", 1)})
    store.commit()
    for rows in ({b"a": (b"second", 2)}, {b"a": (None, 3)}, {b"a": (b"third", 4), b"b": (b"new", 4)}):
        put(store, rows)
    assert changes_of(store.changes()) == {b"a": (b"third", 4), b"b": (b"new", 4)}
    store.rollback()
    assert list(store.scan()) == [(b"a", b"first", 1)]


@pytest.mark.kip("892-10")
def test_uncommitted_entries_and_bytes_count_every_write_until_the_transaction_ends():
    store = TransactionalRows()
    put(store, {b"a": (b"12345", 1), b"b": (None, 1)})
    first = store.approximate_num_uncommitted_bytes
    put(store, {b"a": (b"x" * 1000, 2)})
    assert store.approximate_num_uncommitted_entries == 3
    assert store.approximate_num_uncommitted_bytes - first >= 1000
    store.rollback()
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes) == (0, 0)


def test_a_row_that_came_back_to_its_value_by_rollback_is_as_clean_as_it_was(tmp_path: Path):
    database = Database(tmp_path / "db")
    store = TransactionalRows(database.family("store"))
    put(store, {b"a": (b"1", 1)})
    store.commit()
    database.write({"store": store.dirty_rows()}, {})
    store.flushed()
    put(store, {b"a": (b"2", 2)})
    store.rollback()
    assert (store.dirty_count(), list(store.dirty_rows())) == (0, [])
    database.close()


def test_rows_that_were_not_used_since_the_last_eviction_leave_memory_and_come_back_from_disk(tmp_path: Path):
    database = Database(tmp_path / "db")
    store = TransactionalRows(database.family("store"))
    many = {b"%06d" % i: (b"x" * 100, i) for i in range(5_000)}
    put(store, many)
    store.commit()
    database.write({"store": store.dirty_rows()}, {})
    store.flushed()
    full = store.nbytes
    store.evict()
    get(store, b"000001")
    store.evict()
    assert store.nbytes < full / 50
    assert [row[0] for row in store.scan(b"000100", b"000103")] == [b"000100", b"000101", b"000102"]
    assert get(store, b"004999", b"000001") == [(b"x" * 100, 4_999), (b"x" * 100, 1)]
    assert sum(1 for _ in store.scan()) == 5_000
    database.close()


def test_a_store_that_has_nothing_on_disk_finds_nothing_there_after_an_eviction():
    store = TransactionalRows()
    put(store, {b"a": (b"1", 10)})
    store.rollback()
    store.evict(everything=True)
    assert store.look_up(keys_of([b"a"])).data.to_pylist() == [None]


def test_replaced_values_do_not_pile_up_in_memory():
    store = TransactionalRows()
    for i in range(200):
        put(store, {b"%d" % n: (b"v" * 1_000, i) for n in range(100)})
        store.commit()
    assert store.nbytes < 20 * 100 * 1_000
    assert get(store, b"7") == [(b"v" * 1_000, 199)]


@pytest.mark.parametrize(
    ("prefix", "above"),
    [(b"a", b"b"), (b"a\xff", b"b"), (b"a\xff\xff", b"b"), (b"\x00", b"\x01"), (b"\xff\xff", None), (b"", None)],
)
def test_the_lowest_key_above_a_prefix(prefix, above):
    assert after_prefix(prefix) == above


def test_values_on_disk_are_the_timestamp_in_8_bytes_and_the_value():
    values = values_of([(b"v", 258), (None, 7), (b"", -1)])
    packed_values = pack_all(values)
    assert packed_values.to_pylist() == [b"\0\0\0\0\0\0\1\2v", None, b"\xff" * 8]
    unpacked = unpack_all(packed_values)
    assert unpacked.data.to_pylist() == [b"v", None, b""]
    assert unpacked.timestamps.tolist() == [258, -1, -1]


def test_values_on_disk_are_read_from_a_slice_of_an_array():
    sliced = pack_all(values_of([(b"no", 1), (b"yes", 2), (None, 3), (b"also", 4)])).slice(1, 3)
    unpacked = unpack_all(sliced)
    assert (unpacked.data.to_pylist(), unpacked.timestamps.tolist()) == ([b"yes", None, b"also"], [2, -1, 4])


def test_a_look_up_of_nothing_finds_nothing():
    store = TransactionalRows()
    rows = store.find(keys_of([]))
    store.put(rows, values_of([]))
    assert (rows.tolist(), store.get(rows).data.equals(binary()), list(store.scan())) == ([], True, [])
    assert isinstance(rows, np.ndarray)


@pytest.mark.parametrize("others", [0, 1000])
def test_a_row_that_was_written_twice_counts_as_one_change_among_few_rows_and_many(others):
    store = TransactionalRows()
    put(store, {b"%d" % number: (b"0", 0) for number in range(others)})
    store.commit()
    put(store, {b"b": (b"1", 1), b"a": (b"1", 1)})
    put(store, {b"a": (b"2", 2), b"c": (None, 2)})
    assert changes_of(store.changes()) == {b"b": (b"1", 1), b"a": (b"2", 2), b"c": None}
