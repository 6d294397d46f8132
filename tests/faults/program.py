"""The program that crash tests kill: it processes what is there and ends.

python program.py FOLDER            run to the end
python program.py FOLDER --fill N   make the input topic first
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock import StreamsBuilder, TimeWindows, Topology
from penstock.arrays import partitions
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

SETTINGS = {
    "commit_max_bytes": 60_000,
    "chunk_records": 500,
    "flush_rows": 3_000,
    "flush_commits": 7,
    "snapshot_commits": 14,
}


def two_stages() -> Topology:
    """Counts by key in windows, and by another key behind a repartition; a table of the last values, grouped anew."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=dict)
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
    log.create_topic(TopicInfo("clicks", partition_count, "str", "json"))
    users = [f"user-{int(u)}".encode() for u in rng.zipf(1.3, count) % 500]
    pages = rng.integers(0, 30, count)
    clicks = [b'{"page":"page-%d","n":%d}' % (page, n) for n, page in enumerate(pages.tolist())]
    timestamp = np.maximum(np.arange(count) * 3 - rng.integers(0, 4_000, count) * (rng.random(count) < 0.1), 0)
    key, value = pa.array(users, pa.binary()), pa.array(clicks, pa.binary())
    placed = partitions(key, partition_count, 0)
    with log.writer("clicks", "fill") as writer:
        for partition in range(partition_count):
            rows = np.flatnonzero(placed == partition)
            for some in np.array_split(rows, 5):
                writer.write(
                    partition, key.take(pa.array(some)), value.take(pa.array(some)), timestamp[some], None, True
                )
    log.append("clicks", writer.segments())


def main() -> None:
    folder = Path(sys.argv[1])
    log = FileLog(folder / "log")
    if "--fill" in sys.argv:
        fill(log, int(sys.argv[3]))
    streams = two_stages().start(
        application_id="crash", log=log, state_dir=folder / "state", trigger="available-now", slots=2,
        on_progress=lambda progress: print("commit", progress.commit, flush=True), **SETTINGS,
    )  # fmt: skip
    streams.await_termination()
    print("done", flush=True)


if __name__ == "__main__":
    main()
