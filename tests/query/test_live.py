"""READ_UNCOMMITTED: under at least once a running program's stores show what is written at once (KIP-892)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock import (
    BufferConfig,
    ConfigError,
    IsolationLevel,
    KeyQuery,
    Materialized,
    QueryConfig,
    SessionWindows,
    StateQueryRequest,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    produce,
)
from penstock.engine.local import LocalApplication
from penstock.engine.task.live import StoreAnswer, StoreQuestion
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.own_stores import SqliteStore, Supplier
from support.own_timed_stores import TimedSupplier

pytestmark = [pytest.mark.kip("892-12"), pytest.mark.kip("892-06"), pytest.mark.slow]

RECORDS = 40


class Program:
    """Stores of every kind over ``in``; a chunk is one record, a commit all of them."""

    def __init__(self, folder: Path, on_record: Callable[[int], None] = lambda number: None, **settings: Any):
        log = FileLog(folder / "log")
        produce([("a", n, n) for n in range(RECORDS)], "in", str, int, log, partitions=2)
        builder = StreamsBuilder()
        records = builder.stream("in", key=str, value=int).peek(lambda _, number: on_record(number))
        records.group_by_key().count("counts")
        records.group_by_key().windowed_by(TimeWindows.of_size_and_grace(1000, 0)).count("windows")
        records.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 0)).count("sessions")
        history = Materialized.as_(Stores.persistent_versioned_key_value_store("versions", 10_000))
        records.to_table(materialized=history)
        final = records.group_by_key().windowed_by(TimeWindows.of_size_and_grace(1000, 0)).count()
        final.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("held"))
        own_windows = Materialized.as_(TimedSupplier("sqlite", "window", "own-windows", 1000, 1000))
        records.group_by_key().windowed_by(TimeWindows.of_size_and_grace(1000, 0)).count(materialized=own_windows)
        own_sessions = Materialized.as_(TimedSupplier("memory", "session", "own-sessions", 1000))
        gap = SessionWindows.of_inactivity_gap_and_grace(10, 0)
        records.group_by_key().windowed_by(gap).count(materialized=own_sessions)
        records.to_table(materialized=Materialized.as_(TimedSupplier("flushed", "versions", "own-versions", 10_000)))
        records.group_by_key().count(materialized=Materialized.as_(Supplier(SqliteStore, "own-counts")))
        known = Settings(chunk_records=1, statestore_cache_max_bytes=0, **settings)
        storage = LocalStorage(folder / "checkpoint")
        self.app = LocalApplication(builder.build(), "live", known, log, storage, folder / "tasks")


class Asking:
    """Somebody who asks while a program is in the middle of its first commit: from the third record on, each of which
    waits until he asks something, or has heard everything."""

    def __init__(self, folder: Path, ask: Callable[[Any], Any], **settings: Any):
        self._ask = ask
        self._is_at_it = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._answer: Any = None
        self._error: BaseException | None = None
        self.app = Program(folder, self._on_record, **settings).app
        self._asked, self.app.live.ask = self.app.live.ask, self._told

    def answer(self) -> Any:
        """What he was told, before anything was committed."""
        self.app.run_until()
        self._thread.join(60)
        self.app.close()
        if self._error is not None:
            raise self._error
        return self._answer

    def _on_record(self, number: int) -> None:
        if number == 2:
            self._before = self.app.coordinator.manifest.commit
            self._thread.start()
        elif number > 2:
            self._is_at_it.wait(60)
            time.sleep(0.02)

    def _told(self, question: StoreQuestion) -> StoreAnswer:
        self._is_at_it.set()
        answer = self._asked(question)
        self._is_at_it.clear()
        return answer

    def _run(self) -> None:
        try:
            self._answer = self._ask(self.app.stores())
            assert self.app.coordinator.manifest.commit == self._before, "too late to say anything"
        except BaseException as error:
            self._error = error
        self._is_at_it.set()


def everything(stores: Any) -> tuple[Any, ...]:
    """The count by five ways that have to agree or follow each other, as time goes on between them."""
    request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("a"))
    return (
        stores.view("counts").get("a"),
        {key: value for key, value, _ in stores.view("counts").all()}.get("a"),
        stores.view("windows").fetch("a", 0),
        next((value for _, value in stores.view("sessions").fetch("a")), None),
        getattr(stores.view("versions").get_version("a"), "value", None),
        [one.value for one in stores.query(request).partition_results.values() if one.value],
    )


def test_at_least_once_queries_see_what_no_commit_has(tmp_path: Path):
    one, two, three, four, five, (six,) = Asking(tmp_path, everything, processing_guarantee="at_least_once").answer()
    assert 3 <= one <= two <= three <= four <= five + 1 <= six + 1 <= RECORDS + 1


def test_exactly_once_queries_see_nothing_of_it(tmp_path: Path):
    assert Asking(tmp_path, everything).answer() == (None, None, None, None, None, [])


@pytest.mark.kip("44-01")
def test_the_application_says_what_queries_see_independently_of_its_guarantee(tmp_path: Path):
    seen = Asking(tmp_path / "1", everything, default_interactive_query_isolation_level="read_uncommitted").answer()
    assert seen[0] >= 3
    kept = {"default_interactive_query_isolation_level": "read_committed", "processing_guarantee": "at_least_once"}
    assert Asking(tmp_path / "2", everything, **kept).answer() == (None, None, None, None, None, [])
    assert Asking(tmp_path / "3", everything, enable_transactional_statestores=False).answer()[0] >= 3


KINDS: dict[str, Callable[[Any], Any]] = {
    "counts": lambda view: view.get("a"),
    "windows": lambda view: view.fetch("a", 0),
    "sessions": lambda view: next((value for _, value in view.fetch("a")), None),
    "versions": lambda view: getattr(view.get_version("a"), "value", None),
    "held-store": lambda view: next((value for _, value, _ in view.all()), None),
    "own-counts": lambda view: view.get("a"),
    "own-windows": lambda view: view.fetch("a", 0),
    "own-sessions": lambda view: next((value for _, value in view.fetch("a")), None),
    "own-versions": lambda view: getattr(view.get_version("a"), "value", None),
}


@pytest.mark.kip("44-02")
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_each_query_and_each_view_says_its_own_level(tmp_path: Path, guarantee: str):
    def ask(stores: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for level in IsolationLevel:
            for name, read in KINDS.items():
                found[f"{name} {level.value}"] = read(stores.view(name).read_only(level))
            request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("a"))
            every = stores.query(request.with_isolation_level(level)).partition_results.values()
            config = QueryConfig(isolation_level=level)
            again = stores.view("counts").query(KeyQuery.with_key("a"), config=config).partition_results.values()
            found[f"requests {level.value}"] = max((one.value for one in every if one.value), default=None)
            found[f"queries {level.value}"] = max((one.value for one in again if one.value), default=None)
        return found

    answers = Asking(tmp_path, ask, processing_guarantee=guarantee).answer()
    assert len(answers) == 2 * (len(KINDS) + 2)
    assert {name for name, value in answers.items() if value is None} == {
        n for n in answers if n.endswith(" read_committed")
    }
    assert min(value for name, value in answers.items() if name.endswith("read_uncommitted")) >= 2


@pytest.mark.kip("44-02")
def test_a_view_of_what_is_committed_can_be_asked_for_more_only_where_the_program_runs(tmp_path: Path):
    app = Program(tmp_path).app
    app.run_until()
    view = app.stores().view("counts")
    assert (view.isolation_level, view.read_only(view.isolation_level)) == (IsolationLevel.READ_COMMITTED, view)
    more = view.read_only(IsolationLevel.READ_UNCOMMITTED)
    assert (more.isolation_level, more.get("a")) == (IsolationLevel.READ_UNCOMMITTED, RECORDS)
    with view.snapshot() as snapshot, pytest.raises(ConfigError, match="shows what is committed, and cannot show more"):
        snapshot.read_only(IsolationLevel.READ_UNCOMMITTED)
    with pytest.raises(ConfigError, match="read_only takes an IsolationLevel; got 'committed'"):
        view.read_only("committed")  # type: ignore[arg-type]
    app.close()


def test_a_snapshot_is_of_the_last_commit_at_least_once_too(tmp_path: Path):
    def ask(stores: Any) -> tuple[Any, Any]:
        view = stores.view("counts")
        with view.snapshot() as committed:
            return committed.get("a"), view.get("a") >= 3

    assert Asking(tmp_path, ask, processing_guarantee="at_least_once").answer() == (None, True)


def test_where_no_task_is_at_work_what_is_committed_is_shown(tmp_path: Path):
    first = Program(tmp_path, processing_guarantee="at_least_once").app
    first.run_until()
    first.close()
    assert first.stores().view("counts").get("a") == RECORDS, "the program has ended"
    again = Program(tmp_path, processing_guarantee="at_least_once").app
    assert list(again.stores().view("counts").all()) == [("a", RECORDS, RECORDS - 1)], "it has not begun"
    again.close()


def test_a_long_range_is_read_some_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.query.live._PAGE", 2)
    log = FileLog(tmp_path / "log")
    produce([(key, 1, 1) for key in "abcdefg"], "in", str, int, log, partitions=1)
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).group_by_key().count("counts")
    known = Settings(processing_guarantee="at_least_once")
    app = LocalApplication(builder.build(), "live", known, log, LocalStorage(tmp_path / "checkpoint"))
    app.run_until()
    view: Any = app.stores().view("counts")
    assert "".join(key for key, _, _ in view.range("b", "f")) == "bcdef"
    assert "".join(key for key, _, _ in view.reverse_range("b", "f")) == "fedcb"
    app.close()


def test_a_question_names_a_read_and_nothing_else(tmp_path: Path):
    app = Program(tmp_path).app
    app.run_until()
    answer = app.live.ask(StoreQuestion("0_0", "counts", "close"))
    assert (answer.is_here, answer.error) == (True, "the store 'counts' has no read 'close'")
    assert not app.live.ask(StoreQuestion("0_0", "nowhere", "rows")).is_here
    assert "TypeError" in app.live.ask(StoreQuestion("0_0", "counts", "get_one", msgspec.msgpack.encode((1, 2)))).error
    app.close()
