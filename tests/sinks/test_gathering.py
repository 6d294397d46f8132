"""Records that wait for others, so that batches are large; and batches that a sink says it has begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock import SinkError, StreamsBuilder
from penstock.engine.sinks import delivery
from penstock.errors import ConfigError
from penstock.sinks import Sink, SinkBatch, SinkPartition, SinkWriter
from support.handing import put, sinks_of

TOPIC = "shop-rows-sink"


@dataclass
class Gathers(Sink, SinkWriter):
    """Notes the numbers of its batches, and their values."""

    gather_rows: int | None = 4
    gather_ms: int = 3_600_000
    number: int = 0
    begun: int | None = None
    batches: list[tuple[int, int, list[int]]] = field(default_factory=list)
    before_write: Callable[[SinkBatch], None] = lambda batch: None

    def open(self, partition: SinkPartition) -> SinkWriter:
        return self

    def committed(self) -> int:
        return self.number

    def planned(self) -> int | None:
        return self.begun

    def write(self, batch: SinkBatch, commit: int) -> None:
        self.before_write(batch)
        self.batches.append((batch.before, commit, [row["value"] for row in batch.rows()]))
        self.number, self.begun = commit, None


def put_values(folder: Path, *values: int) -> None:
    put(folder, TOPIC, *[("a", n, n) for n in values], key=str, value=int)


def running(folder: Path, sink: Sink, **options: Any) -> Any:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to_sink(sink, "rows", retry_for="20 s", **options)
    return sinks_of(builder, folder)


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gathering(folder: Path, sink: Gathers, **options: Any) -> Any:
    """The sinks, in a state in which new records wait: those that are there at a start do not."""
    put_values(folder, 0)
    sinks = running(folder, sink, **options)
    until(lambda: sink.batches == [(0, 1, [0])])
    return sinks


def test_records_wait_until_there_are_enough_of_them_or_the_program_ends_with_its_input(tmp_path: Path):
    sink = Gathers()
    sinks = gathering(tmp_path, sink)
    put_values(tmp_path, 1, 2, 3)
    until(lambda: sinks.now()[0].behind == 3)
    put_values(tmp_path, 4, 5, 6, 7, 8, 9, 10)
    until(lambda: sinks.now()[0].behind == 2)
    assert sink.batches[1:] == [(1, 5, [1, 2, 3, 4]), (5, 9, [5, 6, 7, 8])]
    sinks.process_sinks()
    sinks.stop()
    assert sink.batches[3:] == [(9, 11, [9, 10])]


def test_records_wait_no_longer_than_the_sink_says(tmp_path: Path):
    sink = Gathers(gather_ms=300)
    sinks = gathering(tmp_path, sink)
    put_values(tmp_path, 1)
    until(lambda: len(sink.batches) > 1)
    sinks.stop()
    assert sink.batches[1:] == [(1, 2, [1])]


def test_records_of_an_earlier_start_do_not_wait_again(tmp_path: Path):
    sink = Gathers()
    put_values(tmp_path, 1, 2)
    sinks = running(tmp_path, sink)
    until(lambda: sink.batches)
    sinks.stop()
    assert sink.batches == [(0, 2, [1, 2])]


def test_records_do_not_wait_when_the_program_would_soon_be_held_back_for_them(tmp_path: Path):
    sink = Gathers(gather_rows=100)
    sinks = gathering(tmp_path, sink, max_behind=6)
    put_values(tmp_path, 1, 2, 3, 4)
    until(lambda: len(sink.batches) > 1)
    sinks.stop()
    assert sink.batches[1:] == [(1, 5, [1, 2, 3, 4])]


def test_a_gathered_batch_is_cut_where_it_has_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(delivery, "BATCH_ROWS", 3)
    monkeypatch.setattr(delivery, "_GATHERED_BYTES", 1)
    sink = Gathers(gather_rows=100)
    put_values(tmp_path, *range(7))
    sinks = running(tmp_path, sink)
    sinks.process_sinks()
    sinks.stop()
    assert sink.batches == [(0, 3, [0, 1, 2]), (3, 6, [3, 4, 5]), (6, 7, [6])]


@pytest.mark.parametrize("rows", [None, 2, 4])
def test_a_batch_that_the_sink_has_begun_comes_first_with_the_same_records(rows: int | None, tmp_path: Path):
    sink = Gathers(gather_rows=rows, number=1, begun=4)
    put_values(tmp_path, 1, 2, 3, 4, 5, 6)
    sinks = running(tmp_path, sink)
    sinks.process_sinks()
    sinks.stop()
    assert sink.batches == [(1, 4, [2, 3, 4]), (4, 6, [5, 6])]


def test_a_begun_batch_beyond_the_end_of_the_topic_is_refused(tmp_path: Path):
    sink = Gathers(begun=9)
    put_values(tmp_path, 1)
    sinks = running(tmp_path, sink)
    with pytest.raises(SinkError, match=r"the sink has begun a batch up to number 9, and topic .* ends at offset 1"):
        sinks.process_sinks()
    sinks.stop()
    assert sink.batches == []


def test_columns_that_a_sink_refuses_are_told_with_the_users_line_before_anything_starts(tmp_path: Path):
    class Refuses(Gathers):
        def check_columns(self, schema: Any) -> None:
            raise ConfigError(f"no column {schema.names[0]!r}")

    put_values(tmp_path, 1)
    with pytest.raises(ConfigError, match=r"to_sink at .*test_gathering.py:\d+: no column 'key'"):
        running(tmp_path, Refuses())
