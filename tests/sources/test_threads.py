"""A source and the thread that brings its records in: where it continues, and what becomes of trouble."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import ConfigError, Record, SourceError, StreamsBuilder, TopologyError, consume, faults
from penstock.engine.shared.children import ENDED, RUNNING, children_of
from penstock.log.base import Log
from penstock.log.file.log import FileLog
from penstock.sources import Source, SourceBatch, SourceContext, SourceReader
from penstock.storage.base import LocalStorage
from support.sourcing import TOPIC, brought_in, records, running, sources_of, until


@dataclass
class Numbers(Source):
    """Gives the numbers below a count, a few at a time; the offset is the next number."""

    count: int = 0
    step: int = 2
    before_read: Callable[[Any], None] = lambda offset: None
    opened: int = 0
    heard: list[Any] = field(default_factory=list)
    """The offsets that it was told are safe."""
    secrets: tuple[str, ...] = ()
    poll_ms: int = 10

    def open(self, context: SourceContext) -> SourceReader:
        self.opened += 1
        return Reader(self)


class Reader(SourceReader):
    def __init__(self, numbers: Numbers):
        self._numbers = numbers

    def read(self, offset: Any, most: int) -> SourceBatch | None:
        self._numbers.before_read(offset)
        begin = offset or 0
        end = min(begin + self._numbers.step, self._numbers.count)
        if begin == end:
            return None
        return SourceBatch([(f"k{n % 3}", n, n) for n in range(begin, end)], end)

    def committed(self, offset: Any) -> None:
        self._numbers.heard.append(offset)


@dataclass
class Given(Source):
    """Gives one batch."""

    batch: Any
    poll_ms: int = 10

    def open(self, context: SourceContext) -> SourceReader:
        given = self.batch

        class One(SourceReader):
            def read(self, offset: Any, most: int) -> SourceBatch | None:
                return None if offset else given

        return One()


def numbers(count: int) -> list[tuple[str, int]]:
    return [(f"k{n % 3}", n) for n in range(count)]


def test_records_come_in_once_and_a_later_start_continues_behind_them(tmp_path: Path):
    brought_in(tmp_path, Numbers(3))
    later = Numbers(5)
    brought_in(tmp_path, later)
    assert records(tmp_path) == numbers(5)
    assert later.heard == [3, 5]


def test_a_source_hears_of_each_batch_when_it_is_in_the_topic(tmp_path: Path):
    source = Numbers(5)
    seen: list[tuple[Any, int]] = []
    source.before_read = lambda offset: seen.append((offset, len(FileLog(tmp_path / "log").end_offsets(TOPIC))))
    brought_in(tmp_path, source)
    assert source.heard == [2, 4, 5]
    assert [offset for offset, _ in seen][:4] == [None, 2, 4, 5]


def test_rows_may_have_times_and_headers(tmp_path: Path):
    rows = [("a", 1, 5), Record("b", 2, 6, (("from", b"x"),))]
    brought_in(tmp_path, Given(SourceBatch(rows, 1)))
    found = consume(TOPIC, key=str, value=int, log=tmp_path / "log")
    assert [(one.key, one.value, one.timestamp, one.headers) for one in found] == [
        ("a", 1, 5, ()),
        ("b", 2, 6, (("from", b"x"),)),
    ]


def test_a_table_of_arrow_has_the_columns_of_records(tmp_path: Path):
    table = pa.table({"key": ["a", None], "value": [1, 2], "timestamp": np.array([5, 6])})
    brought_in(tmp_path, Given(SourceBatch(table, 1)))
    found = consume(TOPIC, key=str, value=int, log=tmp_path / "log")
    assert [(one.key, one.value, one.timestamp) for one in found] == [("a", 1, 5), (None, 2, 6)]


def test_columns_of_bytes_are_taken_as_they_are_and_structs_are_json(tmp_path: Path):
    table = pa.table({"key": pa.array([b"\x00"]), "value": [{"n": 1, "at": "x"}]})
    brought_in(tmp_path, Given(SourceBatch(table, 1)), key=bytes, value=dict)
    assert records(tmp_path, key=bytes, value=dict) == [(b"\x00", {"n": 1, "at": "x"})]


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ([("a", 1)], "read\\(\\) returns a SourceBatch or None"),
        (SourceBatch("abc", 1), "the records of a batch are rows such as"),
        (SourceBatch([("a", "x")], 1), "gave what is no record: .*value of row 1"),
        (
            SourceBatch(pa.table({"val": [1]}), 1),
            "the columns of a batch are key, value, timestamp and headers; got val",
        ),
        (SourceBatch(pa.table({"value": ["x"]}), 1), "gave what is no record"),
        (SourceBatch([("a", 1)], object()), "the offset of a batch is one that JSON can say"),
        (SourceBatch([("a", 1)], "x" * 3_000), "has less than 3,000 bytes as JSON"),
    ],
)
def test_what_is_no_batch_ends_the_program_and_brings_nothing_in(batch: Any, why: str, tmp_path: Path):
    with running(tmp_path, Given(batch)) as sources, pytest.raises(SourceError, match=why):
        sources.process_sources()
    assert FileLog(tmp_path / "log").end_offsets(TOPIC) == [0]


def test_a_batch_without_records_moves_the_offset(tmp_path: Path):
    brought_in(tmp_path, Given(SourceBatch([], {"at": [1, None]})))
    source = Numbers()
    source.before_read = lambda offset: source.heard.append(("read", offset)) or exit_quietly()
    with running(tmp_path, source, retry_for="1 ms") as sources, pytest.raises(SourceError, match="seen enough"):
        sources.process_sources()
    assert source.heard == [{"at": [1, None]}, ("read", {"at": [1, None]})]


def exit_quietly() -> None:
    raise SourceError("seen enough")


def test_a_failing_source_is_opened_anew_where_it_was_and_told_in_the_state(tmp_path: Path):
    source = Numbers(4)
    states: list[Any] = []

    def fail(offset: Any) -> None:
        if offset == 2 and source.opened < 3:
            raise OSError("no route to postgres://me:swordfish@db/shop")

    source.before_read = fail
    with running(tmp_path, source) as sources:
        until(lambda: states.append(sources.now()[0]) or states[-1].batch == 1)
        sources.process_sources()
        [child] = sources.now()
    assert source.opened == 3
    assert records(tmp_path) == numbers(4)
    assert {one.error for one in states if one.error} == {"OSError: no route to postgres://****@db/shop"}
    assert {one.state for one in states} == {RUNNING}
    assert child.error == ""
    [left] = children_of(LocalStorage(tmp_path / "checkpoint"))
    assert (left.state, left.rows, left.says) == (ENDED, 4, "Numbers -> shop-rows-source: ended, 4 records")


def test_a_source_that_fails_for_too_long_ends_the_program_and_secrets_are_masked(tmp_path: Path):
    def fail(offset: Any) -> None:
        raise OSError("wrong password swordfish")

    source = Numbers(1, before_read=fail, secrets=("swordfish",))
    with running(tmp_path, source, retry_for="200 ms") as sources:
        with pytest.raises(
            SourceError, match=r"its source 'rows' \(Numbers, source at .*\) failed: OSError: wrong pas"
        ):
            sources.process_sources()
        [child] = sources.now()
        assert (child.state, child.error) == ("failed", "OSError: wrong password ****")
        source.before_read = lambda offset: None
        sources.check_running()  # the uncaught exception handler starts it again
        sources.process_sources()
    assert records(tmp_path) == numbers(1)


def test_a_source_waits_while_the_program_lacks_too_many_records(tmp_path: Path):
    read = [0]
    source = Numbers(100, step=1)
    with running(tmp_path, source, lambda: {TOPIC: read}, max_ahead=8) as sources:
        until(lambda: sources.now()[0].rows >= 9)
        far = FileLog(tmp_path / "log")
        for _ in range(20):
            threading.Event().wait(0.01)
            assert far.end_offsets(TOPIC)[0] <= 10
        read[0] = 100
        sources.process_sources()
    assert records(tmp_path) == numbers(100)


def test_records_leave_the_topic_when_the_program_has_processed_them_for_long_enough(tmp_path: Path):
    read = [0]
    log = FileLog(tmp_path / "log")
    with running(tmp_path, Numbers(10), lambda: {TOPIC: read}, keep="50 ms") as sources:
        sources.process_sources()
        threading.Event().wait(0.2)
        assert log.start_offsets(TOPIC) == [0]
        read[0] = 6
        until(lambda: log.start_offsets(TOPIC) == [6])
    assert records(tmp_path) == numbers(10)[6:]
    brought_in(tmp_path, Numbers(12))
    assert records(tmp_path) == numbers(12)[6:]


def test_two_programs_that_read_a_source_at_once_bring_nothing_in_twice(tmp_path: Path):
    one, other = Numbers(40, step=1), Numbers(40, step=3)
    with running(tmp_path, one) as first, running(tmp_path, other) as second:
        first.process_sources()
        second.process_sources()
    assert records(tmp_path) == numbers(40)


def test_a_log_that_was_restored_from_an_older_copy_is_told_and_given_what_it_lacks(tmp_path: Path):
    brought_in(tmp_path, Numbers(2))
    log = FileLog(tmp_path / "log")
    saved = {file: file.read_bytes() for file in log.root.rglob("*") if file.is_file()}
    brought_in(tmp_path, Numbers(4))
    for file in [file for file in log.root.rglob("*") if file.is_file()]:
        file.unlink()
    for file, data in saved.items():
        file.write_bytes(data)
    with running(tmp_path, Numbers(6)) as sources:
        sources.process_sources()
        [child] = sources.now()
    assert records(tmp_path) == numbers(6)
    assert (
        "the log was restored from an older copy. The source is read again from where that copy ends" in child.told[0]
    )


def test_a_topic_that_was_made_anew_is_refused(tmp_path: Path):
    brought_in(tmp_path, Numbers(2))
    FileLog(tmp_path / "log").delete_topic(TOPIC)
    with running(tmp_path, Numbers(2)) as sources, pytest.raises(SourceError, match="was removed and created again"):
        sources.process_sources()
    assert records(tmp_path) == []


class Forgetful(FileLog):
    """A log that forgets its producers, as Kafka does."""

    forgets_appends = True
    has_forgotten = False

    @property
    def place(self) -> Any:
        return None

    def last_append(self, topic: str, producer: str) -> Any:
        found = super().last_append(topic, producer)
        return type(found)() if type(self).has_forgotten else found

    def append(self, topic: str, segments: Any, producer: str = "", sequence: int = -1, note: str = "") -> bool:
        if type(self).has_forgotten:
            self.forget_producer(topic, producer)
        type(self).has_forgotten = False
        return super().append(topic, segments, producer, sequence, note)


def test_what_a_log_forgets_is_in_the_checkpoint(tmp_path: Path):
    log: Log = Forgetful(tmp_path / "log")
    brought_in(tmp_path, Numbers(2), log=log)
    Forgetful.has_forgotten = True
    brought_in(tmp_path, Numbers(4), log=log)
    assert records(tmp_path) == numbers(4)


def test_a_batch_whose_fate_a_log_forgot_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def die(point: str) -> None:
        if point == "before-source-append":
            raise KeyboardInterrupt

    log: Log = Forgetful(tmp_path / "log")
    monkeypatch.setattr(faults, "listener", die)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    with running(tmp_path, Numbers(2), log=log) as sources:
        [thread] = sources._threads
        until(lambda: thread._thread is not None and not thread._thread.is_alive())
    monkeypatch.setattr(faults, "listener", None)
    Forgetful.has_forgotten = True
    with (
        running(tmp_path, Numbers(2), log=log) as sources,
        pytest.raises(SourceError, match="has arrived is not known"),
    ):
        sources.process_sources()


def test_a_source_without_an_end_is_refused_where_the_program_ends_with_its_input(tmp_path: Path):
    class Endless(Numbers):
        has_end = False

    sources = sources_of(tmp_path, Endless())
    sources.prepare()
    with pytest.raises(ConfigError, match=r"source 'rows' \(Endless, source at .*\) has no end, so no program"):
        sources.begin(None, LocalStorage(tmp_path / "checkpoint"), True)


def test_what_is_no_source_is_refused():
    builder = StreamsBuilder()
    for given, why in [(Numbers, "call it: Numbers"), (open, "got <built-in"), (5, "got 5")]:
        with pytest.raises(TopologyError, match=f"a source has a method open\\(context\\).*{why}"):
            builder.source(given, "rows")  # type: ignore[arg-type]
    for options, why in [({"partitions": 0}, "partitions is a number"), ({"max_ahead": 0}, "max_ahead is a number")]:
        with pytest.raises(TopologyError, match=why):
            builder.source(Numbers(), "rows", **options)
    builder.source(Numbers(), "rows").to("out")
    with pytest.raises(TopologyError, match=r"'rows' is the name of the source at .*; give one another name"):
        builder.source(Numbers(), "rows")
    builder.stream("rows").to("out")
    with pytest.raises(TopologyError, match="'rows' is the name of a topic as well"):
        builder.build()
