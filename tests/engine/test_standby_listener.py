"""Listeners of copies on other machines: when they begin to follow, what they load, and why they stop."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, StandbyUpdateListener, StateRestoreListener, SuspendReason, TopicPartition
from penstock.engine.operate.restores import check_listener
from penstock.engine.operate.standbys import Standbys
from penstock.log.produce import produce
from penstock.state.restoring import BATCH, START, SUSPENDED, RestoreStep
from support.forked_slots import ForkedHost
from support.slotted import KEYS, Application, partition_of, put
from support.world import World

pytestmark = pytest.mark.kip("KS-20")

COUNTS = [TopicPartition("app-counts-changelog", partition) for partition in range(2)]


class Heard(StandbyUpdateListener):
    """Notes every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_update_start(self, topic_partition, store_name, starting_offset):
        self.calls.append(("start", topic_partition, store_name, starting_offset))

    def on_batch_loaded(self, topic_partition, store_name, task_id, batch_end_offset, batch_size, current_end_offset):
        self.calls.append(
            ("batch", topic_partition, store_name, task_id, batch_end_offset, batch_size, current_end_offset)
        )

    def on_update_suspended(self, topic_partition, store_name, store_offset, current_end_offset, reason):
        self.calls.append(("suspended", topic_partition, store_name, store_offset, current_end_offset, reason))


class Restored(StateRestoreListener):
    """Notes in the same list where restores begin."""

    def __init__(self, calls: list[tuple[Any, ...]]):
        self._calls = calls

    def on_restore_start(self, topic_partition, store_name, starting_offset, ending_offset):
        self._calls.append(("restore", topic_partition, store_name))


def test_a_listener_hears_the_steps_of_each_copy():
    standbys = Standbys("app", heard := Heard())
    standbys.hear(RestoreStep(BATCH, "0_1", "counts", 1, 1, 5))  # of a copy that has not begun
    standbys.hear(RestoreStep(START, "0_1", "counts", -1, 4))
    standbys.hear(RestoreStep(BATCH, "0_1", "counts", 3, 4, 5))
    standbys.hear(RestoreStep(BATCH, "0_1", "counts", 4, 4, 1))
    standbys.hear(RestoreStep(SUSPENDED, "0_1", "counts", -1, -1))
    standbys.hear(RestoreStep(SUSPENDED, "0_1", "counts", -1, -1))
    standbys.suspend()
    assert heard.calls == [
        ("start", COUNTS[1], "counts", -1),
        ("batch", COUNTS[1], "counts", "0_1", 3, 5, 4),
        ("batch", COUNTS[1], "counts", "0_1", 4, 1, 4),
        ("suspended", COUNTS[1], "counts", 4, 4, SuspendReason.MIGRATED),
    ]


def test_what_a_listener_raises_is_logged_and_the_copies_go_on(caplog: pytest.LogCaptureFixture):
    class Fails(Heard):
        def on_update_start(self, topic_partition, store_name, starting_offset):
            raise RuntimeError("no more")

    standbys = Standbys("app", heard := Fails())
    standbys.hear(RestoreStep(START, "0_0", "counts", -1, 4))
    standbys.hear(RestoreStep(BATCH, "0_0", "counts", 4, 4, 5))
    assert heard.calls == [("batch", COUNTS[0], "counts", "0_0", 4, 5, 4)]
    assert "the standby update listener failed" in caplog.text


def test_what_is_no_listener_is_refused_when_it_is_set():
    class AsyncListener(StandbyUpdateListener):
        async def on_update_start(self, topic_partition, store_name, starting_offset): ...  # type: ignore[override]

    with pytest.raises(ConfigError, match=r"here is a StandbyUpdateListener, got .*extend penstock\.StandbyUpdate"):
        check_listener(StateRestoreListener(), "here", StandbyUpdateListener)
    with pytest.raises(ConfigError, match=r"AsyncListener its method on_update_start is an async"):
        check_listener(AsyncListener(), "here", StandbyUpdateListener)


@pytest.mark.slow
def test_copies_are_promoted_where_their_tasks_go_on_and_migrate_where_their_machine_is_gone(tmp_path: Path):
    world = World(tmp_path, standby_replicas=1, flush_commits=500, snapshot_commits=500)
    produce([], "in", key=str, value=str, partitions=2, log=world.log)
    host = ForkedHost()
    host.machines = {0: tmp_path / "here", 1: tmp_path / "there"}
    host.followers = {0: 1, 1: 0}
    application = Application(world, host)
    application.slots.restores.standbys.listener = heard = Heard()
    application.slots.restores.listener = Restored(heard.calls)
    put(world)
    application.process()
    while len({call[1] for call in heard.calls if call[0] == "batch"}) < 2 or host.copies != {0, 1}:
        put(world)  # what copies say is heard with the next commit
        application.process()
    loaded, heard.calls[:] = list(heard.calls), []
    host.machines[0], host.followers = host.machines[1], {}  # the machine "here" is gone
    os.kill(application.slot(0), signal.SIGKILL)
    put(world)
    application.process()
    moved, heard.calls[:] = list(heard.calls), []
    application.close()
    for partition, place in enumerate(COUNTS):
        mine = [call for call in loaded if call[1] == place and call[0] != "restore"]
        assert mine[0] == ("start", place, "counts", -1)
        batches = [call[3:] for call in mine[1:]]
        assert {call[0] for call in mine[1:]} == {"batch"}
        assert {task for task, *_ in batches} == {f"0_{partition}"}
        assert [at for _, at, *_ in batches] == sorted({at for _, at, *_ in batches}), "each commit once"
        assert all(at <= until for _, at, _, until in batches)
        assert {rows for _, _, rows, _ in batches} == {len({k for k in KEYS if partition_of(k) == partition})}
    suspended = [call for call in moved if call[0] == "suspended"]
    assert [(call[1], call[-1]) for call in sorted(suspended)] == [
        (COUNTS[0], SuspendReason.PROMOTED),
        (COUNTS[1], SuspendReason.MIGRATED),
    ]
    assert moved[:2] == suspended, "before the restore of the task that has moved"
    assert ("restore", COUNTS[0], "counts") in moved
    assert heard.calls == [], "nothing follows any more"


@pytest.mark.slow
def test_copies_migrate_when_the_application_stops(tmp_path: Path):
    world = World(tmp_path, standby_replicas=1)
    produce([], "in", key=str, value=str, partitions=2, log=world.log)
    host = ForkedHost()
    host.machines = {0: tmp_path / "here", 1: tmp_path / "there"}
    host.followers = {0: 1, 1: 0}
    application = Application(world, host)
    application.slots.restores.standbys.listener = heard = Heard()
    while len({call[1] for call in heard.calls}) < 2:
        put(world)
        application.process()
    heard.calls.clear()
    application.close()
    assert [(call[0], call[1], call[-1]) for call in sorted(heard.calls) if call[0] == "suspended"] == [
        ("suspended", COUNTS[0], SuspendReason.MIGRATED),
        ("suspended", COUNTS[1], SuspendReason.MIGRATED),
    ]
