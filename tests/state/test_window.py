"""Window stores: segments of time, retention, expiry, fetch."""

from pathlib import Path

import pytest

from penstock.state.database import Database
from penstock.state.kinds.window import WindowStore
from support.rows import as_tuples, keys_of, values_of

MINUTE = 60_000


def write(store: WindowStore, rows: dict[tuple[bytes, int], tuple[bytes | None, int]]) -> None:
    names, starts = zip(*rows, strict=True)
    store.put(store.locate(keys_of(names, starts)), values_of(rows.values()))


def flush(store: WindowStore, database: Database) -> None:
    """What a task does with a store at a flush."""
    dirty = {name: piece.dirty_rows() for name, piece in store.families().items() if piece.dirty_count()}
    database.write(dirty, {})
    store.flushed(database)


@pytest.fixture
def database(tmp_path: Path):
    database = Database(tmp_path / "db")
    yield database
    database.close()


@pytest.mark.parametrize("in_memory", [False, True])
def test_windows_are_read_by_key_and_by_range_of_starts(in_memory):
    store = WindowStore("s", retention=10 * MINUTE, in_memory=in_memory)
    write(store, {(b"a", 0): (b"1", 3), (b"ab", 0): (b"2", 4), (b"a", 5 * MINUTE): (b"3", 5 * MINUTE)})
    write(store, {(b"a", MINUTE): (b"4", MINUTE), (b"a", 0): (b"5", 9)})
    assert list(store.fetch(b"a", 0, 10 * MINUTE)) == [
        (0, b"5", 9),
        (MINUTE, b"4", MINUTE),
        (5 * MINUTE, b"3", 5 * MINUTE),
    ]
    assert list(store.fetch(b"a", 1, MINUTE)) == [(MINUTE, b"4", MINUTE)]
    assert list(store.fetch(b"ab", 0, 0)) == [(0, b"2", 4)]
    assert list(store.fetch(b"", 0, 10 * MINUTE)) == []
    assert as_tuples(store.locate(keys_of([b"ab", b"a", b"a"], [0, 0, 7])).get()) == [(b"2", 4), (b"5", 9), None]


def test_a_persistent_store_iterates_by_segment_and_key_and_one_in_memory_by_start():
    rows = {(b"b", 0): (b"1", 1), (b"a", 50_000): (b"2", 2), (b"a", 6 * MINUTE): (b"3", 3), (b"a", 0): (b"4", 4)}
    for in_memory, expected in [
        (False, [(b"a", 0), (b"a", 50_000), (b"b", 0), (b"a", 6 * MINUTE)]),
        (True, [(b"a", 0), (b"b", 0), (b"a", 50_000), (b"a", 6 * MINUTE)]),
    ]:
        store = WindowStore("s", retention=10 * MINUTE, in_memory=in_memory)
        write(store, rows)
        assert [(key, start) for key, start, _, _ in store.rows()] == expected


@pytest.mark.parametrize(
    ("retention", "interval"), [(0, MINUTE), (2 * MINUTE, MINUTE), (10 * MINUTE, 5 * MINUTE), (130_000, 65_000)]
)
def test_a_segment_covers_half_the_retention_and_at_least_a_minute(retention, interval):
    assert WindowStore("s", retention).segment_interval == interval


def test_windows_at_or_before_stream_time_minus_retention_are_not_visible():
    store = WindowStore("s", retention=2 * MINUTE)
    write(store, {(b"a", 0): (b"1", 0), (b"a", 1): (b"2", 1)})
    store.advance(2 * MINUTE - 1)
    assert [start for start, _, _ in store.fetch(b"a", 0, 9)] == [0, 1]
    store.advance(2 * MINUTE)
    assert [start for start, _, _ in store.fetch(b"a", 0, 9)] == [1]
    assert [row[1] for row in store.rows()] == [1]
    store.advance(2 * MINUTE + 1)
    assert list(store.rows()) == []


def test_stream_time_moves_with_what_is_put_and_never_back():
    store = WindowStore("s", retention=2 * MINUTE)
    write(store, {(b"a", 5): (b"1", 99 * MINUTE), (b"b", 7): (b"1", 0)})
    assert store.observed_stream_time == 7
    store.advance(3)
    assert store.state() == {"observed_stream_time": 7}


def test_segments_that_lie_wholly_in_the_past_go_and_take_no_more_rows(database):
    store = WindowStore("s", retention=2 * MINUTE)
    store.open(database)
    write(store, {(b"a", 0): (b"1", 0), (b"a", MINUTE): (b"2", MINUTE)})
    store.commit()
    flush(store, database)
    assert database.families() == ["s/0", "s/1"]
    store.advance(3 * MINUTE)
    store.commit()
    assert database.families() == ["s/0", "s/1"]
    flush(store, database)
    assert database.families() == ["s/1"]
    late = store.locate(keys_of([b"a", b"a"], [0, MINUTE + 1]))
    assert as_tuples(late.get()) == [None, None]
    store.put(late, values_of([(b"3", 0), (b"4", 1)]))
    assert as_tuples(store.locate(keys_of([b"a", b"a"], [0, MINUTE + 1])).get()) == [None, (b"4", 1)]


def test_a_rollback_brings_expired_segments_and_the_stream_time_back():
    store = WindowStore("s", retention=2 * MINUTE)
    write(store, {(b"a", 0): (b"1", 0)})
    store.commit()
    write(store, {(b"a", 0): (b"2", 1), (b"b", 9 * MINUTE): (b"3", 2)})
    assert list(store.rows()) == [(b"b", 9 * MINUTE, b"3", 2)]
    store.rollback()
    assert list(store.rows()) == [(b"a", 0, b"1", 0)]
    assert store.observed_stream_time == 0


@pytest.mark.kip("892-11")
def test_each_segment_begins_a_new_transaction_after_a_commit():
    store = WindowStore("s", retention=10 * MINUTE)
    write(store, {(b"a", 0): (b"1", 0), (b"a", 6 * MINUTE): (b"2", 1)})
    assert [segment.approximate_num_uncommitted_entries for segment in store.pieces()] == [1, 1]
    assert store.approximate_num_uncommitted_entries == 2
    store.commit()
    assert store.approximate_num_uncommitted_entries == 0
    assert store.changes() is None
    write(store, {(b"a", 6 * MINUTE): (b"3", 2)})
    changes = store.changes()
    assert (changes.keys.data.to_pylist(), changes.keys.times.tolist()) == ([b"a"], [6 * MINUTE])
    assert as_tuples(changes.values) == [(b"3", 2)]
    store.rollback()
    assert [row[2] for row in store.rows()] == [b"1", b"2"]


@pytest.mark.kip("892-07")
def test_a_segment_answers_over_the_database_and_after_reopening(database):
    store = WindowStore("s", retention=10 * MINUTE)
    store.open(database)
    write(store, {(b"a", 0): (b"1", 0), (b"a", MINUTE): (b"2", 1), (b"b", 0): (b"3", 2)})
    store.commit()
    flush(store, database)
    for in_memory in (False, True):
        again = WindowStore("s", retention=10 * MINUTE, in_memory=in_memory)
        again.open(database)
        again.restore_state(store.state())
        write(again, {(b"a", 0): (None, 3), (b"a", 2): (b"4", 4)})
        assert list(again.fetch(b"a", 0, 9 * MINUTE)) == [(2, b"4", 4), (MINUTE, b"2", 1)]
        again.rollback()
        assert list(again.fetch(b"a", 0, 9 * MINUTE)) == [(0, b"1", 0), (MINUTE, b"2", 1)]


def test_changes_of_all_segments_are_one_change_set_that_another_store_can_apply():
    store, other = (WindowStore("s", retention=10 * MINUTE) for _ in range(2))
    write(store, {(b"a", 0): (b"1", 0), (b"b", 6 * MINUTE): (b"2", 1), (b"c", 12 * MINUTE): (None, 2)})
    other.apply(store.changes())
    assert list(other.rows()) == list(store.rows()) == [(b"b", 6 * MINUTE, b"2", 1)]
    assert other.changes() is None
    assert other.observed_stream_time == 12 * MINUTE


def test_stores_whose_names_begin_alike_keep_their_segments_apart(database):
    for name in ("s", "s2", "s-0"):
        store = WindowStore(name, retention=10 * MINUTE)
        store.open(database)
        write(store, {(name.encode(), 0): (b"1", 0)})
        store.commit()
        flush(store, database)
    again = WindowStore("s", retention=10 * MINUTE)
    again.open(database)
    assert [row[0] for row in again.rows()] == [b"s"]
