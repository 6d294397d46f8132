"""Slots that are lost, stalled or late: each leads to another attempt or a clear error, and no result differs.

The slots are processes as Spark's are, started without Spark (``support/forked_slots.py``).
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Topology
from penstock.engine.shared.manifest import Manifests
from penstock.engine.slots import sessions
from penstock.errors import CommitError, ConfigError, SparkLostError, StoreError
from penstock.log.produce import produce
from penstock.state.delta import read_delta
from penstock.state.restoring import StateRestoreListener
from penstock.storage.base import FileRef
from support.disks import Disk, why_not
from support.forked_slots import HALF_AN_ANSWER, ForkedHost, Nobody, stop_and_go_on
from support.slotted import KEYS, Application, expected, partition_of, put
from support.world import World

pytestmark = [pytest.mark.kip("892-13"), pytest.mark.slow]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    produce([], "in", key=str, value=str, partitions=2, log=world.log)
    return world


@pytest.fixture
def application(world: World) -> Iterator[Application]:
    made = Application(world, ForkedHost())
    yield made
    made.close()


def test_slots_keep_their_processes_from_commit_to_commit(world: World, application: Application):
    for _ in range(3):
        put(world)
        application.process()
    assert Counter(world.output()) == expected(3)
    assert len(application.host.jobs) == 1


@pytest.mark.parametrize("what", ["log", "storage"])
def test_a_machine_without_the_drivers_topics_or_checkpoint_stops_the_program_with_a_clear_error(
    world: World, tmp_path: Path, what: str
):
    put(world)
    application = Application(world, ForkedHost(), **{what: str(tmp_path / "elsewhere")})  # type: ignore[arg-type]
    missing = "the topic 'in' in" if what == "log" else "the checkpoint"
    with pytest.raises(ConfigError, match=f"{missing} .*elsewhere is not there on .* Nothing was committed"):
        application.process()
    application.close()
    assert world.output() == []
    assert len(application.host.jobs) == 1  # to try it again would find the same


def test_slots_get_their_numbers_at_the_door_by_the_state_on_their_disks(world: World, tmp_path: Path):
    for slot, machine in ((1, "one"), (0, "two")):  # the other way round than they come
        (tmp_path / machine / "app" / "slots").mkdir(parents=True)
        (tmp_path / machine / "app" / "slots" / str(slot)).touch()
    host = ForkedHost()
    host.has_numbers, host.machines = False, {0: tmp_path / "one", 1: tmp_path / "two"}
    application = Application(world, host)
    put(world)
    application.process()
    application.close()
    found = {file.parent.parent.parent.name: file.read_text() for file in tmp_path.glob("*/app/slots/*")}
    assert all(found.values()), found  # each slot was on the machine that has its state
    assert len(found) == len(list(tmp_path.glob("*/app/slots/*"))) == 2
    assert Counter(world.output()) == expected(1)


def test_a_slot_too_many_waits_and_ends_with_the_others(world: World):
    host = ForkedHost()
    host.has_numbers, host.spares = False, 1
    application = Application(world, host)
    for _ in range(2):
        put(world)
        application.process()
    assert len(host.jobs) == 1
    assert all(slot.is_alive() for slot in host.jobs[0].slots)  # one that ended well would end a lasting one
    application.close()
    assert [slot.exitcode for slot in host.jobs[0].slots] == [0, 0, 0]
    assert Counter(world.output()) == expected(2)


@pytest.mark.parametrize("has_numbers", [True, False], ids=["numbered", "numbered at the door"])
@pytest.mark.parametrize("point", ["before-answer", "after-answer", "after-delta", "before-local-commit"])
def test_a_slot_that_dies_at_a_point_of_the_protocol_is_an_attempt_more(
    world: World, tmp_path: Path, point: str, has_numbers: bool
):
    host = ForkedHost()
    host.has_numbers = has_numbers
    host.environment = {"PENSTOCK_CRASH_AT": f"{point}:1:{tmp_path / 'died'}"}
    application = Application(world, host)
    for _ in range(3):
        put(world)
        application.process()
    application.close()
    assert (tmp_path / "died").exists()
    assert len(host.jobs) > 1
    assert Counter(world.output()) == expected(3)


def test_a_slot_that_stalls_is_replaced_and_what_it_does_when_it_goes_on_does_not_count(world: World, tmp_path: Path):
    host = ForkedHost()
    host.environment = {"PENSTOCK_STOP_AT": f"before-answer:1:{tmp_path / 'stopped'}"}
    application = Application(world, host, timeout=5)
    put(world)
    application.process()
    put(world)
    application.process()
    application.close()
    assert (tmp_path / "stopped").exists()
    assert len(host.jobs) > 1  # on a busy machine another one may seem to stall
    assert Counter(world.output()) == expected(2)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "sleeps"])
def test_an_answer_of_which_only_half_comes_is_an_attempt_more(world: World, tmp_path: Path, number: int):
    host = ForkedHost()
    host.environment = {HALF_AN_ANSWER: f"{tmp_path / 'half'}:{int(number)}"}
    application = Application(world, host, timeout=5)
    for _ in range(2):
        put(world)
        application.process()
    application.close()
    assert (tmp_path / "half").exists()
    assert len(host.jobs) > 1
    assert Counter(world.output()) == expected(2)


def test_slots_of_a_driver_that_is_gone_end_by_themselves(world: World, application: Application):
    put(world)
    application.process()
    slots = list(application.host.jobs[0].slots)
    for link in application.slots._come.links.values():  # as the kernel does when the process dies
        link.close()
    for slot in slots:
        slot.join(60)
    assert [slot.exitcode for slot in slots] == [0, 0]


def test_slots_that_sleep_for_less_than_the_time_out_are_waited_for(world: World, application: Application):
    put(world)
    application.process()
    sleeper = threading.Thread(target=stop_and_go_on, args=(application.slot(0), 0.5))
    sleeper.start()
    put(world)
    application.process()
    sleeper.join()
    assert len(application.host.jobs) == 1
    assert Counter(world.output()) == expected(2)


def test_a_slot_that_dies_with_nothing_to_do_is_replaced_before_there_is(world: World, application: Application):
    put(world)
    application.process()
    os.kill(application.slot(1), signal.SIGKILL)
    put(world)
    application.process()
    assert Counter(world.output()) == expected(2)
    assert len(application.host.jobs) == 2


def test_a_slot_that_is_started_for_a_job_which_is_given_up_is_told_so(
    world: World, application: Application, monkeypatch: pytest.MonkeyPatch
):
    """Else it would wait to be welcome, and the driver for it."""
    monkeypatch.setattr(sessions, "_END_SECONDS", 60.0)
    application.host.replaces = True
    put(world)
    application.process()
    os.kill(application.slot(1), signal.SIGKILL)
    put(world)
    application.process()
    assert Counter(world.output()) == expected(2)
    [given_up, _] = application.host.jobs
    assert [slot.exitcode for slot in given_up.slots] == [0, 0]


def test_slots_killed_at_random_change_nothing(world: World, application: Application):
    rng = random.Random(3)
    for _ in range(6):
        put(world)
        os.kill(application.slot(rng.randrange(2)), signal.SIGKILL)
        application.process()
    assert Counter(world.output()) == expected(6)


def test_when_executors_come_the_slots_move_with_their_state(world: World, application: Application):
    put(world)
    application.process()
    application.host.moved = True
    put(world)
    application.process()
    assert len(application.host.jobs) == 2
    assert Counter(world.output()) == expected(2)


def test_a_host_that_is_gone_is_one_clear_error(world: World, application: Application):
    put(world)
    application.process()
    application.host.is_gone = True
    os.kill(application.slot(0), signal.SIGKILL)
    assert application.loop.wait(20)
    assert isinstance(application.loop.error, SparkLostError)


def test_slots_for_which_there_is_no_room_are_an_error_that_says_so(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.engine.commit.coordinator._PAUSES", (0.0,))
    monkeypatch.setattr("penstock.engine.slots.sessions._COME_SECONDS", 0.3)
    host = ForkedHost(3)
    monkeypatch.setattr(host, "start", lambda *_: Nobody())
    application = Application(world, host, timeout=0.3)
    put(world)
    with pytest.raises(CommitError, match=r"0 of 3 slots came within 0.3 s: they are late"):
        application.process()
    application.close()


@pytest.mark.kip("892-12")
def test_at_least_once_stores_are_asked_in_the_slots_while_they_work(tmp_path: Path):
    """Each record is a chunk; from the third on, those of a slot wait a moment until somebody was answered."""
    asking, answered = tmp_path / "asking", tmp_path / "answered"
    seen: list[Any] = []

    def wait(key: str, value: str) -> None:
        seen.append(key)  # in the slot
        if len(seen) > 2:
            asking.touch()
            for _ in range(600):
                if not answered.exists():
                    time.sleep(0.005)

    builder = StreamsBuilder()
    builder.stream("in", value=str).peek(wait).group_by_key().count("counts")
    settings = {"processing_guarantee": "at_least_once", "chunk_records": 1}
    world = World(tmp_path, builder.build(), **settings)
    produce([("a", "x", 0)] * 20, "in", key=str, value=str, partitions=2, log=world.log)
    application = Application(world, ForkedHost())
    counts: Any = application.stores.view("counts")
    assert counts.get("a") is None, "no slot has it yet"
    while not asking.exists():
        time.sleep(0.01)
    before, now, after = counts.commit, counts.get("a"), counts.commit
    answered.touch()
    assert (before, now in range(3, 20)) == (after, True)
    application.process()
    assert counts.get("a") == 20
    os.kill(application.slot(partition_of("a")), signal.SIGKILL)
    assert counts.get("a") == 20, "where the slot is gone, what is committed is shown"
    application.close()


class Restored(StateRestoreListener):
    """The rows that restores of one partition brought, and the commit that they began at."""

    def __init__(self, partition: int):
        self.partition = partition
        self.began: list[int] = []
        self.rows = 0

    def on_restore_start(self, place: Any, store_name: str, starting_offset: int, ending_offset: int) -> None:
        if place.partition == self.partition:
            self.began.append(starting_offset)

    def on_batch_restored(self, place: Any, store_name: str, batch_end_offset: int, num_restored: int) -> None:
        if place.partition == self.partition:
            self.rows += num_restored


@pytest.mark.parametrize("copies", [1, 0])
def test_a_task_that_moves_to_the_machine_with_its_copy_restores_only_what_the_copy_is_missing(
    tmp_path: Path, copies: int
):
    world = World(tmp_path, standby_replicas=copies, flush_commits=500, snapshot_commits=500)
    produce([], "in", key=str, value=str, partitions=2, log=world.log)
    host = ForkedHost()
    host.machines = {0: tmp_path / "here", 1: tmp_path / "there"}
    host.followers = {0: 1, 1: 0}
    application = Application(world, host)
    put(world)
    application.process()
    known, rounds = 0, 1
    before = application.coordinator.manifest.places
    wanted = ["there", "here"] if copies else ["", ""]
    # What the copies say reaches the driver between commits, and the next manifest names them.
    while rounds < 3 or before is None or [slot.copy for slot in before.slots] != wanted:
        assert rounds < 200, "the copies have not caught up"
        known = application.coordinator.manifest.commit
        put(world)
        application.process()
        rounds += 1
        before = application.coordinator.manifest.places
    assert [(slot.host, slot.tasks) for slot in before.slots] == [("here", 1), ("there", 1)]
    host.machines[0], host.followers, restored = host.machines[1], {}, Restored(0)  # the machine "here" is gone
    application.slots.restores.listener = restored
    entry = application.coordinator.manifest.tasks["0_0"]
    os.kill(application.slot(0), signal.SIGKILL)
    put(world)
    application.process()
    application.close()
    assert Counter(world.output()) == expected(rounds + 1)
    after = application.coordinator.manifest.places
    assert after is not None
    assert ([slot.host for slot in after.slots], after.moved_total) == (["there", "there"], 1)
    [began] = restored.began
    assert began >= known if copies else began == -1
    missing = Manifests(world.storage).since("0_0", entry, began)
    assert restored.rows == sum(rows_of(world, step.delta) for step in missing)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[tuple[Disk, Disk]]:
    """Those of two machines."""
    if reason := why_not():
        pytest.skip(f"disks of one's own are left out: {reason}")
    with Disk(tmp_path / "here", 64) as here, Disk(tmp_path / "there", 64) as there:
        yield here, there


@pytest.fixture
def on_two_disks(tmp_path: Path, disks: tuple[Disk, Disk]) -> Iterator[tuple[World, Application]]:
    """A slot on each of two machines, which has been at work and has its databases open."""
    world, host = World(tmp_path, flush_commits=1), ForkedHost()
    produce([], "in", key=str, value=str, partitions=2, log=world.log)
    host.machines = {number: disk.folder for number, disk in enumerate(disks)}
    application = Application(world, host, timeout=2)
    put(world)
    application.process()
    yield world, application
    for disk in disks:
        disk.be_as_ever()
    application.close()


def work_until_it_is_noticed(world: World, application: Application) -> int:
    """Process rounds of keys until slots have left a disk; how many there were with the one before. What a database
    has of the disk already lasts for a while."""
    for done in range(1, 40):
        if application.host.left:
            return done
        put(world)
        application.process()
    raise AssertionError("a full disk is noticed by nobody")


def test_a_slot_whose_disk_is_full_goes_to_another_machine_and_nothing_differs(
    on_two_disks: tuple[World, Application], disks: tuple[Disk, Disk], caplog: pytest.LogCaptureFixture
):
    world, application = on_two_disks
    disks[0].fill()
    rounds = work_until_it_is_noticed(world, application)
    assert Counter(world.output()) == expected(rounds)
    places = application.coordinator.manifest.places
    assert places is not None
    assert ([slot.host for slot in places.slots], places.moved_total) == (["there", "there"], 1)
    assert re.search("slot 0 leaves here: cannot write .*/here/app/.*: No space left on device", caplog.text)


def test_where_all_disks_are_full_the_program_ends_with_an_error_that_names_one_and_goes_on_with_room(
    on_two_disks: tuple[World, Application], disks: tuple[Disk, Disk]
):
    world, application = on_two_disks
    for disk in disks:
        disk.fill()
    with pytest.raises(StoreError, match=r"on (t?here): cannot write .*/\1/app/.*: No space left on device"):
        work_until_it_is_noticed(world, application)
    application.close()
    for disk in disks:
        disk.make_room()
    host = ForkedHost()
    host.machines = {number: disk.folder for number, disk in enumerate(disks)}
    again = Application(world, host)
    again.process()
    rounds = sum(1 for key, _ in world.output() if key == KEYS[0]) // KEYS.count(KEYS[0])
    again.close()
    assert Counter(world.output()) == expected(rounds)
    assert rounds > 1


def test_a_disk_that_stands_still_for_longer_than_the_time_out_is_waited_for(
    on_two_disks: tuple[World, Application], disks: tuple[Disk, Disk]
):
    world, application = on_two_disks
    disks[0].freeze()
    thaws = threading.Timer(6, disks[0].thaw)
    thaws.start()
    for _ in range(3):
        put(world)
        application.process()
    assert thaws.finished.is_set(), "nobody wrote to that disk"
    assert Counter(world.output()) == expected(4)
    assert len(application.host.jobs) == 1


def rows_of(world: World, delta: FileRef | None) -> int:
    """How many rows a delta file has."""
    assert delta is not None
    return sum(len(changes.keys) for _, changes in read_delta(world.storage.read_verified(delta), "here"))


def sleeping(asleep: Path) -> Topology:
    def sleep(key: str, value: str) -> None:
        if value == "slow":
            asleep.touch()
            time.sleep(60)

    builder = StreamsBuilder()
    builder.stream("in", value=str).peek(sleep).group_by_key().count().to_stream().to("out")
    return builder.build()


def test_a_long_commit_is_given_up_when_it_is_to_end_soon_and_the_next_start_makes_it(tmp_path: Path):
    asleep = tmp_path / "asleep"
    world = World(tmp_path, sleeping(asleep))
    produce([("a", "fast", 0)], "in", value=str, partitions=2, log=world.log)
    application = Application(world, ForkedHost())
    application.process()
    produce([("a", "slow", 0)], "in", value=str, log=world.log)
    over = time.monotonic() + 60
    while not asleep.exists():
        assert time.monotonic() < over, "the record is not taken up"
        time.sleep(0.01)
    began = time.monotonic()
    assert not application.loop.stop(0.5)
    assert application.loop.wait(30)
    assert application.loop.error is None
    application.close()
    assert time.monotonic() - began < 30
    builder = StreamsBuilder()
    builder.stream("in", value=str).peek(lambda *_: None).group_by_key().count().to_stream().to("out")
    again = Application(World(tmp_path, builder.build()), ForkedHost())
    again.process()
    again.close()
    assert world.output() == [("a", 1), ("a", 2)]
