"""A sink and the thread that hands records on to it: what each of them is told, and what becomes of trouble."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock import SinkError, StreamsBuilder, produce
from penstock.engine.shared.children import ENDED, RUNNING, children_of
from penstock.engine.sinks.sinks import Sinks
from penstock.log.file.log import FileLog
from penstock.sinks import Sink, SinkBatch, SinkPartition, SinkWriter
from penstock.storage.base import LocalStorage

TOPIC = "shop-rows-sink"


@dataclass
class Lists(Sink):
    """Keeps what it is given, partition by partition."""

    rows: dict[int, list[Any]] = field(default_factory=dict)
    numbers: dict[int, int | None] = field(default_factory=dict)
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Partition, number before, number, and count of rows of each batch."""
    opened: int = 0
    before_write: Callable[[SinkBatch], None] = lambda batch: None
    after_write: Callable[[SinkBatch], None] = lambda batch: None
    secrets: tuple[str, ...] = ()

    def open(self, partition: SinkPartition) -> SinkWriter:
        self.opened += 1
        return Writer(self, partition.number)


class Writer(SinkWriter):
    def __init__(self, lists: Lists, partition: int):
        self._lists, self._partition = lists, partition

    def committed(self) -> int | None:
        return self._lists.numbers.get(self._partition, 0)

    def write(self, batch: SinkBatch, commit: int) -> None:
        self._lists.before_write(batch)
        self._lists.rows.setdefault(self._partition, []).extend((row["key"], row["value"]) for row in batch.rows())
        if self._lists.numbers.get(self._partition, 0) is not None:
            self._lists.numbers[self._partition] = commit
        self._lists.batches.append((self._partition, batch.before, commit, len(batch)))
        self._lists.after_write(batch)


def put(folder: Path, *values: int, partitions: int = 1) -> None:
    produce([("a", n, n) for n in values], TOPIC, key=str, value=int, log=folder / "log", partitions=partitions)


def sinks_of(folder: Path, sink: Sink, **options: Any) -> Sinks:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_sink(sink, "rows", **{"retry_for": "10 s", **options})
    return Sinks(builder.build().owned_by("shop"), "shop", FileLog(folder / "log"))


@contextmanager
def running(folder: Path, sink: Sink, **options: Any) -> Iterator[Sinks]:
    sinks = sinks_of(folder, sink, **options)
    sinks.begin(None, LocalStorage(folder / "checkpoint"), False)
    try:
        yield sinks
    finally:
        sinks.stop()


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def handed_on(folder: Path, sink: Sink, **options: Any) -> None:
    with running(folder, sink, **options) as sinks:
        sinks.process_sinks()


def test_whole_batches_come_with_growing_numbers_and_the_sink_says_where_to_continue(tmp_path: Path):
    lists = Lists()
    put(tmp_path, 1, 2, 3)
    handed_on(tmp_path, lists)
    put(tmp_path, 4, 5)
    handed_on(tmp_path, lists)
    assert lists.rows == {0: [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5)]}
    assert lists.batches == [(0, 0, 3, 3), (0, 3, 5, 2)]


def test_a_batch_is_columns_and_rows_with_the_time(tmp_path: Path):
    seen: list[Any] = []
    put(tmp_path, 7)
    handed_on(tmp_path, Lists(before_write=lambda batch: seen.append((batch.arrow(), batch.rows()))))
    [(columns, rows)] = seen
    assert columns.schema.names == ["key", "value", "timestamp"]
    assert columns.to_pylist() == rows
    assert [(row["key"], row["value"], row["timestamp"].timestamp()) for row in rows] == [("a", 7, 0.007)]


def test_a_sink_without_numbers_gets_a_batch_of_unknown_fate_again_with_the_same_records(tmp_path: Path):
    def die(batch: SinkBatch) -> None:
        lists.after_write = lambda batch: None
        put(tmp_path, 3)  # more records are there when it is given again
        raise OSError("the answer was lost")

    lists = Lists(numbers={0: None}, after_write=die)
    put(tmp_path, 1, 2)
    handed_on(tmp_path, lists)
    put(tmp_path, 4)
    handed_on(tmp_path, lists)
    assert lists.batches[:2] == [(0, 0, 2, 2), (0, 0, 2, 2)]
    assert sum(rows for *_, rows in lists.batches[2:]) == 2


def test_a_failing_sink_is_opened_anew_asked_for_its_number_and_told_in_the_state(tmp_path: Path):
    states: list[Any] = []

    def fail(batch: SinkBatch) -> None:
        if lists.opened < 3:
            raise OSError("no route to postgres://me:swordfish@db/shop")

    lists = Lists(before_write=fail)
    put(tmp_path, 1)
    with running(tmp_path, lists) as sinks:
        until(lambda: states.append(sinks.now()[0]) or lists.rows)
        sinks.process_sinks()
        [child] = sinks.now()
    assert lists.opened == 3
    assert lists.rows == {0: [("a", 1)]}
    said = {one.error for one in states if one.error}
    assert said == {"OSError: no route to postgres://****@db/shop"}
    assert {one.state for one in states} == {RUNNING}
    assert child.error == ""
    [left] = children_of(LocalStorage(tmp_path / "checkpoint"))
    assert (left.state, left.rows, left.says) == (ENDED, 1, "shop-rows-sink -> Lists: ended, 1 rows")


def test_a_sink_that_fails_for_too_long_ends_the_program_and_secrets_are_masked(tmp_path: Path):
    def fail(batch: SinkBatch) -> None:
        raise OSError("wrong password swordfish")

    put(tmp_path, 1)
    lists = Lists(before_write=fail, secrets=("swordfish",))
    with running(tmp_path, lists, retry_for="200 ms") as sinks:
        with pytest.raises(SinkError, match=r"its sink 'rows' \(Lists, to_sink at .*\) failed: OSError: wrong passw"):
            sinks.process_sinks()
        [child] = sinks.now()
        assert (child.state, child.error) == ("failed", "OSError: wrong password ****")
        lists.before_write = lambda batch: None
        sinks.check_running()  # the uncaught exception handler starts it again
        sinks.process_sinks()
    assert lists.rows == {0: [("a", 1)]}


@pytest.mark.parametrize("error", [SystemExit(1), type("PanicException", (BaseException,), {})("Already shut down")])
def test_an_error_that_is_no_exception_does_not_end_the_thread_of_a_sink(error: BaseException, tmp_path: Path):
    """Libraries in Rust raise such ones for a panic."""

    def fail(batch: SinkBatch) -> None:
        lists.before_write = lambda batch: None
        raise error

    lists = Lists(before_write=fail)
    put(tmp_path, 1)
    with running(tmp_path, lists) as sinks:
        until(lambda: lists.rows)
        sinks.process_sinks()
    assert (lists.opened, lists.rows) == (2, {0: [("a", 1)]})


def test_what_no_retry_mends_ends_the_program_at_once(tmp_path: Path):
    def fail(batch: SinkBatch) -> None:
        raise SinkError("the table has no column n")

    put(tmp_path, 1)
    with running(tmp_path, Lists(before_write=fail)) as sinks, pytest.raises(SinkError, match="the table has no colu"):
        sinks.process_sinks()


def test_a_sink_that_was_restored_from_an_older_copy_is_told_and_given_what_it_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    lists = Lists()
    put(tmp_path, 1, 2)
    handed_on(tmp_path, lists)
    older = Lists(rows={0: list(lists.rows[0])}, numbers=dict(lists.numbers))
    put(tmp_path, 3, 4)
    handed_on(tmp_path, lists)
    with running(tmp_path, older) as sinks:
        sinks.process_sinks()
        [child] = sinks.now()
    assert older.rows == {0: [("a", 1), ("a", 2), ("a", 3), ("a", 4)]}
    said = (
        "sink 'rows' (Lists), partition 0: the sink has number 2 and had 4 before: it was restored from an older copy. "
        "Penstock writes the missing records again"
    )
    assert child.told == (said,)
    assert said in caplog.text


def test_a_sink_that_is_ahead_of_the_log_is_refused(tmp_path: Path):
    put(tmp_path, 1)
    lists = Lists(numbers={0: 9})
    with (
        running(tmp_path, lists) as sinks,
        pytest.raises(SinkError, match=r"the sink has number 9, and topic .* ended"),
    ):
        sinks.process_sinks()
    assert lists.rows == {}


def test_records_that_are_gone_stop_the_program_unless_they_may_be_skipped(tmp_path: Path):
    put(tmp_path, 1, 2, 3)
    FileLog(tmp_path / "log").trim(TOPIC, {0: 2})
    lists = Lists(numbers={0: 1})
    with running(tmp_path, lists) as sinks, pytest.raises(SinkError, match="it lacks 1 records"):
        sinks.process_sinks()
    assert lists.rows == {}
    handed_on(tmp_path, lists, missing="skip")
    assert (lists.rows, lists.batches) == ({0: [("a", 3)]}, [(0, 1, 3, 1)])


def test_what_the_sink_has_leaves_the_topic_when_it_was_kept_for_long_enough(tmp_path: Path):
    put(tmp_path, 1, 2)
    log = FileLog(tmp_path / "log")
    with running(tmp_path, Lists(), keep="50 ms") as sinks:
        sinks.process_sinks()
        until(lambda: log.start_offsets(TOPIC) == [2])
    handed_on(tmp_path, Lists(numbers={0: log.end_offsets(TOPIC)[0]}))


def test_a_slow_sink_holds_the_program_back(tmp_path: Path):
    may_go: list[bool] = []
    lists = Lists(before_write=lambda batch: until(lambda: may_go))
    put(tmp_path, 1, 2, 3)
    with running(tmp_path, lists, max_behind=2) as sinks:
        assert sinks.holds()
        may_go.append(True)
        sinks.process_sinks()
        assert not sinks.holds()


def test_new_partitions_and_records_of_later_commits_go_on(tmp_path: Path):
    lists = Lists()
    put(tmp_path, 1)
    with running(tmp_path, lists) as sinks:
        sinks.process_sinks()
        FileLog(tmp_path / "log").add_partitions(TOPIC, 2)
        produce([(f"k{n}", n) for n in range(9)], TOPIC, key=str, value=int, log=tmp_path / "log")
        sinks.process_sinks()
    assert sorted(n for rows in lists.rows.values() for _, n in rows) == [0, 1, 1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(lists.rows) == [0, 1]
