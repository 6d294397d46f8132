"""Session stores: KIP-94's range rule, segments by the sessions' ends, retention, expiry, backward iteration."""

from pathlib import Path

import pytest

from penstock.record import SessionKey
from penstock.state.database import Database
from penstock.state.kinds.segments import segment_interval_of
from penstock.state.kinds.session import SessionStore

MINUTE = 60_000


def filled(*sessions, retention=10 * MINUTE, **given):
    store = SessionStore("s", retention, **given)
    for number, (start, end) in enumerate(sessions):
        store.put_session(SessionKey(b"k", start, end), b"%d" % number)
    return store


def bounds(rows):
    return [(session.start, session.end) for session, _ in rows]


@pytest.fixture
def database(tmp_path: Path):
    database = Database(tmp_path / "db")
    yield database
    database.close()


def flush(store: SessionStore, database: Database) -> None:
    """What a task does with a store at a flush."""
    dirty = {name: piece.dirty_rows() for name, piece in store.families().items() if piece.dirty_count()}
    database.write(dirty, {})
    store.flushed(database)


TEXT = [(0, 99), (101, 200), (201, 300), (301, 400)]


@pytest.mark.kip("94-08")
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("gap", [None, 0, 10])
@pytest.mark.parametrize(
    ("earliest_end", "latest_start", "expected"),
    [
        (0, 400, [(0, 99), (101, 200), (201, 300), (301, 400)]),
        (100, 301, [(101, 200), (201, 300), (301, 400)]),
        (99, 101, [(0, 99), (101, 200)]),
        (200, 201, [(101, 200), (201, 300)]),
        (201, 250, [(201, 300)]),
        (150, 150, [(101, 200)]),
        (300, 300, [(201, 300)]),
        (401, 500, []),
    ],
)
def test_sessions_are_found_by_earliest_end_and_latest_start(in_memory, gap, earliest_end, latest_start, expected):
    store = filled(*TEXT, in_memory=in_memory, gap=gap)
    assert bounds(store.find_sessions(b"k", earliest_end, latest_start)) == expected
    assert bounds(store.find_sessions(b"k", earliest_end, latest_start, reverse=True)) == expected[::-1]
    assert bounds(store.find_sessions(b"other", earliest_end, latest_start)) == []


@pytest.mark.kip("94-06")
def test_sessions_are_fetched_put_and_removed_by_key_start_and_end():
    store = filled((0, 99), (101, 200))
    assert list(store.fetch(b"k")) == [(SessionKey(b"k", 0, 99), b"0"), (SessionKey(b"k", 101, 200), b"1")]
    assert list(store.fetch(b"k", reverse=True)) == [
        (SessionKey(b"k", 101, 200), b"1"),
        (SessionKey(b"k", 0, 99), b"0"),
    ]
    assert store.fetch_session(b"k", 101, 200) == b"1"
    assert store.fetch_session(b"k", 101, 199) is None
    store.put_session(SessionKey(b"k", 0, 99), b"new")
    store.remove(SessionKey(b"k", 101, 200))
    assert list(store.fetch(b"k")) == [(SessionKey(b"k", 0, 99), b"new")]


@pytest.mark.kip("94-06")
@pytest.mark.parametrize(("end", "segment"), [(0, 0), (500, 0), (1000, 1), (2000, 2)])
def test_the_segment_of_a_session_follows_from_its_end(end, segment):
    store = filled((0, end), segment_interval=1000)
    assert list(store.families()) == [f"s/{segment}"]


@pytest.mark.kip("94-06")
def test_the_segment_interval_is_the_retention_by_the_number_of_segments_less_one_and_at_least_a_minute():
    assert segment_interval_of(10 * MINUTE, segments=3) == 5 * MINUTE
    assert segment_interval_of(10 * MINUTE, segments=11) == MINUTE
    assert segment_interval_of(MINUTE, segments=3) == MINUTE
    assert SessionStore("s", retention=10 * MINUTE).segment_interval == 5 * MINUTE
    assert SessionStore("s", retention=10 * MINUTE, segment_interval=1000).segment_interval == 1000


@pytest.mark.kip("94-06")
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_session_that_ended_before_the_retention_is_neither_visible_nor_stored(in_memory):
    store = filled((0, 100), (200, 1000), retention=1000, in_memory=in_memory)
    assert bounds(store.fetch(b"k")) == [(0, 100), (200, 1000)]
    store.put_session(SessionKey(b"other", 1100, 1100), b"")  # stream time 1100: what ended at 100 is out of reach
    assert bounds(store.fetch(b"k")) == [(200, 1000)]
    assert not store.put_session(SessionKey(b"k", 50, 100), b"late")
    assert store.put_session(SessionKey(b"k", 50, 101), b"just in time")
    assert bounds(store.rows()) == [(50, 101), (200, 1000), (1100, 1100)]


@pytest.mark.kip("94-07")
def test_expiry_drops_whole_segments_from_memory_and_disk(database):
    store = filled((0, 10), (MINUTE, MINUTE + 5), retention=2 * MINUTE)
    store.commit()
    flush(store, database)
    assert list(database.families()) == ["s/0", "s/1"]
    store.put_session(SessionKey(b"k", 4 * MINUTE, 4 * MINUTE), b"")
    assert list(store.families()) == ["s/4"]
    store.commit()
    flush(store, database)
    assert list(database.families()) == ["s/4"]


def test_a_rollback_brings_sessions_segments_and_stream_time_back():
    store = filled((0, 10), retention=2 * MINUTE)
    store.commit()
    store.put_session(SessionKey(b"k", 0, 10), None)
    store.put_session(SessionKey(b"k", 0, 4 * MINUTE), b"merged")
    store.rollback()
    assert list(store.rows()) == [(SessionKey(b"k", 0, 10), b"0")]
    assert store.observed_stream_time == 10


@pytest.mark.parametrize("in_memory", [False, True])
def test_sessions_come_back_from_the_disk(database, in_memory):
    store = filled((0, 10), (30, 40), (MINUTE, MINUTE + 9), in_memory=in_memory, segment_interval=MINUTE)
    store.commit()
    flush(store, database)
    again = SessionStore("s", 10 * MINUTE, in_memory, segment_interval=MINUTE)
    again.open(database)
    again.restore_state(store.state())
    assert list(again.rows()) == list(store.rows())
    again.put_session(SessionKey(b"k", 5, 20), b"more")
    assert bounds(again.fetch(b"k")) == [(0, 10), (5, 20), (30, 40), (MINUTE, MINUTE + 9)]


def test_a_persistent_store_iterates_by_segment_key_and_end_and_one_in_memory_by_end():
    rows = [(b"b", 0, 5), (b"a", 7, 9), (b"a", 2, 4), (b"a", MINUTE, MINUTE)]
    for in_memory, expected in [(False, [2, 1, 0, 3]), (True, [2, 0, 1, 3])]:
        store = SessionStore("s", 10 * MINUTE, in_memory, segment_interval=MINUTE)
        for row in rows:
            store.put_session(SessionKey(*row), b"")
        assert [session for session, _ in store.rows()] == [rows[i] for i in expected]
        assert [session for session, _ in store.rows(reverse=True)] == [rows[i] for i in expected[::-1]]
