"""The program of ``program.py`` with another topology: events that were sent several times, each forwarded once.

python deduplication.py FOLDER --fill N          make the input topic
python deduplication.py FOLDER --local           process it without Spark
python deduplication.py FOLDER --spark           process it on Spark
python deduplication.py FOLDER --at-least-once   the same, with offsets recorded afterwards
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import program
import pyarrow as pa

from penstock import Deduplicated, StreamsBuilder, Topology
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

INTERVAL = "1 hour"
PARTITIONS = 4


def topology() -> Topology:
    """By key and id, and by the id alone."""
    builder = StreamsBuilder()
    events = builder.stream(program.INPUT, key=str, value=dict)
    events.deduplicate_by_key_value("id", INTERVAL, Deduplicated(store_name="by-key")).to("by-key-out")
    events.deduplicate("id", INTERVAL, Deduplicated(store_name="by-id")).to("by-id-out")
    return builder.build()


def fill(log: FileLog, count: int) -> None:
    """Events, a third of which come again up to 300 records later, in the partition in which they were."""
    rng = np.random.default_rng(7)
    log.create_topic(TopicInfo(program.INPUT, PARTITIONS, "str", "json"))
    with log.writer(program.INPUT, "fill") as writer:
        for partition in range(PARTITIONS):
            first = np.arange(partition, count, PARTITIONS)
            again = rng.choice(first, len(first) // 3)
            sent = np.concatenate([first, again + rng.integers(1, 300, len(again))])
            ids = np.concatenate([first, again])[np.argsort(sent, kind="stable")]
            key = pa.array([b"user-%d" % (id_ % 97) for id_ in ids.tolist()], pa.binary())
            value = pa.array([b'{"id":%d}' % id_ for id_ in ids.tolist()], pa.binary())
            writer.write(partition, key, value, np.sort(sent), None)
    log.append(program.INPUT, writer.segments())


def main() -> None:
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(FileLog(Path(folder) / "log"), int(rest[0]))
    elif mode in ("--spark", "--slots"):
        program.MODES[mode](Path(folder), topology())
    else:
        guarantee = "at_least_once" if mode == "--at-least-once" else "exactly_once"
        program.run_local(Path(folder), topology(), processing_guarantee=guarantee)


if __name__ == "__main__":
    main()
