"""The program that crash tests kill: it processes what is there and ends.

python program.py FOLDER --fill N   make the input topic
python program.py FOLDER --local    process it without Spark
python program.py FOLDER --beside   process it without Spark, each commit visible as late as may be
python program.py FOLDER --spark    process it on Spark
python program.py FOLDER --micro    process it in Spark's micro-batches

The variable STATE names another folder for local state than ``state``, as another machine has one, and CHECKPOINT the
URL of another place for commits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock import StreamsBuilder, TimeWindows, Topology, faults
from penstock.arrays import partitions
from penstock.engine.commit import loop
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import Storage
from penstock.storage.opening import open_storage

APPLICATION = "crash"
INPUT = "clicks"
SETTINGS = {
    "commit_max_bytes": 4_000,
    "chunk_records": 150,
    "flush_rows": 3_000,
    "flush_commits": 4,
    "snapshot_commits": 8,
}


def two_stages() -> Topology:
    """Counts by key in windows, and by another key behind a repartition; a table of the last values, grouped anew."""
    builder = StreamsBuilder()
    clicks = builder.stream(INPUT, key=str, value=dict)
    windows = TimeWindows.of_size_and_grace("10 s", "2 s")
    clicks.group_by_key().windowed_by(windows).count("by-user").to_stream().to("by-user-out")
    by_page = clicks.group_by(lambda user, click: click["page"])
    by_page.windowed_by(windows).aggregate(
        list, lambda page, click, seen: [*seen[-3:], click["n"]], store="by-page"
    ).to_stream().to("by-page-out")
    last = clicks.map_values(lambda click: click["page"], value=str).to_table("last-page")
    last.group_by(lambda user, page: (page, user), value=str).count("users").to_stream().to("users-out")
    return builder.build()


def fill(log: FileLog, count: int, partition_count: int = 4) -> None:
    """The same clicks every time: some disorder, a few keys that come often."""
    rng = np.random.default_rng(7)
    log.create_topic(TopicInfo(INPUT, partition_count, "str", "json"))
    users = [f"user-{int(u)}".encode() for u in rng.zipf(1.3, count) % 500]
    pages = rng.integers(0, 30, count)
    clicks = [b'{"page":"page-%d","n":%d}' % (page, n) for n, page in enumerate(pages.tolist())]
    timestamp = np.maximum(np.arange(count) * 3 - rng.integers(0, 4_000, count) * (rng.random(count) < 0.1), 0)
    key, value = pa.array(users, pa.binary()), pa.array(clicks, pa.binary())
    placed = partitions(key, partition_count, 0)
    with log.writer(INPUT, "fill") as writer:
        for partition in range(partition_count):
            rows = np.flatnonzero(placed == partition)
            for some in np.array_split(rows, 5):
                writer.write(
                    partition, key.take(pa.array(some)), value.take(pa.array(some)), timestamp[some], None, True
                )
    log.append(INPUT, writer.segments())


def settings(folder: Path, **more: Any) -> Settings:
    return Settings.load(environment={}, state_dir=folder / "state", **{**SETTINGS, **more})


def local_state(folder: Path) -> Path:
    """Where databases are kept; commits are in the same place whatever this is."""
    return folder / os.environ.get("STATE", "state")


def checkpoint(folder: Path) -> Storage:
    """Where commits lie."""
    return open_storage(os.environ.get("CHECKPOINT", str(folder / "state" / "checkpoint")))


def run_local(folder: Path, topology: Topology | None = None, **more: Any) -> None:
    """All commits in this process."""
    storage = checkpoint(folder)
    log = FileLog(folder / "log")
    known = settings(folder, **more)
    app = LocalApplication(topology or two_stages(), APPLICATION, known, log, storage, local_state(folder) / "tasks")
    ends = app.coordinator.end_offsets()
    while (done := app.coordinator.step(ends)) is not None:
        print("commit", done.commit, flush=True)
    app.close()


def run_beside(folder: Path) -> None:
    """All commits of a loop in this process; nothing is published until the next commit waits for it."""
    is_awaited = threading.Event()

    def hear(point: str) -> None:
        if point == "awaits-publish":
            is_awaited.set()
        elif point == "before-publish" and "publishes" in threading.current_thread().name:
            is_awaited.wait(60)
            is_awaited.clear()

    log = FileLog(folder / "log")
    app = LocalApplication(
        two_stages(), APPLICATION, settings(folder), log, checkpoint(folder), local_state(folder) / "tasks"
    )
    faults.listener = hear
    loop.MOST_SECONDS_BESIDE = 60.0
    commits = loop.CommitLoop(app.coordinator, 0.0, True, lambda done, _: print("commit", done.commit, flush=True))
    commits.start()
    commits.wait()
    app.close()
    if commits.error is not None:
        raise commits.error


def run_on_spark(
    folder: Path, topology: Topology | None = None, is_done: Callable[[], bool] | None = None, **more: Any
) -> None:
    """All commits on two slots.

    Args:
        is_done: says when a program ends whose input has no end.
    """
    end = {"trigger": "available-now"} if is_done is None else {}
    usual = {"application_id": APPLICATION, "log": folder / "log", **SETTINGS, **end}
    streams = (topology or two_stages()).start(
        state_dir=local_state(folder),
        checkpoint=checkpoint(folder).url,
        slots=2,
        spark=session(),
        on_progress=lambda progress: print("commit", progress.commit, flush=True),
        **{**usual, **more},
    )
    while is_done is not None and not is_done():
        streams.await_termination(timeout=0.1)
    if is_done is not None:
        streams.stop()
    streams.await_termination()


def run_in_slots(folder: Path, topology: Topology | None = None, **more: Any) -> None:
    """The same without Spark."""
    run_on_spark(folder, topology, engine="local", **more)


def run_in_micro_batches(folder: Path, topology: Topology | None = None, **more: Any) -> None:
    """All commits as short jobs of Spark."""
    run_on_spark(folder, topology, engine="micro-batch", **more)


def session() -> Any:
    """A session on what the variable SPARK_MASTER names, a master or a Connect server; None for Penstock's own."""
    master = os.environ.get("SPARK_MASTER")
    if not master:
        return None
    from pyspark.sql import SparkSession

    if master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
    return builder.config("spark.log.level", "OFF").getOrCreate()


MODES = {"--local": run_local, "--slots": run_in_slots, "--spark": run_on_spark, "--micro": run_in_micro_batches}
"""How a program can run: in one process, in slots of this machine, in slots on Spark, in micro-batches."""


def main() -> None:
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(FileLog(Path(folder) / "log"), int(rest[0]))
    else:
        {**MODES, "--beside": run_beside}[mode](Path(folder))
        print("done", flush=True)


if __name__ == "__main__":
    main()
