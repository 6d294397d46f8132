"""What stands in the way of a start, one by one: a clear error, nothing lost, and on it goes after the repair."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import StreamsBuilder, Topology
from penstock.engine.local import LocalApplication
from penstock.engine.operate.lock import ApplicationLock, SlotLock
from penstock.errors import (
    AlreadyRunningError,
    ConfigError,
    CorruptDataError,
    FencedError,
    StoreError,
)
from penstock.log.base import TopicInfo
from penstock.log.produce import produce
from penstock.settings import Settings
from support.world import SETTINGS, World, counts

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.kip("892-08")
@pytest.mark.parametrize(
    ("harm", "says"), [(flip_a_byte, "is damaged: its checksum"), (remove, "is missing: .* bytes were committed")]
)
def test_a_delta_file_that_is_damaged_or_missing_is_named_and_the_start_goes_on_once_it_is_back(
    world: World, harm: Callable[[Path], None], says: str
):
    for _ in range(3):
        world.run("a", "b", crash=True)
    world.lose_local_state()
    delta = world.file("deltas/0_0/*.arrow", 1)
    backup = delta.read_bytes()
    harm(delta)
    world.produce("a")
    with pytest.raises(CorruptDataError, match=says) as error:
        world.start().run_until()
    assert delta.name in str(error.value)
    assert len(world.output()) == 6
    delta.write_bytes(backup)
    world.run()
    assert world.output()[6:] == [("a", 4)]
    assert world.counts() == [("a", 4), ("b", 3)]


def snapshots(world: World) -> list[int]:
    """The commits of the snapshots that there are."""
    return [int(path.stem) for path in sorted(world.storage.root.glob("snapshots/0_0/*.snapshot"))]


SNAPSHOTS = {"flush_commits": 1, "snapshot_commits": 3}


@pytest.mark.kip("892-13")
@pytest.mark.parametrize("harm", [flip_a_byte, remove])
@pytest.mark.parametrize("what", ["*.snapshot", "*.sst"])
def test_a_damaged_snapshot_is_named_and_the_one_before_it_is_taken_with_the_delta_files_behind_it(
    tmp_path: Path, what: str, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
):
    world = World(tmp_path, **SNAPSHOTS)
    for _ in range(6):
        world.run("a", "b", "b")
    assert len(before := snapshots(world)) == 2
    newest = world.file(f"snapshots/0_0/{what}", -1)
    harm(newest)
    world.lose_local_state()
    world.run("a")
    [warning] = [record.getMessage() for record in caplog.records if "snapshot" in record.getMessage()]
    assert newest.name in warning
    assert f"restored from the snapshot of commit {before[0]} and " in warning
    assert "nothing is lost" in warning
    assert world.output()[-1] == ("a", 7)
    assert world.counts() == [("a", 7), ("b", 12)]
    for _ in range(4):  # until there is another one, from which it restarts as from any
        world.run("b")
    world.lose_local_state()
    caplog.clear()
    world.run("b")
    assert world.counts() == [("a", 7), ("b", 17)]
    assert not [record for record in caplog.records if "snapshot" in record.getMessage()]


def test_before_the_first_snapshot_are_the_delta_files_from_the_first_commit_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    world = World(tmp_path, **SNAPSHOTS)
    for _ in range(4):
        world.run("a")
    assert len(snapshots(world)) == 1
    flip_a_byte(world.file("snapshots/0_0/*.snapshot", 0))
    world.lose_local_state()
    world.run("a")
    assert world.output()[-1] == ("a", 5)
    assert "delta files instead; nothing is lost" in caplog.text


def test_when_no_snapshot_is_whole_the_newest_one_is_named_and_the_start_goes_on_once_it_is_back(tmp_path: Path):
    world = World(tmp_path, **SNAPSHOTS)
    for _ in range(10):
        world.run("a")
    files = [world.file("snapshots/0_0/*.snapshot", number) for number in (-2, -1)]
    backup = files[-1].read_bytes()
    for file in files:
        flip_a_byte(file)
    world.lose_local_state()
    world.produce("a")
    with pytest.raises(CorruptDataError, match=f"{files[-1].name} is damaged: .*restore it from a backup"):
        world.start().run_until()
    files[-1].write_bytes(backup)
    world.run()
    assert world.output()[-1] == ("a", 11)


@pytest.mark.kip("892-13")
def test_delta_files_are_kept_from_the_snapshot_before_the_newest_on_and_no_longer(tmp_path: Path):
    world = World(tmp_path, **SNAPSHOTS)
    for _ in range(12):
        world.run("a")
    older, newest = snapshots(world)[-2:]
    deltas = [int(path.name[:16]) for path in sorted(world.storage.root.glob("deltas/0_0/*"))]
    assert older < min(deltas) <= newest
    assert len(deltas) <= 2 * SNAPSHOTS["snapshot_commits"]


def test_a_local_database_makes_old_delta_files_unnecessary(world: World):
    for _ in range(3):
        world.run("a")
    world.file("deltas/0_0/*", 0).unlink()
    world.run("a")
    assert world.output() == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]


@pytest.mark.parametrize(("harm", "says"), [(flip_a_byte, "damaged"), (remove, "is missing")])
def test_a_manifest_that_is_damaged_or_missing_is_named_and_the_start_goes_on_once_it_is_back(
    world: World, harm: Callable[[Path], None], says: str
):
    for _ in range(3):
        world.run("a", crash=True)
    world.lose_local_state()
    manifest = world.file("manifests/*.json", 1)
    backup = manifest.read_bytes()
    harm(manifest)
    world.produce("a")
    with pytest.raises(CorruptDataError, match=says) as error:
        world.start().run_until()
    assert manifest.name in str(error.value)
    manifest.write_bytes(backup)
    world.run()
    assert world.output() == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]


def test_a_lost_newest_manifest_is_noticed_and_nothing_is_done_twice(world: World):
    world.run("a")
    world.run("a")
    newest = world.file("manifests/*.json", -1)
    backup = newest.read_bytes()
    newest.unlink()
    with pytest.raises(CorruptDataError, match=r"has the output of commit 3 .* manifests are missing"):
        world.start()
    assert world.output() == [("a", 1), ("a", 2)]
    newest.write_bytes(backup)
    world.run("a")
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]


def test_a_damaged_identity_is_named(world: World):
    world.run("a")
    identity = next(path for path in world.storage.root.iterdir() if path.is_file())
    flip_a_byte(identity)
    with pytest.raises(CorruptDataError, match=identity.name):
        world.start()


def test_the_checkpoint_of_one_application_is_not_taken_up_by_another(world: World):
    world.run("a")
    with pytest.raises(ConfigError, match="other"):
        LocalApplication(counts(), "other", world.settings, world.log, world.storage, world.folder / "tasks")


def two_sources(*topics: str) -> Topology:
    builder = StreamsBuilder()
    for topic in topics:
        builder.stream(topic, value=str).group_by_key().count(f"of {topic}".replace(" ", "-")).to_stream().to("out")
    return builder.build()


def test_a_source_topic_less_after_a_kill_is_refused_by_name_and_nothing_is_changed(world: World):
    produce([("b", "x", 0)], "other", value=str, log=world.log)
    world.topology = two_sources("in", "other")
    world.run("a", crash=True)
    world.topology = two_sources("in")
    with pytest.raises(ConfigError, match=r"has read topic 'other', and the topology reads it no more"):
        world.run("a")
    world.topology = two_sources("in", "other")
    world.run()
    assert world.output() == [("a", 1), ("b", 1), ("a", 2)]


def test_of_two_programs_on_one_checkpoint_the_one_that_is_behind_stops_and_nothing_is_corrupted(world: World):
    world.produce("a")
    first = world.start()
    first.run_until()
    second = LocalApplication(  # on another machine: the same log and checkpoint, a folder of its own
        counts(), "app", world.settings, world.log, world.storage, world.folder / "other machine"
    )
    world.produce("a")
    assert second.run_until() == 1
    world.produce("a")
    with pytest.raises(FencedError, match=r"'app' was taken over by process \d+ on .*; this program stops"):
        first.run_until()
    assert second.run_until() == 1
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]
    assert world.counts() == [("a", 3)]


def test_a_second_program_on_one_machine_is_refused_and_told_who_runs(tmp_path: Path):
    lock = ApplicationLock(tmp_path, "app")
    with pytest.raises(AlreadyRunningError, match=r"application 'app' is running already .*process \d+"):
        ApplicationLock(tmp_path, "app")
    lock.release()
    ApplicationLock(tmp_path, "app").release()


HOLD = """
import sys, time
from pathlib import Path
from penstock.engine.operate.lock import SlotLock
lock = SlotLock(Path(sys.argv[1]), 3, sys.argv[2])
print("held", flush=True)
time.sleep(60)
"""


def holder(folder: Path, run: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder), run], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.kip("892-13")
def test_a_slot_that_spark_started_elsewhere_ends_the_process_that_it_was_before(tmp_path: Path):
    before = holder(tmp_path, "run 1")
    SlotLock(tmp_path, 3, "run 1").release()
    assert before.wait(10) == -signal.SIGKILL


@pytest.mark.kip("892-13")
def test_a_slot_of_another_start_is_waited_for_and_named(tmp_path: Path):
    other = holder(tmp_path, "run 1")
    with pytest.raises(
        StoreError, match=rf"slot 3 of the application is still held by process {other.pid} after 0\.1 s"
    ):
        SlotLock(tmp_path, 3, "run 2", patience=0.1)
    assert other.poll() is None
    other.kill()
    other.wait()
    SlotLock(tmp_path, 3, "run 2").release()


@pytest.mark.kip("892-10")
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"statestore_uncommitted_max_records": 10}, [10, 10, 10]),
        ({"statestore_uncommitted_max_bytes": 500}, [9, 9, 9, 3]),  # 56 bytes each
    ],
)
def test_many_uncommitted_writes_force_an_early_commit(world: World, limit: dict[str, int], expected: list[int]):
    world.settings = Settings.load(environment={}, folder=world.folder, chunk_records=5, **SETTINGS, **limit)
    world.produce(*(f"k{i}" for i in range(30)))
    application = world.start()
    commits = []
    while (done := application.coordinator.step(application.coordinator.end_offsets())) is not None:
        commits.append(done.records)
        held = [task.state.approximate_num_uncommitted_entries for task in application.host.tasks()]
        assert held == [done.records]
    application.close()
    assert commits == expected
    assert len(world.counts()) == 30


@pytest.mark.kip("892-10")
def test_the_limit_is_each_tasks_own(world: World):
    limit = {"statestore_uncommitted_max_records": 10}
    world.settings = Settings.load(environment={}, folder=world.folder, chunk_records=5, **SETTINGS, **limit)
    world.log.create_topic(TopicInfo("in", 2, "str", "str"))
    produce([(f"k{i}", "x", 0) for i in range(60)], "in", value=str, log=world.log)
    assert world.log.end_offsets("in") == [36, 24]
    application, held = world.start(), []
    while application.coordinator.step(application.coordinator.end_offsets()) is not None:
        held.append([task.state.approximate_num_uncommitted_entries for task in application.host.tasks()])
    application.close()
    assert held[:3] == [[10, 10], [10, 10], [10, 4]]
    assert len(world.counts()) == 60


@pytest.mark.kip("892-10")
@pytest.mark.parametrize(
    "limit", [{}, {"statestore_uncommitted_max_records": -1}, {"statestore_uncommitted_max_bytes": -1}]
)
def test_without_limits_all_that_waits_is_one_commit(world: World, limit: dict[str, int]):
    world.settings = Settings.load(environment={}, folder=world.folder, chunk_records=5, **SETTINGS, **limit)
    world.produce(*(f"k{i}" for i in range(30)))
    coordinator = world.start().coordinator
    assert coordinator.step(coordinator.end_offsets()).records == 30


@pytest.mark.kip("892-10")
@pytest.mark.parametrize("waiting", [60, 600])
def test_what_is_uncommitted_stays_within_the_limit_and_one_record_however_much_waits(world: World, waiting: int):
    limit = {"statestore_uncommitted_max_bytes": 2_000}
    world.settings = Settings.load(environment={}, folder=world.folder, chunk_records=5, **SETTINGS, **limit)
    world.produce(*(f"k{i:04d}" for i in range(waiting)))
    application, held = world.start(), []

    def look() -> None:  # behind each chunk
        held.extend(task.state.approximate_num_uncommitted_bytes for task in application.host.tasks())

    application.host.desk.answer = look  # type: ignore[method-assign]
    application.run_until()
    application.close()
    of_a_record = held[0]
    assert 2_000 <= max(held) < 2_000 + of_a_record
    begun = sum(after <= before for before, after in itertools.pairwise(held))
    assert begun >= waiting // 50, "there were many commits"
    assert len(world.counts()) == waiting


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_full_or_read_only_disk_is_a_clear_error_and_the_program_goes_on_after_the_repair(
    trouble: str, tmp_path: Path
):
    """The program runs in a mount namespace of its own, where it may mount a small file system."""
    script = Path(__file__).with_name("disk_trouble.py")
    command = ["unshare", "--map-root-user", "--mount", sys.executable, str(script), trouble, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    error, after = ran.stdout.splitlines()
    expected = {"full": "No space left on device", "read-only": "Read-only file system"}[trouble]
    assert error.startswith(("StoreError", "LogError"))
    assert expected in error
    assert str(tmp_path) in error
    assert after == "outputs and state equal those without trouble"
