"""with_idle_advance: the last windows close although no more records come (KIP-328)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, Suppressed, TimeWindows
from penstock.engine.local import LocalApplication
from penstock.engine.timing.idle import IdleTasks
from penstock.errors import ConfigError
from penstock.log.base import TopicInfo
from penstock.log.consume import consume
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.flows import Run, pipe_rows, source, windowed

pytestmark = pytest.mark.kip("328-17")


def final_counts(idle: Any = 8, grace: int = 0) -> StreamsBuilder:
    """Final counts of windows of 10 ms."""
    builder, stream = source(value=str)
    windows = TimeWindows.of_size_and_grace(10, grace)
    final = Suppressed.until_window_closes().with_name("final")
    final = final if idle is None else final.with_idle_advance(idle)
    stream.group_by_key().windowed_by(windows).count().suppress(final).to_stream().to("out")
    return builder


def test_without_it_the_last_windows_wait_for_more_records(run: Run):
    ran = run(final_counts(idle=None), [("a", "x", 3)])
    ran.driver.advance_wall_clock_time("1 day")
    assert ran.output() == []


def test_time_moves_on_by_as_much_as_there_was_no_record(run: Run):
    ran = run(final_counts(idle=8), [("a", "x", 3), ("b", "x", 14)])
    assert ran.output() == [(windowed("a", 0, 10), 1, 3)]
    ran.driver.advance_wall_clock_time(7)
    assert ran.output() == []
    ran.driver.advance_wall_clock_time(1)  # stream time 14 + 8
    assert ran.output() == [(windowed("b", 10, 20), 1, 14)]


def test_it_takes_as_many_waits_as_the_grace_period_needs(run: Run):
    ran = run(final_counts(idle=8, grace=15), [("a", "x", 3)])
    for stream_time in (11, 19):
        ran.driver.advance_wall_clock_time(8)
        assert ran.output() == [], stream_time
    ran.driver.advance_wall_clock_time(8)  # stream time 27, the window closes at 25
    assert ran.output() == [(windowed("a", 0, 10), 1, 3)]


def test_all_waits_of_a_long_time_count(run: Run):
    ran = run(final_counts(idle=8, grace=15), [("a", "x", 3)])
    ran.driver.advance_wall_clock_time(24)
    assert ran.output() == [(windowed("a", 0, 10), 1, 3)]


def test_a_record_ends_the_wait(run: Run):
    ran = run(final_counts(idle=8), [("a", "x", 3)])
    ran.driver.advance_wall_clock_time(7)
    pipe_rows(ran.driver, [("a", "x", 4)])
    ran.driver.advance_wall_clock_time(7)
    assert ran.output() == []
    ran.driver.advance_wall_clock_time(1)
    assert ran.output() == [(windowed("a", 0, 10), 2, 4)]


def test_a_record_that_comes_for_a_final_window_is_late(run: Run):
    ran = run(final_counts(idle=8), [("a", "x", 3)])
    ran.driver.advance_wall_clock_time(8)  # stream time 11
    pipe_rows(ran.driver, [("a", "x", 4), ("a", "x", 12), ("a", "x", 20)])
    assert ran.output() == [(windowed("a", 0, 10), 1, 3), (windowed("a", 10, 20), 1, 12)]
    assert ran.counted("late-record-drop-total") == {("KSTREAM-AGGREGATE-0000000002", ""): 1}


def test_behind_a_repartition_too(run: Run):
    builder, stream = source(value=str)
    final = Suppressed.until_window_closes().with_idle_advance(8)
    by_value = stream.group_by(lambda key, value: value).windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    by_value.suppress(final).to_stream().to("out")
    ran = run(builder, [("a", "x", 3)])
    ran.driver.advance_wall_clock_time(8)
    assert ran.output() == [(windowed("x", 0, 10), 1, 3)]


def test_what_is_emitted_goes_on_through_a_repartition(run: Run):
    builder, stream = source(value=str)
    final = Suppressed.until_window_closes().with_idle_advance(8)
    counts = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count().suppress(final)
    totals = counts.group_by(lambda window, count: (window.key, count), value=int)
    totals.reduce(lambda total, n: total + n, lambda total, n: total - n, "totals").to_stream().to("out")
    ran = run(builder, [("a", "x", 3), ("a", "x", 12)])
    ran.driver.advance_wall_clock_time(8)
    assert ran.output() == [("a", 1, 3), ("a", 2, 12)]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda: Suppressed.until_time_limit(5).with_idle_advance(5), "is for until_window_closes"),
        (lambda: Suppressed.until_window_closes().with_idle_advance(0), "longer than 0"),
    ],
)
def test_what_makes_no_sense_is_refused(step: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        step()


# --- in the engine ---------------------------------------------------------------------------------------------------


class World:
    """One application over a log with two partitions, and a wall clock that moves when it is told to."""

    def __init__(self, folder: Path, idle: int = 8):
        self.folder, self.now = folder, 0.0
        self.log = FileLog(folder / "log")
        self.log.create_topic(TopicInfo("in", 2, "str", "str"))
        self.topology = final_counts(idle).build()
        self.start()

    def start(self) -> None:
        storage, settings = LocalStorage(self.folder / "checkpoint"), Settings(commit_max_bytes=1, chunk_records=1)
        tasks = self.folder / "tasks"
        self.application = LocalApplication(self.topology, "counting", settings, self.log, storage, tasks)
        self.coordinator = self.application.coordinator
        self.coordinator.idle = IdleTasks(self.topology, lambda: self.now)

    def crash(self) -> None:
        for task in self.application.host.tasks():
            task.state.abandon()
        self.start()

    def wait(self, milliseconds: int) -> int:
        """Look, let time pass, and look again; how many commits that made."""
        before = self.coordinator.manifest.commit
        self.coordinator.advance_time()
        self.now += milliseconds / 1000
        self.coordinator.advance_time()
        return self.coordinator.manifest.commit - before

    def fill(self, *rows: Any) -> None:
        produce(rows, "in", log=self.log)

    def output(self) -> list[Any]:
        return sorted((record.key, record.value) for record in consume("out", log=self.log))


def test_while_records_wait_nothing_closes(tmp_path: Path):
    world = World(tmp_path)
    world.fill(("a", "x", 3), ("a", "y", 4))
    assert world.coordinator.step(world.coordinator.end_offsets()) is not None  # one record a commit
    assert world.wait(1000) == 0
    world.application.run_until()
    assert world.wait(7) == 0
    assert world.wait(1) == 1
    assert world.output() == [(windowed("a", 0, 10), 2)]


def test_a_partition_that_is_idle_goes_on_while_another_has_records(tmp_path: Path):
    world = World(tmp_path)
    world.fill(("a", "x", 3), ("d", "x", 3))  # of two partitions
    world.application.run_until()
    world.wait(4)
    world.fill(("a", "x", 4))
    world.application.run_until()
    assert world.wait(4) == 1
    assert world.output() == [(windowed("d", 0, 10), 1)]


def test_once_nothing_is_held_there_is_nothing_to_wait_for(tmp_path: Path):
    world = World(tmp_path)
    world.fill(("a", "x", 3))
    world.application.run_until()
    assert world.wait(8) == 1
    assert [world.wait(1000) for _ in range(3)] == [0, 0, 0]
    assert world.coordinator.idle.seconds() == 0.02


def test_the_next_look_is_when_something_can_be_due(tmp_path: Path):
    world = World(tmp_path, idle=60_000)
    world.fill(("a", "x", 3))
    world.application.run_until()
    world.wait(20_000)
    assert world.coordinator.idle.seconds() == pytest.approx(40)


def test_after_a_crash_time_is_where_it_was_and_nothing_comes_again(tmp_path: Path):
    world = World(tmp_path)
    world.fill(("a", "x", 3))
    world.application.run_until()
    world.wait(8)
    world.crash()
    world.fill(("a", "x", 4), ("a", "x", 12))  # late: stream time is 11
    world.application.run_until()
    world.crash()
    assert world.wait(8) == 1
    assert world.output() == [(windowed("a", 0, 10), 1), (windowed("a", 10, 20), 1)]
