"""Key-value stores, persistent and in memory."""

from pathlib import Path

import pytest

from penstock.state.database import Database
from penstock.state.kinds.key_value import KeyValueStore
from support.rows import as_tuples, keys_of, values_of


@pytest.fixture
def database(tmp_path: Path):
    database = Database(tmp_path / "db")
    yield database
    database.close()


def write(store: KeyValueStore, rows: dict[bytes, tuple[bytes | None, int]]) -> None:
    store.put(store.locate(keys_of(rows)), values_of(rows.values()))


def flush(store: KeyValueStore, database: Database) -> None:
    """What a task does with a store at a flush."""
    database.write({name: piece.dirty_rows() for name, piece in store.families().items()}, {})
    store.flushed(database)


@pytest.mark.parametrize("in_memory", [False, True])
def test_rows_are_read_deleted_and_iterated_in_order_of_their_bytes(in_memory):
    store = KeyValueStore("s", in_memory)
    write(store, {b"b": (b"1", 1), b"\xff": (b"2", 2), b"": (b"3", 3), b"ba": (b"", 4)})
    assert as_tuples(store.get(keys_of([b"b", b"x", b"ba"]))) == [(b"1", 1), None, (b"", 4)]
    store.delete(store.locate(keys_of([b"b", b"x"])))
    assert list(store.rows()) == [(b"", b"3", 3), (b"ba", b"", 4), (b"\xff", b"2", 2)]
    assert [key for key, _, _ in store.range(b"ba", b"\xff", reverse=True)] == [b"ba"]
    assert [key for key, _, _ in store.prefix_scan(b"b", reverse=True)] == [b"ba"]


@pytest.mark.parametrize("in_memory", [False, True])
def test_committed_rows_are_there_after_a_flush_an_eviction_and_reopening(database, in_memory):
    store = KeyValueStore("s", in_memory)
    store.open(database)
    write(store, {b"a": (b"1", 1), b"b": (b"2", 2)})
    store.commit()
    flush(store, database)
    store.evict(everything=True)
    assert list(store.rows()) == [(b"a", b"1", 1), (b"b", b"2", 2)]
    again = KeyValueStore("s", in_memory)
    again.open(database)
    write(again, {b"a": (None, 3), b"c": (b"4", 4)})
    assert list(again.rows()) == [(b"b", b"2", 2), (b"c", b"4", 4)]
    again.rollback()
    assert list(again.rows()) == [(b"a", b"1", 1), (b"b", b"2", 2)]


def test_only_a_store_in_memory_keeps_its_rows_there_when_asked_to_make_room(database):
    held = {}
    for in_memory in (False, True):
        store = KeyValueStore(f"s{in_memory}", in_memory)
        store.open(database)
        write(store, {b"%d" % i: (b"x" * 100, i) for i in range(1_000)})
        store.commit()
        flush(store, database)
        store.evict(everything=True)
        held[in_memory] = store.nbytes
    assert held[False] < 10_000
    assert held[True] > 100_000


def test_changes_are_applied_by_another_store_and_committed():
    store, other = KeyValueStore("s"), KeyValueStore("s")
    write(other, {b"gone": (b"1", 1)})
    other.commit()
    write(store, {b"a": (b"1", 1), b"gone": (None, 2)})
    other.apply(store.changes())
    assert list(other.rows()) == [(b"a", b"1", 1)]
    assert other.changes() is None
