"""Large values: how many are worked on at once is bounded by their bytes, and what does not fit into one Arrow array
goes in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, columnar, consume, produce
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage import LocalStorage

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
