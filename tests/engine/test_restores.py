"""Restores can be watched: listeners as in Kafka Streams, and how far each store is; and they go on side by side."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock import ConfigError, CorruptDataError, StateRestoreListener, StreamsBuilder, TimeWindows, TopicPartition
from penstock.engine.operate.restores import Batched, RestoreProgress, Restores, check_listener
from penstock.engine.shared.manifest import Manifests
from penstock.log.produce import produce
from penstock.state.restoring import BATCH, END, START, RestoreStep
from penstock.state.task_state import TaskState
from support.world import World

pytestmark = pytest.mark.kip("KS-10")

COUNTS = TopicPartition("app-counts-changelog", 0)


class Heard(StateRestoreListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def on_restore_start(self, topic_partition, store_name, starting_offset, ending_offset):
        self.calls.append(("start", topic_partition, store_name, starting_offset, ending_offset))

    def on_batch_restored(self, topic_partition, store_name, batch_end_offset, num_restored):
        self.calls.append(("batch", topic_partition, store_name, batch_end_offset, num_restored))

    def on_restore_end(self, topic_partition, store_name, total_restored):
        self.calls.append(("end", topic_partition, store_name, total_restored))

    def on_restore_suspended(self, topic_partition, store_name, total_restored):
        self.calls.append(("suspended", topic_partition, store_name, total_restored))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, flush_commits=1, snapshot_commits=3)


def restored(world: World, heard: Heard) -> list[RestoreProgress]:
    """Open all tasks, and close them again; what the handle says."""
    application = world.start(restore_listener=heard)
    application.settle()
    application.close()
    return application.restores.progress()


@pytest.mark.kip("892-13")
def test_on_an_empty_machine_a_snapshot_is_a_batch_and_each_delta_file_behind_it(world: World):
    for round_ in range(6):  # new keys each time: RocksDB's estimate counts a key that was written again twice
        world.run(f"a{round_}", f"b{round_}")
    world.lose_local_state()
    heard = Heard()
    [progress] = restored(world, heard)
    assert heard.calls == [
        ("start", COUNTS, "counts", -1, 11),
        ("batch", COUNTS, "counts", 7, 8),
        ("batch", COUNTS, "counts", 9, 2),
        ("batch", COUNTS, "counts", 11, 2),
        ("end", COUNTS, "counts", 12),
    ]
    assert (progress.store, progress.partition, progress.rows, progress.state) == ("counts", 0, 12, "restored")
    assert (progress.commit, progress.ending_commit) == (11, 11)


def test_a_store_that_is_there_is_brought_from_where_it_is(world: World):
    for _ in range(2):
        world.run("a", "b")
    world.run("a", crash=True)
    heard = Heard()
    restored(world, heard)
    [start, *_, end] = heard.calls
    assert start == ("start", COUNTS, "counts", 1, 5)
    assert end == ("end", COUNTS, "counts", 3)
    heard.calls.clear()
    restored(world, heard)
    assert heard.calls == [("start", COUNTS, "counts", 5, 5), ("end", COUNTS, "counts", 0)]


def test_the_first_start_of_all_restores_nothing(world: World):
    heard = Heard()
    world.produce("a")
    application = world.start(restore_listener=heard)
    application.run_until()
    application.close()
    assert heard.calls == []


def test_a_restore_that_meets_a_damaged_file_is_suspended(world: World):
    for _ in range(3):
        world.run("a", crash=True)
    world.lose_local_state()
    world.file("deltas/0_0/*", -1).write_bytes(b"")
    heard = Heard()
    with pytest.raises(CorruptDataError):
        restored(world, heard)
    assert heard.calls[0] == ("start", COUNTS, "counts", -1, 5)
    assert heard.calls[-1] == ("suspended", COUNTS, "counts", 2)


def test_what_a_listener_raises_is_logged_and_the_restore_goes_on(world: World, caplog: pytest.LogCaptureFixture):
    class Fails(StateRestoreListener):
        def on_restore_end(self, topic_partition, store_name, total_restored):
            raise RuntimeError("no more")

    world.run("a")
    application = world.start(restore_listener=Fails())
    world.produce("a")
    application.run_until()
    application.close()
    assert world.output() == [("a", 1), ("a", 2)]
    assert "the state restore listener failed" in caplog.text


def test_what_is_no_listener_is_refused_when_it_is_set():
    with pytest.raises(ConfigError, match=r"start: state_restore_listener is a StateRestoreListener, got .*print"):
        check_listener(print, "start: state_restore_listener")


def windows_and_counts():
    builder = StreamsBuilder()
    counted = builder.stream("in", value=str).group_by_key()
    counted.count("counts").to_stream().to("out")
    counted.windowed_by(TimeWindows.of_size_with_no_grace(1000)).count("windows").to_stream().to("windows-out")
    return builder.build()


def test_each_store_is_told_of_and_stores_of_windows_have_all_their_stretches_in_one(tmp_path: Path):
    world = World(tmp_path, windows_and_counts(), flush_commits=1, snapshot_commits=2)
    for time in range(6):
        produce([("a", "x", time * 100_000_000)], "in", value=str, log=world.log)
        world.run()
    world.lose_local_state()
    progress = restored(world, Heard())
    assert [(one.store, one.state) for one in progress] == [("counts", "restored"), ("windows", "restored")]
    assert all(one.rows > 0 for one in progress)


def test_tasks_are_restored_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path)
    produce([(f"key-{i}", "x", 0) for i in range(50)], "in", value=str, partitions=4, log=world.log)
    world.run()
    world.lose_local_state()
    together = threading.Barrier(4, timeout=20)
    open_ = TaskState._open

    def meets(*arguments):
        together.wait()  # breaks unless all four are here at once
        open_(*arguments)

    monkeypatch.setattr(TaskState, "_open", meets)
    produce([(f"key-{i}", "x", 0) for i in range(50)], "in", value=str, log=world.log)
    world.run()
    monkeypatch.undo()
    assert sorted({value for _, value in world.output()}) == [1, 2]


def test_a_manifest_is_read_once_for_all_tasks_that_go_back_through_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path, flush_commits=500, snapshot_commits=500)
    produce([], "in", value=str, partitions=4, log=world.log)
    application = world.start()
    for _ in range(5):
        produce([(f"key-{i}", "x", 0) for i in range(50)], "in", value=str, log=world.log)
        application.run_until()
    for task in application.host.tasks():
        task.state.abandon()
    again = world.start()
    reads: list[int] = []
    read = Manifests.read
    monkeypatch.setattr(Manifests, "read", lambda self, commit: (reads.append(commit), read(self, commit))[1])
    again.settle()
    assert sorted(reads) == [1, 2, 3, 4], "commit 5 is in the newest manifest, and all four tasks took part in each"
    again.close()
    assert world.counts() == sorted((f"key-{i}", 5) for i in range(50))


def test_steps_are_passed_on_together_in_their_order():
    told: list[list[RestoreStep]] = []
    steps = [
        RestoreStep(START, "0_1", "counts", -1, 9),
        RestoreStep(BATCH, "0_1", "counts", 4, 9, 100),
        RestoreStep(BATCH, "0_1", "counts", 9, 9, 10),
        RestoreStep(END, "0_1", "counts", 9, 9, 110),
    ]
    with Batched(told.append) as batched:
        for step in steps:
            batched.hear(step)
    assert [step for together in told for step in together] == steps
    heard = Heard()
    restores = Restores("app", heard)
    for step in steps:
        restores.hear(step)
    place = TopicPartition("app-counts-changelog", 1)
    assert heard.calls == [
        ("start", place, "counts", -1, 9),
        ("batch", place, "counts", 4, 100),
        ("batch", place, "counts", 9, 10),
        ("end", place, "counts", 110),
    ]


def test_restores_of_a_slot_that_died_are_suspended():
    heard = Heard()
    restores = Restores("app", heard)
    restores.hear(RestoreStep(START, "0_0", "counts", -1, 9))
    restores.hear(RestoreStep(BATCH, "0_0", "counts", 4, 9, 100))
    restores.suspend()
    assert heard.calls[-1] == ("suspended", COUNTS, "counts", 100)
    assert [one.state for one in restores.progress()] == ["suspended"]
