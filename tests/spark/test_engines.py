"""A checkpoint moves between Spark and the local engine, in the middle of a run, and back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock import Progress, State, StreamsBuilder, Topology, consume, produce

pytestmark = pytest.mark.slow

KEYS, RECORDS = 5, 3_000
SIZES: dict[str, Any] = {"commit_max_bytes": 3_000, "chunk_records": 50, "statestore_cache_max_bytes": 0, "slots": 2}


def counting() -> Topology:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", value=int)
    counts = numbers.group_by(lambda key, number: number % KEYS, key=int).count("counts")
    counts.to_stream().to("counts")
    return builder.build()


def run_some_commits(engine: str, session: Any, commits: int) -> tuple[int, int]:
    """Run until that many commits are made; how many records these have read, and how many were left.

    From then on the listener holds the program after each commit until a second after it was told to stop, so that
    some are left.
    """
    is_enough, is_leaving = threading.Event(), threading.Event()
    read: list[Progress] = []

    def hear(progress: Progress) -> None:
        read.append(progress)
        if len(read) >= commits:
            is_enough.set()
            is_leaving.wait(120)

    def watch(new: State, _: State) -> None:
        if new == State.PENDING_SHUTDOWN:
            threading.Timer(1, is_leaving.set).start()

    with counting().start(
        "moves", engine=engine, spark=session, on_progress=hear, state_listener=watch, **SIZES
    ) as streams:
        assert streams.engine == engine
        assert is_enough.wait(120)
    return read[-1].total_records, read[-1].lag


def test_a_checkpoint_moves_between_the_engines_in_the_middle_of_a_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    produce([(None, number) for number in range(RECORDS)], "numbers", value=int, partitions=1)
    read = 0
    for engine in ("spark", "local", "spark", "local"):
        records, left = run_some_commits(engine, spark if engine == "spark" else None, 3)
        read += records
        assert read + left == RECORDS
        assert left > 0
    with counting().start("moves", engine="local", **SIZES) as streams:
        streams.process_all_available()
        assert {key: count for key, count, _ in streams.store("counts").all()} == dict.fromkeys(range(KEYS), 600)
    found: dict[int, list[int]] = {}
    for record in consume("counts"):
        found.setdefault(record.key, []).append(record.value)
    assert found == {key: list(range(1, RECORDS // KEYS + 1)) for key in range(KEYS)}
