"""The program of ``program.py`` with a topic that is written while it is read: counts, every one of them put out.

python live.py FOLDER --fill N     make the input topic, empty, for N records
python live.py FOLDER --produce    write what is missing of them, in many small appends
python live.py FOLDER --local      process them without Spark, and end when all are processed
python live.py FOLDER --slots      the same by the local engine
python live.py FOLDER --spark      the same on Spark
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import program
import pyarrow as pa

from penstock import StreamsBuilder, Topology
from penstock.arrays import partitions
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.serdes import INT
from penstock.storage.base import LocalStorage

PARTITIONS = 3
PIECE = 60
SETTINGS = {**program.SETTINGS, "statestore_cache_max_bytes": 0}


def topology() -> Topology:
    """How often each user clicked, and how often each page was clicked, behind a repartition."""
    builder = StreamsBuilder()
    clicks = builder.stream(program.INPUT, key=str, value=str)
    clicks.group_by_key().count("users").to_stream().to("users-out")
    clicks.group_by(lambda user, page: page, key=str).count("pages").to_stream().to("pages-out")
    return builder.build()


def clicks(count: int) -> tuple[list[str], list[str]]:
    """The users and pages of the same clicks every time."""
    rng = np.random.default_rng(11)
    users = [f"user-{n}" for n in (rng.zipf(1.4, count) % 200).tolist()]
    return users, [f"page-{n}" for n in rng.integers(0, 40, count).tolist()]


def produce(folder: Path) -> None:
    """Append what is missing, piece by piece: a repeated append of a piece does nothing, whoever was killed when."""
    log, count = FileLog(folder / "log"), int((folder / "log" / "count").read_text())
    users, pages = clicks(count)
    for number in range(log.last_sequence(program.INPUT, "producer") + 1, -(-count // PIECE)):
        some = slice(number * PIECE, (number + 1) * PIECE)
        keys, values = (pa.array([text.encode() for text in column[some]], pa.binary()) for column in (users, pages))
        times, placed = np.arange(len(keys)) + number * PIECE, partitions(keys, PARTITIONS, 0)
        with log.writer(program.INPUT, f"piece-{number}-{time.time_ns()}") as writer:
            for partition in np.unique(placed).tolist():
                rows = np.flatnonzero(placed == partition)
                taken = pa.array(rows)
                writer.write(partition, keys.take(taken), values.take(taken), times[rows], None, True)
        log.append(program.INPUT, writer.segments(), "producer", number)
        time.sleep(0.01)


def is_done(folder: Path, processed: list[int]) -> bool:
    return sum(processed) == int((folder / "log" / "count").read_text())


def run_local(folder: Path) -> None:
    storage, log = LocalStorage(folder / "state" / "checkpoint"), FileLog(folder / "log")
    known = program.settings(folder, **SETTINGS)
    app = LocalApplication(topology(), program.APPLICATION, known, log, storage, program.local_state(folder) / "tasks")
    while not is_done(folder, app.coordinator.offsets()[program.INPUT]):
        done = app.coordinator.step(app.coordinator.end_offsets())
        if done is None:
            time.sleep(0.02)
        else:
            print("commit", done.commit, flush=True)
    app.close()


def run_on_spark(folder: Path, engine: str = "spark") -> None:
    streams = topology().start(
        application_id=program.APPLICATION,
        log=folder / "log",
        state_dir=program.local_state(folder),
        checkpoint=str(folder / "state" / "checkpoint"),
        trigger="100 ms",
        slots=2,
        engine=engine,
        on_progress=lambda progress: print("commit", progress.commit, flush=True),
        **SETTINGS,
    )
    while not is_done(folder, streams.offsets()[program.INPUT]):
        if streams.await_termination(0.2):
            break
    streams.stop()


def run_in_slots(folder: Path) -> None:
    run_on_spark(folder, "local")


def expected(folder: Path) -> dict[str, Counter[str]]:
    users, pages = clicks(int((folder / "log" / "count").read_text()))
    return {"users-out": Counter(users), "pages-out": Counter(pages)}


def check(folder: Path, found: dict[str, Any]) -> None:
    """Every count from 1 on was put out once and in order, whatever happened."""
    for topic, counts in expected(folder).items():
        seen: dict[str, list[int]] = {}
        for place, rows in found.items():
            for key, value, _ in rows if place.startswith(f"{topic}[") else ():
                seen.setdefault(key.decode(), []).append(INT.decode(value))
        assert seen == {key: list(range(1, count + 1)) for key, count in counts.items()}, topic
        assert {row[0]: row[1] for row in found[topic.removesuffix("-out")]} == counts, topic


MODES = {"--local": run_local, "--slots": run_in_slots, "--spark": run_on_spark}


def main() -> None:
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        FileLog(Path(folder) / "log").create_topic(TopicInfo(program.INPUT, PARTITIONS, "str", "str"))
        (Path(folder) / "log" / "count").write_text(rest[0])
    else:
        {**MODES, "--produce": produce}[mode](Path(folder))
        print("done", flush=True)


if __name__ == "__main__":
    main()
