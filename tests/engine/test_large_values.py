"""Large values: how many are worked on at once is bounded by their bytes, and what does not fit into one Arrow array
goes in pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import (
    EmitStrategy,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    arrays,
    columnar,
    consume,
    produce,
    produce_columns,
)
from penstock.columns.batch import Changes
from penstock.columns.column import NumberColumn, ValuesColumn
from penstock.engine.local import LocalApplication
from penstock.errors import ProcessingError
from penstock.log.file.log import FileLog
from penstock.ops.core.context import Context
from penstock.ops.core.failures import Origin
from penstock.ops.core.notes import TaskFacts
from penstock.ops.tables.update_cache import EmitCache
from penstock.serdes import BYTES, INT, STR
from penstock.settings import Settings
from penstock.state.columns.rows import Keys, RowTable, Values
from penstock.state.kinds.key_value import KeyValueStore
from penstock.storage.base import LocalStorage

MB = 1 << 20


def run(builder: StreamsBuilder, folder: Path, **settings: Any) -> FileLog:
    """Run a topology over the log in a folder until nothing is left to read."""
    log, storage = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
    application = LocalApplication(builder.build(), "large", Settings(**settings), log, storage, folder / "tasks")
    application.run_until()
    application.close()
    return log


def chunks_of(folder: Path, values: list[bytes], topics: tuple[str, ...] = ("in",), **settings: Any) -> list[int]:
    """How many records a columnar function gets at once; the records go into the topics in turn."""
    seen: list[int] = []

    @columnar
    def note(key, value):
        seen.append(len(value))

    builder = StreamsBuilder()
    streams = [builder.stream(topic, value=bytes) for topic in topics]
    merged = streams[0] if len(streams) == 1 else streams[0].merge(streams[1])
    merged.peek(note).to("out")
    for number, topic in enumerate(topics):
        rows = [("k", value, time) for time, value in enumerate(values)][number :: len(topics)]
        produce(rows, topic, value=bytes, log=folder / "log")
    run(builder, folder, **settings)
    assert [record.value for record in consume("out", log=folder / "log")] == values
    return seen


def test_a_chunk_has_no_more_than_32_mb_of_records_unless_one_alone_has(tmp_path):
    values = [bytes(10 * MB)] * 4 + [bytes(40 * MB), b"small"]
    assert chunks_of(tmp_path, values) == [3, 1, 1, 1]


def test_a_chunk_of_small_records_is_bounded_by_their_number(tmp_path):
    assert chunks_of(tmp_path, [b"small"] * 10, chunk_records=4) == [4, 4, 2]


@pytest.mark.parametrize("topics", [("in",), ("in", "other")])
def test_the_bound_of_bytes_counts_keys_and_values_of_all_that_is_read(tmp_path, topics):
    assert chunks_of(tmp_path, [bytes(91)] * 10, topics, chunk_bytes=300) == [3, 3, 3, 1]


@pytest.fixture
def arrays_of_a_megabyte(monkeypatch):
    """Arrow's arrays hold 2 GiB; here they hold a megabyte, so that tests need not."""
    monkeypatch.setattr(arrays, "MOST_BYTES", MB)


def test_results_that_do_not_fit_into_one_array_go_out_in_pieces(tmp_path, arrays_of_a_megabyte):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=bytes)
    stream.flat_map_values(lambda value: [value * 100] * 3, value=bytes).to("out")
    produce([("k", bytes([i]) * 100, i) for i in range(100)], "in", value=bytes, log=tmp_path / "log")
    log = run(builder, tmp_path)
    found = [(record.value[:1], len(record.value), record.timestamp) for record in consume("out", log=log)]
    assert found == [(bytes([i]), 10_000, i) for i in range(100) for _ in range(3)]


def test_aggregates_that_grow_beyond_one_array_in_a_chunk_come_out_one_by_one(tmp_path, arrays_of_a_megabyte):
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=bytes).group_by_key()
    grouped.aggregate(bytes, lambda key, value, joined: joined + value, value=bytes, store="all").to_stream().to("out")
    produce([("k", bytes(100), i) for i in range(200)], "in", value=bytes, log=tmp_path / "log")
    log = run(builder, tmp_path, statestore_cache_max_bytes=0)
    assert [len(record.value) for record in consume("out", log=log)] == [100 * i for i in range(1, 201)]


def test_one_record_whose_results_do_not_fit_stops_with_a_message_that_says_so(tmp_path, arrays_of_a_megabyte):
    builder = StreamsBuilder()
    builder.stream("in", value=bytes).flat_map_values(lambda value: [bytes(MB)] * 3, value=bytes).to("out")
    produce([("k", b"v", 1)], "in", value=bytes, log=tmp_path / "log")
    with pytest.raises(
        ProcessingError, match="one record, or the entries that it releases, makes results of more than 2 GiB"
    ):
        run(builder, tmp_path)


def closing_at_once(folder: Path, windows: Any) -> StreamsBuilder:
    """A topology whose input is there: four windows of a third of what fits, which one record closes."""
    for row in [*((f"k{n}", bytes(MB // 3), 1) for n in range(4)), ("k", b"", 100)]:
        produce([row], "in", value=bytes, log=folder / "log")
    builder = StreamsBuilder()
    windowed = builder.stream("in", value=bytes).group_by_key().windowed_by(windows)
    last = windowed.emit_strategy(EmitStrategy.on_window_close()).reduce(lambda one, other: other)
    last.to_stream(lambda window, value: window.key, key=str).to("out")
    return builder


def test_windows_that_close_at_one_record_go_out_in_pieces(tmp_path, arrays_of_a_megabyte):
    log = run(closing_at_once(tmp_path, TimeWindows.of_size_and_grace(10, 0)), tmp_path)
    assert [(record.key, len(record.value)) for record in consume("out", log=log)] == [
        (f"k{n}", MB // 3) for n in range(4)
    ]


def test_sessions_that_close_at_one_record_and_do_not_fit_stop_with_a_message_that_says_what_helps(
    tmp_path, arrays_of_a_megabyte
):
    builder = closing_at_once(tmp_path, SessionWindows.of_inactivity_gap_and_grace(5, 0))
    with pytest.raises(
        ProcessingError, match=r"nothing of this commit.*Where many windows close at one record, results"
    ):
        run(builder, tmp_path)


def test_updates_that_are_held_back_until_the_commit_are_held_once_for_each_key():
    changes = Changes(
        ValuesColumn(["a"] * 3, STR),
        ValuesColumn([bytes(MB)] * 2 + [b"last"], BYTES),
        np.arange(3),
        (np.arange(3),),
        old=ValuesColumn([b"first"] + [bytes(MB)] * 2, BYTES),
    )
    facts = TaskFacts(task="0_0", origin=lambda at: Origin("in", 0, at, None, None, 0))
    cache = EmitCache(True, Context(facts), KeyValueStore("kept"))
    for number in range(50):
        cache.add(replace(changes, order=(np.arange(3) + 3 * number,)))
    assert cache.held_bytes < 40 * MB
    sent = cache.flush()
    assert (sent.key.decoded(), sent.value.decoded(), sent.old.decoded()) == (["a"], [b"last"], [b"first"])


def test_counts_that_are_held_back_are_held_once_for_each_key_too():
    count = 10_000
    order = np.arange(count)
    keys, new = ValuesColumn(["a"] * count, STR), NumberColumn(order + 1, INT)
    changes = Changes(keys, new, order, (order,), old=NumberColumn(order, INT))
    facts = TaskFacts(task="0_0", origin=lambda at: Origin("in", 0, at, None, None, 0))
    context = Context(facts)
    cache = EmitCache(True, context, KeyValueStore("kept"))
    for number in range(200):
        cache.add(replace(changes, order=(order + count * number,)))
    assert 0 < context.held_records < 1_200_000
    sent = cache.flush()
    assert (sent.key.decoded(), sent.value.decoded()) == (["a"], [count])
    assert context.held_records == 0


def test_values_that_were_replaced_do_not_pile_up_in_memory_until_there_are_very_many():
    table = RowTable()
    rows = table.add(Keys(pa.array([b"key"], pa.binary())))
    for time in range(100):
        table.assign(rows, Values(pa.array([bytes(MB)], pa.binary()), np.array([time])))
        table.compact()
    assert table.nbytes < 60 * MB
    assert table.values(rows).timestamps.tolist() == [99]


@pytest.mark.parametrize("type_", [str, bytes, dict])
def test_rows_are_produced_in_pieces_of_some_megabytes(tmp_path, type_):
    value = {str: "x" * MB, bytes: bytes(MB), dict: {"text": "x" * MB}}[type_]
    rows = [("small", type_(), 0)] * 3000 + [("large", value, 1)] * 80
    assert produce(iter(rows), "t", value=type_, log=tmp_path) == 3080
    log = FileLog(tmp_path)
    pieces = list(log.read("t", 0, 0, 3080))
    assert max(piece.nbytes for piece in pieces) <= 34 * MB
    assert len(pieces) < 6
    assert sum(len(piece) for piece in pieces) == 3080
    assert [record.value for record in consume("t", log=log, start=3078)] == [value, value]


def test_columns_are_produced_in_pieces_of_some_megabytes(tmp_path):
    table = pa.table({"value": pa.array([b"s"] * 3000 + [bytes(MB)] * 80, pa.large_binary())})
    assert produce_columns(table, "t", value="value", log=tmp_path) == 3080
    assert max(piece.nbytes for piece in FileLog(tmp_path).read("t", 0, 0, 3080)) <= 34 * MB
