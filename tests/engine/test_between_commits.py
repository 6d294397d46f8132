"""READ_UNCOMMITTED between commits: what comes while a commit is not due is worked on, and seen at once (KIP-892)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import (
    WALL_CLOCK_TIME,
    ConfigError,
    IsolationLevel,
    Processor,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    open_store,
)
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.local import LocalApplication
from penstock.engine.task.questions import QuestionServer, TasksElsewhere, answering, folder_of_sockets, place_of
from penstock.log.produce import produce
from penstock.query.application import open_stores
from penstock.query.server import app
from penstock.storage.base import LocalStorage
from support.world import World

pytestmark = pytest.mark.kip("892-06", "892-12", "44-01")

INTERVAL = 60.0
"""Seconds between commits: no test lasts so long."""
SEEN = {"default_interactive_query_isolation_level": "read_uncommitted"}
UNCOMMITTED, COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED


def eventually(read: Callable[[], Any], expected: Any, seconds: float = 15.0) -> None:
    """Fail unless something is read within some seconds."""
    until = time.monotonic() + seconds
    while (found := read()) != expected and time.monotonic() < until:
        time.sleep(0.01)
    assert found == expected


class Running:
    """A program whose commits a loop makes, a minute apart."""

    def __init__(self, world: World):
        self.app: LocalApplication = world.start()
        self.commits: list[tuple[int, int]] = []
        self.loop = CommitLoop(self.app.coordinator, INTERVAL, False, self._note)
        self.app.live.ask = self.loop.noting(self.app.live.ask)
        self.stores = self.app.stores()
        self.loop.start()

    def _note(self, done: Any, ends: Any) -> None:
        self.commits.append((done.commit, done.records))
        self.seconds = done.seconds


@contextmanager
def running(world: World, *first: str) -> Iterator[Running]:
    """A program that has just committed its first records."""
    world.produce(*first)
    made = Running(world)
    try:
        eventually(lambda: len(made.commits), 1)
        yield made
    finally:
        made.loop.stop()
        made.app.close()


def words() -> Topology:
    """Two sub-topologies: words are counted behind a repartition topic, by window behind another one."""
    builder = StreamsBuilder()
    words = builder.stream("in", value=str).group_by(lambda key, value: key.upper())
    words.count("words").to_stream().to("out")
    builder.stream("in", value=str).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count("windows")
    return builder.build()


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("cache", [0, 10_000_000])
def test_a_write_is_seen_at_once_whatever_the_commit_interval_is(tmp_path: Path, guarantee: str, cache: int):
    world = World(tmp_path, words(), processing_guarantee=guarantee, statestore_cache_max_bytes=cache, **SEEN)
    with running(world, "a") as program:
        view = program.stores.view("windows")
        for number in range(2, 5):
            world.produce("a", "b")
            eventually(lambda number=number: view.fetch("a", 0), number)
        eventually(lambda: view.fetch("b", 0), 3)
        committed = program.stores.view("windows", COMMITTED)
        assert (committed.fetch("a", 0), committed.fetch("b", 0), len(program.commits)) == (1, None, 1)
        if not cache:  # updates of a cached table go on with the commit, as in Kafka Streams
            eventually(lambda: program.stores.view("words").get("B"), 3)
            assert program.stores.view("words").read_only(COMMITTED).get("B") is None
        assert world.output()[-1:] == [("A", 1)], "output is committed"
    assert [records for _, records in program.commits] == [1, 6]
    assert sorted(dict(world.output()).items()) == [("A", 4), ("B", 3)]
    assert world.counts("words") == [("A", 4), ("B", 3)]
    if not cache:
        assert world.output() == [("A", 1), *[pair for n in (1, 2, 3) for pair in (("A", n + 1), ("B", n))]]


def test_one_query_is_enough_for_tasks_to_work_between_commits(tmp_path: Path):
    world = World(tmp_path)
    with running(world, "a") as program:
        world.produce("a")
        time.sleep(0.3)
        assert program.stores.view("counts").get("a") == 1
        eventually(lambda: program.stores.view("counts", UNCOMMITTED).get("a"), 2)
        assert (program.stores.view("counts").get("a"), len(program.commits)) == (1, 1)


def test_without_such_a_query_records_wait_for_the_next_commit(tmp_path: Path):
    world = World(tmp_path)
    with running(world, "a") as program:
        world.produce("a")
        time.sleep(0.3)
        [task] = program.app.host.tasks()
        assert task.state.approximate_num_uncommitted_entries == 1, "those of the last commit, until the next one"


def test_punctuations_run_between_commits(tmp_path: Path):
    class Ticking(Processor):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("ticks")
            context.schedule("20 ms", WALL_CLOCK_TIME, lambda now: self.store.put("n", (self.store.get("n") or 0) + 1))

        def process(self, record: Any) -> None:
            """Only time matters."""

    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("ticks"), str, int)
    builder.add_state_store(store)
    builder.stream("in", value=str).process(Ticking, "ticks")
    world = World(tmp_path, builder.build(), **SEEN)
    with running(world, "a") as program:
        eventually(lambda: (program.stores.view("ticks").get("n") or 0) > 3, True)
        assert len(program.commits) <= 2


def test_what_is_lost_in_the_middle_is_done_again_from_the_last_commit(tmp_path: Path):
    world = World(tmp_path, words(), **SEEN)
    with running(world, "a") as program:
        for number in range(2, 6):
            world.produce("a")
            eventually(lambda number=number: program.stores.view("words").get("A"), number)
            if number == 3:
                program.app.host._drop("1_0")  # as a slot that is gone
    assert [value for _, value in world.output()] == [1, 2, 3, 4, 5]
    assert world.counts("words") == [("A", 5)]


def test_a_killed_program_leaves_nothing_of_what_was_not_committed(tmp_path: Path):
    world = World(tmp_path, words(), **SEEN)
    world.produce("a")
    program = Running(world)
    eventually(lambda: len(program.commits), 1)
    world.produce("a", "a")
    eventually(lambda: program.stores.view("words").get("A"), 3)
    assert world.counts("words") == [("A", 1)]
    files = tmp_path.with_name("killed")
    shutil.copytree(tmp_path, files)  # what is on disk at this instant
    program.loop.stop()
    program.app.close()
    again = World(files, words(), **SEEN)
    app = again.start()
    app.run_until()
    app.close()
    assert [value for _, value in again.output()] == [1, 2, 3]
    assert again.counts("words") == [("A", 3)]


@pytest.mark.kip("892-10")
def test_a_task_that_holds_as_much_as_it_may_commits_before_its_time(tmp_path: Path):
    world = World(tmp_path, statestore_uncommitted_max_records=3, **SEEN)
    with running(world, "a") as program:
        world.produce("a")
        eventually(lambda: program.stores.view("counts").get("a"), 2)
        assert len(program.commits) == 1
        world.produce("b", "c")
        eventually(lambda: len(program.commits), 2)
        assert world.counts() == [("a", 2), ("b", 1), ("c", 1)]


def test_a_caller_that_waits_for_all_records_does_not_wait_for_the_interval(tmp_path: Path):
    world = World(tmp_path, **SEEN)
    with running(world, "a") as program:
        world.produce("a")
        eventually(lambda: program.stores.view("counts").get("a"), 2)
        program.loop.process_all_available()
        assert world.counts() == [("a", 2)]
        assert program.seconds < 10


def test_records_of_several_parts_keep_their_order(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    world = World(tmp_path, builder.build(), **SEEN)
    with running(world, "0") as program:
        for number in range(1, 30):
            produce([(str(number), "x", 0)], "in", value=str, log=world.log)
        program.loop.process_all_available()
        world.produce("30")
        program.loop.process_all_available()
    assert [int(key) for key, _ in world.output()] == list(range(31))


@contextmanager
def listening(program: Running) -> Iterator[None]:
    """A program that answers other processes, as every program on Spark does."""
    server = QuestionServer(program.app.coordinator.storage, program.app.live)
    try:
        yield
    finally:
        server.close()


@pytest.mark.kip("44-02")
def test_a_view_of_uncommitted_rows_shows_the_committed_ones_once_the_program_has_ended(tmp_path: Path):
    world = World(tmp_path, words())
    with running(world, "a") as program, closing(open_stores(tmp_path / "checkpoint")) as others:
        with listening(program):
            view = others.view("words", UNCOMMITTED)
            assert [row[:2] for row in view.all()] == [("A", 1)]
        assert [row[:2] for row in view.all()] == [("A", 1)]
        assert view.get("A") == 1


@pytest.mark.kip("44-02")
def test_another_process_sees_a_write_at_once(tmp_path: Path):
    world = World(tmp_path, words())
    with running(world, "a") as program:
        with pytest.raises(ConfigError, match="does not run, or on another machine or as another user"):
            open_store(tmp_path / "checkpoint", "words", isolation_level=UNCOMMITTED)
        with listening(program):
            world.produce("a", "b")
            code = (
                "import sys, time; from penstock import IsolationLevel, open_store\n"
                "view = open_store(sys.argv[1], 'words', isolation_level=IsolationLevel.READ_UNCOMMITTED)\n"
                "until = time.monotonic() + 15\n"
                "while view.get('B') is None and time.monotonic() < until: time.sleep(0.01)\n"
                "committed = view.read_only(IsolationLevel.READ_COMMITTED)\n"
                "print([row[:2] for row in view.all()], [row[:2] for row in committed.all()])\n"
            )
            ran = subprocess.run(
                [sys.executable, "-c", code, str(tmp_path / "checkpoint")], capture_output=True, text=True, timeout=60
            )
            assert ran.stdout == "[('A', 2), ('B', 1)] [('A', 1)]\n", ran.stderr
            assert len(program.commits) == 1


@pytest.mark.kip("44-02")
def test_a_request_over_http_says_its_level(tmp_path: Path):
    client = pytest.importorskip("starlette.testclient", reason="comes with penstock-streams[serve]").TestClient
    world = World(tmp_path)
    with running(world, "a") as program, listening(program), closing(open_stores(tmp_path / "checkpoint")) as others:
        world.produce("a", "b")
        for stores in (program.stores, others):  # of the program, and of another process
            http = client(app(stores), base_url="http://localhost")

            def row(key: str, level: str, http: Any = http) -> Any:
                answer = http.get(f"/stores/counts/{key}?isolation_level={level}").json()
                return answer["row"]["value"] if "row" in answer else answer.get("error")

            eventually(lambda row=row: row("b", "read_uncommitted"), 1)
            assert [row("a", level) for level in ("READ_UNCOMMITTED", "READ_COMMITTED", "read_committed")] == [2, 1, 1]
            assert http.get("/stores/counts/a").json()["row"]["value"] == 1
            every = http.get("/stores/counts?isolation_level=read_uncommitted").json()["rows"]
            assert [(one["key"], one["value"]) for one in every] == [("a", 2), ("b", 1)]
            assert (
                row("a", "serializable")
                == "isolation_level is one of read_uncommitted, read_committed, got 'serializable'"
            )
        assert len(program.commits) == 1


def test_nobody_else_can_enter_the_folder_of_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = folder_of_sockets()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(ConfigError, match="must be a folder of your own that no other user can enter"):
        folder_of_sockets()


@pytest.mark.parametrize(
    ("name", "mode", "said"), [("t", 0o755, "must be a folder of your own"), ("t" * 90, 0o700, "AF_UNIX path too long")]
)
def test_where_no_socket_can_be_the_program_runs_without_it_and_committed_state_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, mode: int, said: str
):
    """A stranger may have made the folder before."""
    (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / name))
    folder_of_sockets().chmod(mode)
    world = World(tmp_path)
    with running(world, "a") as program:
        answering(program.app.coordinator.storage, program.app.live)()
        assert said in caplog.text
        with closing(open_stores(tmp_path / "checkpoint")) as others:
            assert [row[:2] for row in others.view("counts").all()] == [("a", 1)]
            with pytest.raises(ConfigError):
                others.view("counts", UNCOMMITTED)


def test_a_socket_that_a_killed_program_left_is_replaced_and_a_rivals_stays(tmp_path: Path):
    storage = LocalStorage(tmp_path)
    place_of(storage).touch()
    live: Any = SimpleNamespace(task_names=lambda sub: [f"{sub}_0"], ask=None)
    first = QuestionServer(storage, live)
    assert TasksElsewhere(storage).task_names(3) == ["3_0"]
    second = QuestionServer(storage, SimpleNamespace(task_names=lambda sub: ["new"], ask=None))  # type: ignore[arg-type]
    first.close()
    assert TasksElsewhere(storage).task_names(3) == ["new"]
    second.close()
    assert (TasksElsewhere(storage).is_there, TasksElsewhere(storage).task_names(3)) == (False, [])
