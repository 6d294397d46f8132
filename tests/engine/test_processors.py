"""Processors in the engine: punctuations by the wall clock while nothing comes, commits asked for, restarts."""

from pathlib import Path

import pytest

from penstock import STREAM_TIME, WALL_CLOCK_TIME, Processor, Record, StreamsBuilder, Topology
from penstock.engine.timing.idle import IdleTasks
from penstock.log.base import TopicInfo
from penstock.log.produce import produce
from support.world import World


class Clock:
    now = 0


def ticking(type_=WALL_CLOCK_TIME) -> Topology:
    class Ticking(Processor):
        def init(self, context):
            self.context = context
            context.schedule("1 s", type_, lambda now: context.forward(Record("tick", str(now), now)))

        def process(self, record):
            self.context.forward(record)

    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Ticking).to("out")
    return builder.build()


class Ticked(World):
    """A world with a wall clock of its own."""

    def start(self, *args, **more):
        application = super().start(*args, **more)
        application.coordinator.idle = IdleTasks(self.topology, lambda: Clock.now / 1000, lambda: Clock.now)
        return application

    def at(self, application, now: int) -> list[tuple[str, str]]:
        """What has come out when the wall clock is so far."""
        Clock.now = now
        for _ in range(3):  # a start that wakes the processors, and no more calls than are due
            application.coordinator.advance_time()
        return self.output()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ticked:
    Clock.now = 0
    monkeypatch.setattr("penstock.engine.task.task.wall_clock_ms", lambda: Clock.now)
    world = Ticked(tmp_path, ticking())
    world.log.create_topic(TopicInfo("in", 1, key="str", value="str"))
    return world


@pytest.mark.kip("KS-02")
def test_a_program_that_has_nothing_to_read_is_called_by_the_wall_clock(world: Ticked):
    application = world.start()
    assert world.at(application, 0) == []
    assert world.at(application, 999) == []
    assert world.at(application, 1000) == [("tick", "1000")]
    assert world.at(application, 1999) == [("tick", "1000")]
    assert world.at(application, 4500) == [("tick", "1000"), ("tick", "4500")]
    assert world.at(application, 5000) == [("tick", "1000"), ("tick", "4500"), ("tick", "5000")]
    application.close()


@pytest.mark.kip("KS-02")
@pytest.mark.parametrize("crash", [False, True])
def test_a_restart_neither_repeats_a_call_nor_begins_the_interval_anew(world: Ticked, crash: bool):
    application = world.start()
    assert world.at(application, 0) == []
    assert world.at(application, 1000) == [("tick", "1000")]
    if crash:
        for task in application.host.tasks():
            task.abandon()
    else:
        application.close()
    application = world.start()
    assert world.at(application, 1400) == [("tick", "1000")]
    assert world.at(application, 2000) == [("tick", "1000"), ("tick", "2000")]
    application.close()


@pytest.mark.kip("KS-02")
def test_nothing_is_committed_while_no_call_is_due(world: Ticked):
    application = world.start()
    world.at(application, 1000)
    commits = application.coordinator.manifest.commit
    world.at(application, 1999)
    assert application.coordinator.manifest.commit == commits
    assert application.coordinator.idle.seconds() == pytest.approx(0.02)
    application.close()


@pytest.mark.kip("KS-02")
def test_a_call_that_is_due_by_the_drivers_clock_is_made_on_a_machine_whose_clock_is_behind(
    world: Ticked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("penstock.engine.task.task.wall_clock_ms", lambda: max(Clock.now - 700, 0))
    application = world.start()
    assert world.at(application, 0) == []
    assert world.at(application, 1000) == [("tick", "1000")]
    commits = application.coordinator.manifest.commit
    world.at(application, 1500)
    assert application.coordinator.manifest.commit == commits, "or it commits nothing again and again until then"
    assert world.at(application, 2000) == [("tick", "1000"), ("tick", "2000")]
    application.close()


@pytest.mark.kip("KS-02")
def test_a_busy_program_is_called_by_the_wall_clock_too(world: Ticked):
    application = world.start()
    world.at(application, 0)
    Clock.now = 1500
    world.produce("a")
    application.run_until()
    assert world.output() == [("a", "x"), ("tick", "1500")]
    application.close()


@pytest.mark.kip("KS-01")
def test_a_commit_that_is_asked_for_comes_when_the_chunk_ends(tmp_path: Path):
    def asks(record, context):
        context.commit()
        context.forward(record)

    builder = StreamsBuilder()
    builder.stream("in", value=str).process(asks).to("out")
    world = World(tmp_path, builder.build(), chunk_records=2)
    world.produce(*"abcdef")
    application = world.start()
    before = application.coordinator.manifest.commit
    application.run_until()
    assert application.coordinator.manifest.commit - before == 3
    assert [key for key, _ in world.output()] == list("abcdef")
    application.close()


@pytest.mark.kip("KS-02")
def test_stream_time_calls_go_on_after_a_restart_where_they_were(tmp_path: Path):
    world = World(tmp_path, ticking(STREAM_TIME))
    for time in (300, 1200, 1900, 2100):
        produce([("a", str(time), time)], "in", value=str, log=world.log)
        application = world.start()
        application.run_until()
        application.close()
    assert world.output() == [
        ("a", "300"),
        ("tick", "300"),
        ("a", "1200"),
        ("tick", "1200"),
        ("a", "1900"),
        ("a", "2100"),
        ("tick", "2100"),
    ]
