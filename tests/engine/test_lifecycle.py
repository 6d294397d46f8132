"""The life of an application: states and listeners, pause and resume, stopping in time, and errors that end it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, UncaughtExceptionResponse
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.local import LocalApplication
from penstock.engine.operate.lifecycle import Lifecycle, State, clean_up
from penstock.engine.operate.lock import ApplicationLock
from penstock.errors import AlreadyRunningError, ConfigError, FencedError, PenstockError, ProcessingError
from penstock.log.base import TopicInfo
from penstock.log.produce import produce
from support.world import World

PATIENCE = 60


class Lived:
    """An application whose life is written down."""

    def __init__(self, world: World, handler: Any = None, check: Callable[[], None] = lambda: None):
        self.changes: list[State] = []
        self.ended = threading.Event()
        self.life = Lifecycle(lambda new, old: self.changes.append(new), handler)
        self.life.to(State.REBALANCING)
        self.application: LocalApplication = world.start()
        self.commits: list[int] = []

        def checked() -> None:
            check()
            self.life.to(State.RUNNING)

        def ended(error: PenstockError | None) -> None:
            self.life.ends(error)
            self.ended.set()

        self.loop = CommitLoop(
            self.application.coordinator,
            0.0,
            False,
            lambda done, ends: self.commits.append(done.records),
            checked,
            self.life.goes_on_after,
            ended,
        )
        self.loop.start()

    def close(self) -> None:
        assert self.loop.stop(PATIENCE)
        self.application.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.log.create_topic(TopicInfo("in", 1, "str", "str"))
    return world


# --- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.kip("KS-10")
def test_states_go_on_as_in_kafka_streams_and_no_other_way():
    allowed = {(old, new) for old in State for new in State if _reaches(old, new)}
    assert allowed == {
        (State.CREATED, State.REBALANCING),
        (State.CREATED, State.PENDING_SHUTDOWN),
        (State.REBALANCING, State.RUNNING),
        (State.REBALANCING, State.PENDING_SHUTDOWN),
        (State.REBALANCING, State.PENDING_ERROR),
        (State.RUNNING, State.REBALANCING),
        (State.RUNNING, State.PENDING_SHUTDOWN),
        (State.RUNNING, State.PENDING_ERROR),
        (State.PENDING_SHUTDOWN, State.NOT_RUNNING),
        (State.PENDING_ERROR, State.ERROR),
    }


def _reaches(old: State, new: State) -> bool:
    life = Lifecycle()
    life._state = old
    return life.to(new)


@pytest.mark.kip("KS-10")
def test_a_listener_hears_of_every_change_from_the_start_to_the_end(world: World):
    lived = Lived(world)
    world.produce("a")
    lived.loop.process_all_available()
    assert lived.life.state is State.RUNNING
    lived.life.to(State.PENDING_SHUTDOWN)
    lived.close()
    assert lived.changes == [State.REBALANCING, State.RUNNING, State.PENDING_SHUTDOWN, State.NOT_RUNNING]


@pytest.mark.kip("KS-10")
def test_an_error_ends_in_error(world: World):
    def gone() -> None:
        raise FencedError("another one")

    lived = Lived(world, check=gone)
    assert lived.ended.wait(PATIENCE)
    assert lived.changes == [State.REBALANCING, State.PENDING_ERROR, State.ERROR]
    assert isinstance(lived.loop.error, FencedError)
    lived.close()


@pytest.mark.kip("KS-10")
def test_what_a_listener_raises_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture):
    def raises(new: State, old: State) -> None:
        raise RuntimeError("no")

    life = Lifecycle(raises)
    assert life.to(State.REBALANCING)
    assert life.state is State.REBALANCING
    assert "the state listener failed at CREATED -> REBALANCING" in caplog.text
    with pytest.raises(ConfigError, match="state_listener is a function of"):
        Lifecycle("listener")


# --- pause, resume, stop, clean up -----------------------------------------------------------------------------------


@pytest.mark.kip("KS-10")
def test_a_paused_application_processes_nothing_and_goes_on_when_it_is_resumed(world: World):
    lived = Lived(world)
    world.produce("a")
    lived.loop.process_all_available()
    lived.loop.pause()
    assert lived.loop.rests.wait(PATIENCE)
    world.produce("b", "c")
    for _ in range(5):
        lived.loop.wake()
    waiting = threading.Thread(target=lived.loop.process_all_available)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    assert (sum(lived.commits), lived.loop.is_paused) == (1, True)
    lived.loop.resume()
    waiting.join(PATIENCE)
    assert (sum(lived.commits), lived.loop.is_paused) == (3, False)
    lived.close()


@pytest.mark.kip("KS-10")
def test_a_paused_application_can_be_stopped(world: World):
    lived = Lived(world)
    lived.loop.pause()
    lived.close()
    assert lived.loop.has_ended


@pytest.mark.kip("KS-10")
def test_stop_waits_for_the_commit_under_way_as_long_as_it_may(world: World):
    holding, held = threading.Event(), threading.Event()

    def holds(key, value):
        held.set()
        assert holding.wait(PATIENCE)

    builder = StreamsBuilder()
    builder.stream("in", value=str).peek(holds).to("out")
    world.topology = builder.build()
    lived = Lived(world)
    world.produce("a")
    assert held.wait(PATIENCE)
    assert not lived.loop.stop(0.05)
    holding.set()
    assert lived.loop.stop(PATIENCE)
    assert world.output() == [("a", "x")]
    lived.close()


@pytest.mark.kip("KS-10")
def test_clean_up_removes_databases_that_the_next_start_restores(world: World):
    state = world.folder
    world.run("a", "a")
    assert any((state / "tasks").rglob("*"))
    lock = ApplicationLock(state, "app")
    with pytest.raises(AlreadyRunningError):
        clean_up(state, "app")
    lock.release()
    clean_up(state, "app")
    assert not (state / "tasks").exists()
    world.run("a")
    assert world.output()[-1] == ("a", 3)


# --- uncaught exceptions ---------------------------------------------------------------------------------------------


def failing_twice(world: World) -> None:
    """Counts the keys; two attempts at the second record fail."""
    failures = iter([ValueError("first"), ValueError("second")])

    def fails_at_first(value: str) -> str:
        error = next(failures, None) if value == "bad" else None
        if error is not None:
            raise error
        return value

    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(fails_at_first, value=str).group_by_key().count().to_stream().to("out")
    world.topology = builder.build()


def produce_bad(world: World) -> None:
    produce([("a", "good", 0), ("a", "bad", 1), ("a", "good", 2)], "in", value=str, log=world.log)


@pytest.mark.kip("KS-09")
@pytest.mark.parametrize("answer", ["replace", UncaughtExceptionResponse.REPLACE_THREAD])
def test_replacing_begins_anew_from_the_last_commit_and_loses_and_repeats_nothing(world: World, answer: str):
    asked: list[PenstockError] = []

    def handler(error: PenstockError) -> str:
        asked.append(error)
        return answer

    failing_twice(world)
    lived = Lived(world, handler)
    produce_bad(world)
    lived.loop.process_all_available()
    assert [type(error) for error in asked] == [ProcessingError, ProcessingError]
    assert ["first" in str(asked[0]), "second" in str(asked[1])] == [True, True]
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]
    assert lived.life.state is State.RUNNING
    lived.close()


@pytest.mark.kip("KS-09")
@pytest.mark.parametrize("handler", [None, lambda error: "stop", lambda error: "stop_application"])
def test_stopping_ends_in_error_with_the_exception_and_the_next_start_goes_on(world: World, handler: Any):
    failing_twice(world)
    lived = Lived(world, handler)
    produce_bad(world)
    assert lived.ended.wait(PATIENCE)
    assert lived.life.state is State.ERROR
    assert "first" in str(lived.loop.error)
    assert world.output() == []
    lived.close()
    with pytest.raises(ProcessingError, match="second"):
        world.start().run_until()
    world.start().run_until()
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]


@pytest.mark.kip("KS-09")
def test_nobody_is_asked_where_a_new_attempt_does_not_help():
    life = Lifecycle(handler=lambda error: "replace")
    assert life.goes_on_after(ProcessingError("a record"))
    assert not life.goes_on_after(FencedError("another program has taken over"))


@pytest.mark.kip("KS-09")
def test_a_handler_that_answers_something_else_ends_the_program_with_that(world: World):
    failing_twice(world)
    lived = Lived(world, lambda error: "go on")
    produce_bad(world)
    assert lived.ended.wait(PATIENCE)
    assert isinstance(lived.loop.error, ConfigError)
    assert "must answer one of 'replace', 'stop', 'stop_application'; got 'go on'" in str(lived.loop.error)
    lived.close()
