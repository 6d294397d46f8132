"""A task's state comes back at the newest commit from whatever is left: its database, delta files, a snapshot."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rocksdict import Rdict

import penstock
from penstock import TopicPartition
from penstock.errors import CorruptDataError, StoreError
from penstock.settings import StateSettings
from penstock.state.database import Database
from penstock.state.disk_schedule import DiskSchedule
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.window import WindowStore
from penstock.state.store import StateStore
from penstock.state.task_context import TaskContext
from penstock.state.task_state import Committed, TaskState
from support.checkpoint import Checkpoint
from support.rows import keys_of, values_of

EVERY_COMMIT = StateSettings(flush_commits=1, snapshot_commits=1)
NEVER = StateSettings(flush_commits=1_000, snapshot_commits=1_000)
FLUSH_ONLY = StateSettings(flush_commits=1, snapshot_commits=1_000)


def stores() -> list[KeyValueStore | WindowStore]:
    return [KeyValueStore("counts"), WindowStore("hours", retention=3_600_000)]


def count(state: TaskState, key: bytes, value: bytes | None, timestamp: int = 0) -> None:
    store = state.stores["counts"]
    store.put(store.locate(keys_of([key])), values_of([(value, timestamp)]))


def count_in_hour(state: TaskState, key: bytes, start: int, value: bytes | None) -> None:
    store = state.stores["hours"]
    store.put(store.locate(keys_of([key], [start])), values_of([(value, start)]))


def content(state: TaskState) -> dict[str, list[tuple]]:
    return {name: list(store.rows()) for name, store in state.stores.items()}


def on_disk(folder: Path) -> tuple[int, dict[str, list[bytes]]]:
    """The commit a database is at, and the keys of its rows by column family."""
    database = Database(folder)
    found = database.meta().get("commit", -1)
    keys = {name: [key for key, _ in database.family(name).scan(None, None)] for name in database.families()}
    database.close()
    return found, {name: found for name, found in keys.items() if found}


def three_commits(checkpoint: Checkpoint) -> TaskState:
    state = checkpoint.open(stores())
    count(state, b"a", b"1", 10)
    count_in_hour(state, b"a", 0, b"1")
    checkpoint.commit(state)
    count(state, b"a", b"2", 20)
    count(state, b"b", b"1", 21)
    state.clock("windowed").advance(np.array([500]))
    checkpoint.commit(state)
    count(state, b"b", None, 30)
    count_in_hour(state, b"b", 60_000, b"1")
    checkpoint.commit(state)
    return state


EXPECTED = {"counts": [(b"a", b"2", 20)], "hours": [(b"a", 0, b"1", 0), (b"b", 60_000, b"1", 60_000)]}


def check(state: TaskState) -> None:
    """The state is the one after ``three_commits``, and goes on from there."""
    assert (state.at, content(state)) == (2, EXPECTED)
    assert state.clock("windowed").now == 500
    assert state.stores["hours"].state() == {"observed_stream_time": 60_000}
    assert state.changes() == []


# --- opening ------------------------------------------------------------------------------------------------------


def test_a_task_opens_from_nothing(checkpoint):
    state = checkpoint.open(stores())
    assert (state.at, content(state)) == (-1, {"counts": [], "hours": []})
    state.close()


def test_a_task_opens_from_its_own_database(checkpoint):
    state = three_commits(checkpoint)
    state.close()
    checkpoint.commits = []  # nothing but the database
    state = checkpoint.open(stores())
    check(state)
    state.close()


@pytest.mark.kip("892-08")
def test_a_task_opens_from_delta_files_alone(checkpoint):
    checkpoint.settings = NEVER
    three_commits(checkpoint).abandon()
    shutil.rmtree(checkpoint.folder)
    state = checkpoint.open(stores())
    check(state)
    state.close()


@pytest.mark.kip("892-08")
def test_a_killed_task_reads_only_the_delta_files_that_its_database_lacks(checkpoint):
    checkpoint.settings = StateSettings(flush_commits=2, snapshot_commits=1_000)
    three_commits(checkpoint).abandon()
    assert on_disk(checkpoint.folder) == (1, {"counts": [b"a", b"b"], "hours/0": [b"a" + bytes(8)]})
    for step in checkpoint.commits[:2]:
        checkpoint.storage.delete(step.delta.name)
    state = checkpoint.open(stores())
    check(state)
    state.close()


def test_a_task_opens_from_a_snapshot_on_another_machine(checkpoint, tmp_path):
    checkpoint.settings = EVERY_COMMIT
    state = three_commits(checkpoint)
    checkpoint.commit(state)  # from here on the manifest names the snapshot of commit 2
    state.close()
    assert (checkpoint.snapshot, [step.commit for step in checkpoint.commits]) == (2, [2, 3])
    other = checkpoint.open(stores(), folder=tmp_path / "elsewhere" / "task")
    assert other.at == 3
    assert content(other) == EXPECTED
    other.close()


def test_a_task_opens_from_snapshot_database_and_delta_files_together(checkpoint, tmp_path):
    checkpoint.settings = StateSettings(flush_commits=2, snapshot_commits=2)
    state = three_commits(checkpoint)
    count(state, b"c", b"1", 40)
    checkpoint.commit(state)
    count(state, b"d", b"1", 50)
    checkpoint.commit(state)
    state.abandon()
    expected = EXPECTED | {"counts": [(b"a", b"2", 20), (b"c", b"1", 40), (b"d", b"1", 50)]}
    assert (checkpoint.snapshot, on_disk(checkpoint.folder)[0], checkpoint.newest) == (3, 3, 4)
    for folder in (checkpoint.folder, tmp_path / "elsewhere" / "task"):
        state = checkpoint.open(stores(), folder)
        assert (state.at, content(state)) == (4, expected)
        state.abandon()


def test_a_database_older_than_the_snapshot_is_replaced_by_it(checkpoint, tmp_path):
    checkpoint.settings = FLUSH_ONLY
    three_commits(checkpoint).close()
    shutil.copytree(checkpoint.folder, tmp_path / "old")
    checkpoint.settings = EVERY_COMMIT
    state = checkpoint.open(stores())
    for key in (b"x", b"y"):
        count(state, key, b"1", 60)
        checkpoint.commit(state)
    state.close()
    state = checkpoint.open(stores(), tmp_path / "old")
    assert [row[0] for row in content(state)["counts"]] == [b"a", b"x", b"y"]
    state.close()


def test_the_same_process_can_open_without_a_folder(checkpoint):
    three_commits(checkpoint).close()
    state = TaskState("0_0", stores(), StateSettings(), None, checkpoint.storage)
    state.open("application", checkpoint.newest, -1, checkpoint.since)
    check(state)


# --- refusals -----------------------------------------------------------------------------------------------------


def test_a_database_newer_than_the_newest_manifest_is_refused(checkpoint):
    three_commits(checkpoint).close()
    checkpoint.newest, checkpoint.commits = 1, checkpoint.commits[:2]
    with pytest.raises(
        StoreError, match=r"is at commit 2, but the newest manifest is of commit 1.*Restore the missing"
    ):
        checkpoint.open(stores())
    checkpoint.newest = 2
    state = checkpoint.open(stores())  # the refusal changed nothing, and let go of the database
    check(state)
    state.close()


def test_the_database_of_another_application_is_thrown_away(checkpoint, tmp_path):
    three_commits(checkpoint).close()
    other = Checkpoint(tmp_path / "other")
    other.folder, other.application = checkpoint.folder, "another application"
    state = other.open(stores())
    assert (state.at, content(state)) == (-1, {"counts": [], "hours": []})
    state.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is torn"),
        (lambda path: path.write_bytes(b"\0" + path.read_bytes()[1:]), "is damaged"),
    ],
    ids=["missing", "torn", "flipped"],
)
def test_a_damaged_delta_file_is_named_and_after_its_repair_the_task_opens(checkpoint, damage, message):
    checkpoint.settings = NEVER
    three_commits(checkpoint).abandon()
    path = checkpoint.storage.root / checkpoint.commits[1].delta.name
    whole = path.read_bytes()
    damage(path)
    state = TaskState("0_0", stores(), NEVER, checkpoint.folder, checkpoint.storage)
    with pytest.raises(CorruptDataError, match=f"0000000000000001.arrow {message}.*backup"):
        state.open("application", checkpoint.newest, -1, checkpoint.since)
    state.abandon()
    path.write_bytes(whole)
    state = checkpoint.open(stores())
    check(state)
    state.close()


# --- what is on disk ----------------------------------------------------------------------------------------------


@pytest.mark.kip("892-08")
@pytest.mark.parametrize("end", [TaskState.close, TaskState.abandon])
def test_a_database_never_holds_rows_of_a_commit_that_is_not_in_the_manifest(checkpoint, end):
    checkpoint.settings = FLUSH_ONLY
    state = three_commits(checkpoint)
    count(state, b"uncommitted", b"1", 40)
    count_in_hour(state, b"uncommitted", 120_000, b"1")
    end(state)
    assert on_disk(checkpoint.folder) == (
        2,
        {"counts": [b"a"], "hours/0": [b"a" + bytes(8), b"b" + (60_000).to_bytes(8, "big")]},
    )
    state = checkpoint.open(stores())
    check(state)
    state.close()


@pytest.mark.kip("892-08")
def test_a_task_killed_between_the_manifest_and_its_own_commit_applies_the_delta_file(checkpoint):
    checkpoint.settings = FLUSH_ONLY
    state = checkpoint.open(stores())
    count(state, b"a", b"1", 10)
    checkpoint.commit(state)
    count(state, b"a", b"2", 20)
    checkpoint.make_manifest(state)
    state.abandon()
    assert on_disk(checkpoint.folder)[0] == 0
    state = checkpoint.open(stores())
    assert (state.at, content(state)["counts"]) == (1, [(b"a", b"2", 20)])
    state.close()


def test_a_delta_file_is_applied_without_reading_what_the_database_has_for_its_keys(checkpoint, monkeypatch):
    checkpoint.settings = FLUSH_ONLY
    state = checkpoint.open(stores())
    for key in (b"a", b"b", b"d"):
        count(state, key, b"1", 10)
        count_in_hour(state, key, 0, b"1")
    checkpoint.commit(state)
    count(state, b"a", b"2", 20)
    count(state, b"b", None, 21)
    count(state, b"c", b"1", 22)
    count_in_hour(state, b"a", 0, b"2")
    count_in_hour(state, b"b", 0, None)
    checkpoint.make_manifest(state)
    state.abandon()
    asked: list[bytes] = []
    with monkeypatch.context() as patched:
        patched.setattr("penstock.state.database.Family.get_many", lambda family, keys: asked.extend(keys))
        state = checkpoint.open(stores())
    expected = {
        "counts": [(b"a", b"2", 20), (b"c", b"1", 22), (b"d", b"1", 10)],
        "hours": [(b"a", 0, b"2", 0), (b"d", 0, b"1", 0)],
    }
    assert (asked, content(state)) == ([], expected)
    checkpoint.commit(state)  # flushes
    state.close()
    state = checkpoint.open(stores())
    assert content(state) == expected
    state.close()
    assert on_disk(checkpoint.folder)[1]["counts"] == [b"a", b"c", b"d"]


@pytest.mark.kip("892-09")
def test_rows_of_all_stores_their_stream_times_and_the_commit_are_one_write(checkpoint):
    checkpoint.settings = FLUSH_ONLY
    three_commits(checkpoint).abandon()
    database = Database(checkpoint.folder)
    meta = database.meta()
    assert meta.pop("unpublished_bytes") == sum(step.delta.size for step in checkpoint.commits[:3])
    assert meta == {
        "application": "application",
        "task": "0_0",
        "attempt": "",
        "commit": 2,
        "numbers": {"windowed": {"stream_time": 500}, "hours": {"observed_stream_time": 60_000}},
    }
    assert database.families() == ["counts", "hours/0"]
    database.close()


@pytest.mark.kip("KS-20")  # RocksDB's options
def test_rows_go_to_disk_when_there_are_too_many_commits_rows_or_bytes(checkpoint):
    for settings in (
        replace(NEVER, flush_commits=3),
        replace(NEVER, flush_rows=25),
        replace(NEVER, hot_max_bytes=20_000),
    ):
        shutil.rmtree(checkpoint.folder.parent)
        again = Checkpoint(checkpoint.folder.parent, settings)
        state = again.open([KeyValueStore("counts")])
        for commit in range(3):
            for i in range(10):
                count(state, b"%d-%d" % (commit, i), b"x" * 500, 1)
            again.commit(state)
        state.abandon()
        commit, rows = on_disk(again.folder)
        assert (commit, len(rows["counts"])) == (2, 30)


def test_a_snapshot_is_due_when_delta_files_have_grown_over_several_runs(checkpoint):
    checkpoint.settings = StateSettings(flush_commits=1, snapshot_bytes=10_000)
    taken = []
    for number in range(6):
        state = checkpoint.open([KeyValueStore("counts")])
        for i in range(10):
            count(state, b"%d-%d" % (number, i), random.Random(i).randbytes(300), 1)
        checkpoint.commit(state)
        state.close()
        taken.append(state.snapshot)
    assert taken == [-1, -1, 2, 2, 2, 5]


@pytest.mark.kip("KS-20")  # RocksDB's options
@pytest.mark.parametrize(
    ("settings", "until_flush", "until_snapshot"),
    [
        (StateSettings(), 30, 300),
        (StateSettings(flush_interval=5_000, snapshot_interval=60_000), 5, 60),
        (StateSettings(flush_interval=2_000, snapshot_interval=1_000), 2, 1),
    ],
)
def test_what_is_in_delta_files_only_is_written_down_when_it_is_old(settings, until_flush, until_snapshot):
    now = 0.0
    schedule = DiskSchedule(settings, lambda: now)
    now = 1_000.0  # while nothing is committed nothing gets old
    assert (schedule.is_flush_due(), schedule.is_snapshot_due(0)) == (False, False)
    schedule.committed(1)
    now += until_flush - 0.5
    schedule.committed(1)
    assert not schedule.is_flush_due()
    now = 1_000.0 + until_flush
    assert schedule.is_flush_due()
    schedule.flushed()
    assert not schedule.is_flush_due()
    assert schedule.is_snapshot_due(0) == (until_snapshot <= until_flush)
    now = 1_000.0 + max(until_flush, until_snapshot)
    assert schedule.is_snapshot_due(0)
    schedule.published()
    assert not schedule.is_snapshot_due(0)


@pytest.mark.kip("KS-20")  # RocksDB's options
def test_memory_stays_at_its_bound_however_large_the_state_grows(checkpoint):
    checkpoint.settings = StateSettings(hot_max_bytes=1_000_000, flush_commits=50, snapshot_commits=1_000)
    state = checkpoint.open([KeyValueStore("counts")])
    store, most = state.stores["counts"], 0
    for commit in range(30):
        some = keys_of(b"%d-%d" % (commit, i) for i in range(1_000))
        store.put(store.locate(some), values_of((b"x" * 100, 1) for _ in range(1_000)))
        checkpoint.commit(state)
        most = max(most, state.nbytes)
    assert most < 1_200_000
    assert sum(1 for _ in store.rows()) == 30_000
    state.close()


@pytest.mark.kip("KS-20")  # RocksDB's options
@pytest.mark.parametrize("cache", [100_000, 1_000_000])
def test_a_task_keeps_as_many_bytes_of_its_database_in_memory_as_block_cache_bytes_says(checkpoint, cache: int):
    checkpoint.settings = StateSettings(block_cache_bytes=cache)
    state = checkpoint.open([KeyValueStore("counts")])
    count(state, b"a", b"1", 1)
    checkpoint.commit(state)
    assert state._database is not None
    assert state._database.family("counts")._db.property_int_value("rocksdb.block-cache-capacity") == cache
    state.close()


def test_a_clock_and_a_store_of_one_name_both_keep_their_times(checkpoint):
    state = checkpoint.open([WindowStore("hours", retention=3_600_000)])
    state.clock("hours").advance(np.array([700_000]))
    count_in_hour(state, b"a", 60_000, b"1")
    checkpoint.commit(state)
    state.close()
    for settings in (FLUSH_ONLY, NEVER):
        checkpoint.settings = settings
        state = checkpoint.open([WindowStore("hours", retention=3_600_000)])
        assert state.clock("hours").now == 700_000
        assert state.stores["hours"].state() == {"observed_stream_time": 60_000}
        state.abandon()


def test_a_store_that_the_topology_no_longer_has_is_passed_over(checkpoint):
    checkpoint.settings = NEVER
    three_commits(checkpoint).abandon()
    state = checkpoint.open([KeyValueStore("counts")])
    assert content(state) == {"counts": EXPECTED["counts"]}
    count(state, b"c", b"3", 40)
    checkpoint.commit(state)
    state.close()
    state = checkpoint.open([KeyValueStore("counts")])
    assert [row[0] for row in content(state)["counts"]] == [b"a", b"c"]
    state.close()


def test_a_commit_without_changes_keeps_its_stream_times(checkpoint):
    state = checkpoint.open(stores())
    state.apply(Committed(0, None, {"windowed": {"stream_time": 9}, "hours": {"observed_stream_time": 7}}))
    assert (state.at, state.clock("windowed").now, state.stores["hours"].state()) == (0, 9, {"observed_stream_time": 7})
    state.rollback()
    assert (state.clock("windowed").now, state.stores["hours"].state()) == (9, {"observed_stream_time": 7})
    state.close()


# --- the stores as KIP-892 has them --------------------------------------------------------------------------------

CHANGELOG = "app-counts-changelog.application"


def opened_with_context(checkpoint: Checkpoint, *made: StateStore, folder: bool = True) -> TaskState:
    place = checkpoint.folder if folder else None
    context = TaskContext("app", "0_0", {"processing_guarantee": "exactly_once"})
    state = TaskState("0_0", made, checkpoint.settings, place, checkpoint.storage, context)
    state.open(checkpoint.application, checkpoint.newest, checkpoint.snapshot, checkpoint.since)
    return state


@pytest.mark.kip("892-02")
@pytest.mark.kip("892-09")
def test_a_store_on_disk_manages_offsets_which_lie_in_a_column_family_beside_the_rows_and_are_flushed_with_them(
    checkpoint,
):
    checkpoint.settings = StateSettings(flush_commits=2, snapshot_commits=1_000)
    state = opened_with_context(checkpoint, *stores())
    counts, changelog = state.stores["counts"], TopicPartition(CHANGELOG, 0)
    assert (counts.persistent, counts.manages_offsets(), counts.get_committed_offset(changelog)) == (True, True, None)
    seen = []
    for value in (b"1", b"2", b"3"):
        count(state, b"a", value)
        checkpoint.commit(state)
        seen.append(counts.get_committed_offset(changelog))
    assert seen == [None, 1, 1]  # what is newer lies in a delta file
    assert counts.get_committed_offset(TopicPartition(CHANGELOG, 1)) is None
    assert counts.get_committed_offset(TopicPartition("app-hours-changelog.application", 0)) is None
    state.abandon()
    families = Rdict.list_cf(str(checkpoint.folder))
    assert {"counts", "offsets"} <= set(families)
    assert on_disk(checkpoint.folder) == (1, {"counts": [b"a"]})
    assert not list(checkpoint.folder.parent.rglob(".checkpoint"))


@pytest.mark.kip("892-02")
def test_a_store_in_memory_manages_no_offsets(checkpoint):
    state = opened_with_context(checkpoint, KeyValueStore("counts", in_memory=True))
    count(state, b"a", b"1")
    checkpoint.commit(state)
    state.close()
    state = opened_with_context(checkpoint, KeyValueStore("counts", in_memory=True))
    counts = state.stores["counts"]
    offset = counts.get_committed_offset(TopicPartition(CHANGELOG, 0))
    assert (counts.persistent, counts.manages_offsets(), offset, content(state)["counts"]) == (
        *(False, False, None),
        [(b"a", b"1", 0)],
    )
    state.close()


@pytest.mark.kip("892-01")
@pytest.mark.kip("892-03")
def test_the_engines_stores_are_state_stores_and_flush_of_them_commits_with_a_warning(checkpoint):
    state = opened_with_context(checkpoint, *stores(), folder=False)
    counts = state.stores["counts"]
    assert isinstance(counts, penstock.StateStore)
    assert (counts.is_open, counts.persistent, counts.manages_offsets()) == (True, False, False)
    count(state, b"a", b"1")
    assert counts.approximate_num_uncommitted_entries == 1
    assert counts.approximate_num_uncommitted_bytes > 0
    with pytest.warns(DeprecationWarning, match=r"KeyValueStore\.flush\(\) is deprecated"):
        counts.flush()
    counts.rollback()
    assert (counts.approximate_num_uncommitted_entries, content(state)["counts"]) == (0, [(b"a", b"1", 0)])
    state.close()
    assert not counts.is_open
