"""Waiting for records: an append ends a wait, whoever made it, and so does who wakes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.log.base import Log
from penstock.log.file import watch as file_watch
from penstock.log.file.log import FileLog
from penstock.log.file.watch import FolderWatch
from penstock.log.memory import MemoryLog
from penstock.log.produce import produce
from penstock.log.watch import LookingWatch, TopicWatch

LONG = 30.0


def put(log: Log) -> None:
    produce([("a", 1)], "in", value=int, log=log)


@pytest.fixture(params=["told", "looking", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    if request.param == "memory":
        made: Log = MemoryLog()
    else:
        made = FileLog(tmp_path)
    if request.param == "looking":

        def fails(*_: object) -> None:
            raise OSError("no more watches")

        monkeypatch.setattr(file_watch, "FolderWatch", fails)
    produce([], "in", key=str, value=int, log=made)
    produce([], "other", key=str, value=int, log=made)
    return made


def waited(watch: TopicWatch, meanwhile: Callable[[], None]) -> float:
    """How many seconds a wait took that somebody else was to end."""
    began = time.monotonic()
    other = threading.Thread(target=meanwhile)
    other.start()
    watch.wait(LONG)
    other.join()
    watch.close()
    return time.monotonic() - began


def test_an_append_ends_a_wait(log: Log):
    assert waited(log.watch(["in"]), lambda: put(log)) < LONG


def test_what_came_before_the_wait_ends_it_at_once(log: Log):
    watch = log.watch(["in"])
    put(log)
    assert waited(watch, lambda: None) < LONG


def test_who_wakes_it_ends_a_wait(log: Log):
    watch = log.watch(["in"])
    assert waited(watch, watch.wake) < LONG
    watch.wake()  # it is closed, and nothing happens


def test_without_records_a_wait_lasts_as_long_as_it_is_said(log: Log):
    watch = log.watch(["in"])
    produce([("a", 1)], "other", value=int, log=log)
    began = time.monotonic()
    watch.wait(0.05)
    assert time.monotonic() - began > 0.04
    watch.close()


def test_the_file_log_is_told_by_the_system(tmp_path: Path):
    log = FileLog(tmp_path)
    produce([], "in", key=str, value=int, log=log)
    assert isinstance(log.watch(["in"]), FolderWatch)


def test_appends_of_another_machine_are_found_by_looking(tmp_path: Path):
    """Where a folder is shared by several machines, a system tells of its own ones' appends only."""
    log = FileLog(tmp_path)
    produce([], "in", key=str, value=int, log=log)
    watch = FolderWatch(log, ["in"], [tmp_path])  # so it is told of nothing
    assert waited(watch, lambda: put(FileLog(tmp_path))) < LONG


def test_a_log_may_be_used_by_several_threads_at_once(tmp_path: Path):
    """A program's loop looks at a topic that another of its threads appends to, through the same object."""
    log = FileLog(tmp_path)
    produce([], "in", key=str, value=int, log=log)
    failed: list[Exception] = []
    over = threading.Event()

    def look() -> None:
        try:
            while not over.is_set():
                log.end_offsets("in")
        except Exception as error:
            failed.append(error)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for thread in lookers:
        thread.start()
    for _ in range(60):
        put(log)
    over.set()
    for thread in lookers:
        thread.join()
    assert (failed, log.end_offsets("in")) == ([], [60])


def test_a_looking_watch_tells_whether_there_is_more(tmp_path: Path):
    log = FileLog(tmp_path)
    produce([], "in", key=str, value=int, log=log)
    watch = LookingWatch(log, ["in"])
    assert not watch.has_more()
    put(log)
    assert [watch.has_more(), watch.has_more()] == [True, False]
