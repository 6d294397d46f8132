"""A suppression that spills to disk: the results of one without limits, within the memory it was given (KIP-328)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import BufferConfig, StreamsBuilder, Suppressed, TimeWindows, Topology, columnar
from penstock.arrays import Binary, IntArray
from penstock.dsl.suppressed import StrictBufferConfig
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.settings import Settings
from penstock.state.task_state import TaskState
from penstock.storage.base import LocalStorage
from support import logs

CHUNK = 500

Rows = tuple[Binary, Binary, IntArray]
"""Keys, values and timestamps."""


def noted(pieces: list[int] | None) -> Any:
    """A step that notes how many results come at once."""

    @columnar
    def note(key: Any, value: Any) -> Any:
        if pieces is not None:
            pieces.append(len(value))
        return value

    return note


def final_counts(buffer: StrictBufferConfig, pieces: list[int] | None = None) -> Topology:
    """Final counts of windows of a second, four hours later."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace("1 s", "4 hours")
    counts = builder.stream("in", value=str).group_by_key().windowed_by(windows).count("counts")
    final = counts.suppress(Suppressed.until_window_closes(buffer).with_name("final"))
    final.to_stream().map_values(noted(pieces), value=int).to("out")
    return builder.build()


def last_of_a_while(buffer: StrictBufferConfig, pieces: list[int] | None = None) -> Topology:
    """The last update of each key in four hours."""
    builder = StreamsBuilder()
    table = builder.table("in", value=str)
    last = table.suppress(Suppressed.until_time_limit("4 hours", buffer).with_name("final"))
    last.to_stream().map_values(noted(pieces), value=str).to("out")
    return builder.build()


class Measured:
    """One run over some records; what came out, and the most memory that the buffer held after a commit."""

    def __init__(self, topology: Topology, rows: Rows, folder: Path):
        log = MemoryLog()
        log.create_topic(TopicInfo("in", 1))
        settings = Settings.load(environment={}, chunk_records=CHUNK, commit_max_bytes=1 << 16)
        self.application = LocalApplication(
            topology, "spilling", settings, log, LocalStorage(folder / "checkpoint"), folder / "state"
        )
        self.most_bytes = self.most_rows = 0
        with log.writer("in", "fill") as writer:
            writer.write(0, *rows)
        log.append("in", writer.segments())
        ends = self.application.coordinator.end_offsets()
        while self.application.coordinator.step(ends) is not None:
            self.application.settle()
            self.note(self.application.host.tasks()[0].state)
        self.application.close()
        self.output = logs.rows(log, "out")

    def note(self, state: TaskState) -> None:
        buffer = state.stores["final-store"]
        self.most_bytes = max(self.most_bytes, buffer.nbytes)
        held = [family for name, family in buffer.families().items() if not name.endswith(":times")]
        self.most_rows = max(self.most_rows, sum(piece.present().size for piece in held))


def ten_hours() -> Rows:
    """Records of 50 keys, one for each second and a little out of order."""
    rng, count = np.random.default_rng(5), 36_000
    keys = pa.array([b"key-%d" % key for key in rng.integers(0, 50, count)], pa.binary())
    times = np.maximum(np.arange(count) * 1000 - rng.integers(0, 10_000, count), 0)
    return keys, values(count), times


def all_at_once() -> Rows:
    """Records of 30,000 keys within half an hour, each twice, and one a week later with which all of them are due."""
    count = 60_000
    keys = pa.array([b"key-%05d" % (n * 7919 % 30_000) for n in range(count)] + [b"last"], pa.binary())
    return keys, values(count + 1), np.append(np.arange(count) * 30, 7 * 86_400_000)


def values(count: int) -> Binary:
    return pa.array([b"%0100d" % n for n in range(count)], pa.binary())


@pytest.mark.slow
@pytest.mark.kip("328-07")
@pytest.mark.parametrize("build", [final_counts, last_of_a_while])
def test_ten_times_more_than_fits_gives_the_same_results_in_the_same_order(build, tmp_path: Path):
    unbounded = Measured(build(BufferConfig.unbounded()), ten_hours(), tmp_path / "unbounded")
    bound = unbounded.most_bytes // 10
    spills = BufferConfig.max_bytes(bound).spill_to_disk_when_full()
    bounded = Measured(build(spills), ten_hours(), tmp_path / "bounded")
    assert bounded.output == unbounded.output
    assert len(bounded.output) > 0
    assert bounded.most_bytes <= bound
    assert unbounded.most_bytes > bound


@pytest.mark.slow
@pytest.mark.kip("328-07")
def test_a_limit_of_records_spills_too(tmp_path: Path):
    unbounded = Measured(final_counts(BufferConfig.unbounded()), ten_hours(), tmp_path / "unbounded")
    spills = BufferConfig.max_records(1000).spill_to_disk_when_full()
    bounded = Measured(final_counts(spills), ten_hours(), tmp_path / "bounded")
    assert bounded.output == unbounded.output
    assert bounded.most_rows <= 1000
    assert unbounded.most_rows > 10_000


@pytest.mark.slow
@pytest.mark.kip("328-07")
@pytest.mark.parametrize("build", [final_counts, last_of_a_while])
def test_results_that_are_due_all_at_once_are_read_and_sent_on_in_pieces(build, tmp_path: Path):
    unbounded = Measured(build(BufferConfig.unbounded()), all_at_once(), tmp_path / "unbounded")
    pieces: list[int] = []
    spills = BufferConfig.max_records(1000).spill_to_disk_when_full()
    bounded = Measured(build(spills, pieces), all_at_once(), tmp_path / "bounded")
    assert bounded.output == unbounded.output
    assert len(bounded.output) >= 30_000
    assert sum(pieces) == len(bounded.output)
    assert max(pieces) <= 2 * 8192
    assert bounded.most_rows <= 1000
