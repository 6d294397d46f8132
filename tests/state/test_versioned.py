"""Versioned stores: puts in and out of order, reads as of a time, history retention, segments, changelog and disk."""

import random
from pathlib import Path

import numpy as np
import pytest

from penstock.settings import StateSettings
from penstock.state.columns.rows import Keys
from penstock.state.database import Database
from penstock.state.kinds.versioned.puts import VersionedPuts, repeated_deletions
from penstock.state.kinds.versioned.store import NOT_PUT, VersionedStore, segment_interval_of
from support.checkpoint import Checkpoint
from support.rows import binary

LATEST = -1


def history(store: VersionedStore, key: bytes = b"k") -> list[tuple[bytes, int, int | None]]:
    """Value, valid-from and valid-to of all versions of a key."""
    return [row[1:] for row in store.versions(key)]


def as_of(store: VersionedStore, time: int | None = None, key: bytes = b"k") -> bytes | None:
    found = store.get_one(key, time)
    return None if found is None else found.value


# --- puts and reads --------------------------------------------------------------------------------------------------


@pytest.mark.kip("914-12")
def test_a_put_says_until_when_its_version_is_valid():
    store = VersionedStore("s", history_retention=100)
    assert store.put_one(b"k", b"v10", 10) == LATEST
    assert store.put_one(b"k", b"v30", 30) == LATEST
    assert store.put_one(b"k", b"v20", 20) == 30
    assert store.put_one(b"k", b"v5", 5) == 10
    assert store.put_one(b"k", b"V20", 20) == 30  # the same time again: replaced
    assert store.put_one(b"k", b"V30", 30) == LATEST
    assert store.put_one(b"k", None, 25) == 30
    assert store.put_one(b"j", b"j200", 200) == LATEST
    assert store.put_one(b"k", b"v99", 99) == NOT_PUT == -(2**63)  # the grace period is over
    assert store.put_one(b"k", b"v100", 100) == LATEST
    assert history(store) == [
        (b"v5", 5, 10),
        (b"v10", 10, 20),
        (b"V20", 20, 25),
        (b"V30", 30, 100),
        (b"v100", 100, None),
    ]


@pytest.mark.kip("914-13")
def test_reads_find_the_latest_version_or_the_one_valid_at_a_time():
    store = VersionedStore("s", history_retention=100)
    for value, time in [(b"v10", 10), (b"v30", 30), (b"v20", 20), (None, 40)]:
        store.put_one(b"k", value, time)
    assert as_of(store) is None
    assert [as_of(store, time) for time in (9, 10, 19, 20, 29, 30, 39, 40, 1000)] == [
        None,
        b"v10",
        b"v10",
        b"v20",
        b"v20",
        b"v30",
        b"v30",
        None,
        None,
    ]
    assert as_of(store, 15, key=b"other") is None


@pytest.mark.kip("914-13")
def test_beyond_the_history_retention_only_a_latest_version_is_found():
    store = VersionedStore("s", history_retention=100)
    for key, value, time in [(b"k", b"v10", 10), (b"k", b"v50", 50), (b"once", b"v0", 0), (b"j", b"j120", 120)]:
        store.put_one(key, value, time)
    assert [as_of(store, time) for time in (19, 20, 50)] == [None, b"v10", b"v50"]
    assert [as_of(store, time, b"once") for time in (0, 19)] == [b"v0", b"v0"]


@pytest.mark.kip("914-13")
def test_a_version_before_the_history_is_not_put_even_if_its_key_has_none():
    store = VersionedStore("s", history_retention=100)
    store.put_one(b"j", b"j120", 120)
    assert store.put_one(b"k", b"too late", 19) == NOT_PUT
    assert store.get_one(b"k") is None
    assert store.put_one(b"k", b"v20", 20) == LATEST
    assert store.get_one(b"k") == (b"k", b"v20", 20, None)


@pytest.mark.kip("914-13")
def test_a_deletion_behind_a_version_before_the_history_deletes_nothing():
    store = VersionedStore("s", history_retention=100)
    store.put_one(b"j", b"j300", 300)
    data = binary(b"too late", None)
    skipped = repeated_deletions(store, Keys(binary(b"k")), np.zeros(2, np.int64), np.array([199, 301]), data)
    assert skipped.tolist() == [False, True]


@pytest.mark.kip("914-13")
def test_a_deletion_returns_what_was_valid_then():
    store = VersionedStore("s", history_retention=100)
    store.put_one(b"k", b"v10", 10)
    store.put_one(b"k", b"v30", 30)
    assert store.delete_one(b"k", 20) == (b"k", b"v10", 10, 30)
    assert store.delete_one(b"k", 25) is None
    assert history(store) == [(b"v10", 10, 20), (b"v30", 30, None)]
    store.put_one(b"j", b"j200", 200)
    assert store.delete_one(b"k", 99) is None  # too late
    assert store.delete_one(b"k", 150) == (b"k", b"v30", 30, None)
    assert as_of(store) is None


@pytest.mark.kip("914-14")
def test_versions_in_a_range_of_time_in_both_directions():
    store = VersionedStore("s", history_retention=1000)
    for time in (10, 20, 30, 40):
        store.put_one(b"k", b"v%d" % time, time)
    between = [(b"v10", 10, 20), (b"v20", 20, 30), (b"v30", 30, 40)]
    assert [row[1:] for row in store.versions(b"k", 15, 30)] == between
    assert [row[1:] for row in store.versions(b"k", 15, 30, reverse=True)] == between[::-1]
    assert [row[1:] for row in store.versions(b"k", 20, 29)] == [(b"v20", 20, 30)]
    assert [row[1:] for row in store.versions(b"k", 41)] == [(b"v40", 40, None)]


def test_keys_that_begin_alike_do_not_mix():
    store = VersionedStore("s", history_retention=1000)
    for key in (b"a", b"a\0", b"a\0\0\0\0\0\0\0\0\x0f", b""):
        store.put_one(key, key + b"1", 10)
        store.put_one(key, key + b"2", 20)
    for key in (b"a", b"a\0", b"a\0\0\0\0\0\0\0\0\x0f", b""):
        assert history(store, key) == [(key + b"1", 10, 20), (key + b"2", 20, None)]
        assert as_of(store, 12, key) == key + b"1"


def test_a_deletion_at_the_very_time_of_the_latest_version_is_forgotten_as_in_kafka_streams():
    store = VersionedStore("s", history_retention=100)
    store.put_one(b"k", b"v20", 20)
    store.put_one(b"k", None, 20)
    assert store.put_one(b"k", b"v10", 10) == LATEST
    assert history(store) == [(b"v10", 10, None)]


# --- segments --------------------------------------------------------------------------------------------------------


@pytest.mark.kip("914-13")
def test_history_expires_by_whole_segments_of_the_times_at_which_versions_end():
    store = VersionedStore("s", history_retention=300, segment_interval=100)
    for time in (10, 110, 150, 210, 310):
        store.put_one(b"k", b"v%d" % time, time)
    assert [row.valid_from for row in store.versions(b"k")] == [10, 110, 150, 210, 310]
    store.put_one(b"j", b"j", 499)
    assert [row.valid_from for row in store.versions(b"k")] == [10, 110, 150, 210, 310]  # segment 1 is still live
    store.put_one(b"j", b"j", 500)
    assert [row.valid_from for row in store.versions(b"k")] == [150, 210, 310]
    store.put_one(b"j", b"j", 5000)
    assert list(store.rows()) == [
        (b"j", b"j", 500, 5000),
        (b"j", b"j", 5000, None),
        (b"k", b"v310", 310, None),
    ]


def test_the_segments_of_a_history_retention_are_those_of_kafka_streams():
    assert [segment_interval_of(ms) for ms in (0, 6000, 60_000, 60_001, 300_000, 3_600_000, 86_400_000)] == [
        2_000,
        2_000,
        20_000,
        20_000,
        60_000,
        300_000,
        3_600_000,
    ]


# --- many puts at once -----------------------------------------------------------------------------------------------


def puts_of(store: VersionedStore, rows: list[tuple[bytes, bytes | None, int]]) -> VersionedPuts:
    names = sorted({key for key, _, _ in rows})
    codes = np.array([names.index(key) for key, _, _ in rows], np.int64)
    times = np.array([time for _, _, time in rows], np.int64)
    return VersionedPuts(store, Keys(binary(*names)), codes, times, binary(*(value for _, value, _ in rows)))


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 60))])
def test_many_puts_at_once_do_what_they_do_one_after_the_other(seed):
    """In-order and out-of-order puts, repeated times, deletions, expired puts; against the same store, put by put."""
    choose = random.Random(seed)
    limits = {"history_retention": choose.choice([0, 20, 100, 1000]), "segment_interval": choose.choice([5, 30, 400])}
    one_by_one, at_once = VersionedStore("one", **limits), VersionedStore("many", **limits)
    deletions = choose.choice([0, 0.2])
    for chunk in range(6):
        rows = [
            (
                choose.choice([b"a", b"b", b"c"]),
                None if choose.random() < deletions else b"%d" % choose.randrange(100),
                choose.randrange(100) + 20 * chunk,
            )
            for _ in range(choose.randrange(1, 25))
        ]
        before = [one_by_one.get_one(key) for key, _, _ in rows[:1]]
        results = []
        for key, value, time in rows:
            before.append(one_by_one.get_one(key))
            results.append(one_by_one.put_one(key, value, time))
        puts = puts_of(at_once, rows)
        puts.apply()
        assert puts.accepted.tolist() == [result != NOT_PUT for result in results]
        assert [bool(is_latest) for is_latest in puts.is_latest] == [result == LATEST for result in results]
        expected = [None if row is None else row.value for row in before[1:]]
        old = [value for value, fine in zip(puts.latest_before()[0].to_pylist(), puts.accepted, strict=True) if fine]
        assert old == [value for value, fine in zip(expected, puts.accepted, strict=True) if fine]
        assert list(at_once.rows()) == list(one_by_one.rows())
        assert at_once.observed_stream_time == one_by_one.observed_stream_time
        for key in (b"a", b"b", b"c"):
            for time in range(0, 230, 7):
                assert at_once.get_one(key, time) == one_by_one.get_one(key, time)


@pytest.mark.kip("914-13")
def test_rows_come_by_key_and_then_by_time_where_a_key_is_another_one_and_nul():
    store = VersionedStore("prices", history_retention=1000)
    keys = [b"a", b"a\x00", b"a" + bytes(9), b"", bytes(3), b"b"]
    for number in range(4):
        for place, key in enumerate(keys):
            store.put_one(key, b"%d" % number, 100 * number + 7 * place + 1)
    rows = list(store.rows())
    assert [(row.key, row.valid_from) for row in rows] == sorted((row.key, row.valid_from) for row in rows)
    assert len(rows) == 24


def test_a_key_with_many_versions_is_read_and_written_without_going_through_them():
    store = VersionedStore("s", history_retention=10**9, segment_interval=10**9)
    for chunk in range(50):
        puts_of(store, [(b"k", b"%d" % time, time) for time in range(chunk * 2000, chunk * 2000 + 2000)]).apply()
        store.commit()
    assert as_of(store, 77_777) == b"77777"
    assert store.put_one(b"k", b"between", 50_000) == 50_001
    changes = store.changes()
    assert changes is not None
    assert len(changes.keys) == 1  # of 100 thousand versions


# --- transactions, changelog, disk -----------------------------------------------------------------------------------

ROWS = [
    (b"k", b"v10", 10),
    (b"k", b"v110", 110),
    (b"k", b"v50", 50),
    (b"j", None, 60),
    (b"j", b"j40", 40),
    (b"k", None, 120),
]


def test_a_rollback_takes_back_versions_deletions_and_stream_time():
    store = VersionedStore("s", history_retention=1000, segment_interval=50)
    puts_of(store, ROWS).apply()
    store.commit()
    before = list(store.rows())
    assert [as_of(store, 45), as_of(store, 60), as_of(store, 115)] == [b"v10", b"v50", b"v110"]
    puts_of(store, [(b"k", b"v45", 45), (b"k", b"v2000", 2000), (b"j", b"j55", 55)]).apply()
    store.rollback()
    assert list(store.rows()) == before
    assert store.observed_stream_time == 120
    assert [as_of(store, 45), as_of(store, 60), as_of(store, 115)] == [b"v10", b"v50", b"v110"]
    assert store.put_one(b"j", b"j55", 55) == 60


@pytest.mark.parametrize("in_memory", [False, True])
def test_the_changelog_restores_every_version_and_drops_none_as_late(tmp_path: Path, in_memory: bool):
    def stores() -> list[VersionedStore]:
        return [VersionedStore("s", history_retention=100, segment_interval=30, in_memory=in_memory)]

    checkpoint = Checkpoint(tmp_path)
    state = checkpoint.open(stores())
    store = state.stores["s"]
    for rows in (ROWS[:3], ROWS[3:], [(b"k", b"v130", 130), (b"k", b"v125", 125)]):
        puts_of(store, rows).apply()
        checkpoint.commit(state)
    kept, time = list(store.rows()), store.observed_stream_time
    state.abandon()
    restored = checkpoint.open(stores(), tmp_path / "elsewhere").stores["s"]
    assert list(restored.rows()) == kept
    assert restored.observed_stream_time == time == 130
    assert [restored.put_one(b"j", b"x", at) for at in (29, 30, 45)] == [NOT_PUT, 40, 60]


@pytest.mark.parametrize("in_memory", [False, True])
def test_older_versions_and_deletions_are_found_when_the_store_is_opened_again(tmp_path: Path, in_memory: bool):
    checkpoint = Checkpoint(tmp_path, StateSettings(flush_commits=1))
    state = checkpoint.open([VersionedStore("s", history_retention=100, in_memory=in_memory)])
    for row in ((b"k", b"v10", 10), (b"k", b"v20", 20), (b"j", None, 15)):
        state.stores["s"].put_one(*row)
    checkpoint.commit(state)
    state.close()
    state = checkpoint.open([VersionedStore("s", history_retention=100, in_memory=in_memory)])
    store = state.stores["s"]
    assert (store.get_one(b"k", 10).value, store.get_one(b"k", 20).value) == (b"v10", b"v20")
    assert store.put_one(b"j", b"late", 5) == 15
    state.close()


def test_versions_on_disk_are_found_like_those_in_memory(tmp_path: Path):
    choose = random.Random(1)
    checkpoint = Checkpoint(tmp_path, StateSettings(hot_max_bytes=1, flush_commits=1, flush_rows=1))
    state = checkpoint.open([VersionedStore("s", history_retention=500, segment_interval=60)])
    on_disk, in_memory = state.stores["s"], VersionedStore("m", history_retention=500, segment_interval=60)
    for chunk in range(12):
        rows = [
            (choose.choice([b"a", b"a\0", b"b"]), choose.choice([b"x", b"y", None]), choose.randrange(100) + 50 * chunk)
            for _ in range(10)
        ]
        for store in (on_disk, in_memory):
            puts_of(store, rows).apply()
        checkpoint.commit(state)
        for key in (b"a", b"a\0", b"b"):
            for time in range(0, 700, 23):
                assert on_disk.get_one(key, time) == in_memory.get_one(key, time)
        assert list(on_disk.rows()) == list(in_memory.rows())
    state.close()


def test_expired_segments_leave_the_disk(tmp_path: Path):
    checkpoint = Checkpoint(tmp_path, StateSettings(flush_commits=1))
    state = checkpoint.open([VersionedStore("s", history_retention=100, segment_interval=50)])
    for time in (10, 60, 300):
        state.stores["s"].put_one(b"k", b"v%d" % time, time)
        checkpoint.commit(state)
    state.close()
    database = Database(checkpoint.folder)
    assert database.families() == ["s", "s/6"]
    database.close()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_what_was_valid_at_a_time_is_found_in_memory_and_on_disk(tmp_path, seed):
    """Keys begin alike, and some versions end in one segment, some in another."""
    rng = random.Random(seed)
    names = [b"a", b"a\0", b"a" + bytes(8), b"b"]
    database, reference = Database(tmp_path / "db"), VersionedStore("s", 600_000)
    store = VersionedStore("s", 600_000)
    store.open(database)
    for _ in range(20):
        for _ in range(10):
            put = rng.choice(names), rng.choice([None, b"%d" % rng.randrange(100)]), rng.randrange(500_000)
            store.put_one(*put)
            reference.put_one(*put)
        store.commit()
        if rng.random() < 0.5:
            database.write({name: piece.dirty_rows() for name, piece in store.families().items()}, {})
            store.flushed(database)
            store.evict(everything=rng.random() < 0.5)
        asked = [(rng.randrange(len(names)), rng.randrange(500_000)) for _ in range(30)]
        codes, times = (np.array(column) for column in zip(*asked, strict=True))
        keys = Keys(binary(*names))
        found, expected = (one.older(keys, codes, times) for one in (store, reference))
        assert found.valid_to.tolist() == expected.valid_to.tolist()
        assert found.valid_from.tolist() == expected.valid_from.tolist()
        assert found.data.to_pylist() == expected.data.to_pylist()
    database.close()
