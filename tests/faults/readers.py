"""The program of ``program.py`` with the stores of ``every_kind.py``, which are read while it runs and is killed.

python readers.py FOLDER --fill N    make the input topic, of N records in each partition
python readers.py FOLDER --slots     process it in processes of its own, and look at the stores from inside
python readers.py FOLDER --on        the same without an end, and without a commit for an hour
python readers.py FOLDER --read      look at the stores again and again, until there is a file ``done`` in the folder

What a store holds after so many records of a partition is known. So each look is held against all states that a run
without kills goes through (``looking.py``): a committed look is the state of its commit's position, an uncommitted one
a state at this position or behind it. A row that is torn, missing, or left by a lost attempt is in none of them.
"""

from __future__ import annotations

import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import looking
import numpy as np
import program
import pyarrow as pa
from every_kind import PARTITIONS, SETTINGS, records_of, topology

from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog


def fill(log: FileLog, count: int) -> None:
    log.create_topic(TopicInfo(program.INPUT, PARTITIONS, "str", "int"))
    with log.writer(program.INPUT, "fill") as writer:
        for partition in range(PARTITIONS):
            keys, numbers = zip(*records_of(partition, count), strict=True)
            key = pa.array([key.encode() for key in keys], pa.binary())
            value = pa.array([n.to_bytes(8, "big") for n in numbers], pa.binary())
            writer.write(partition, key, value, np.array(numbers, np.int64), None, True)
    log.append(program.INPUT, writer.segments())
    (log.root / "count").write_text(f"{count}")


class Reading(threading.Thread):
    """Looks at the stores from inside of the running program, and writes down what was wrong."""

    def __init__(self, folder: Path, streams: Any):
        super().__init__(name="looks", daemon=True)
        self._folder, self._looker, self._is_over = folder, looking.Looker(folder, streams.stores()), threading.Event()

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._looker.look()
                with open(self._folder / "looked", "a") as looked:
                    looked.write(f"{self._looker.ahead.total()}\n")
        except BaseException:
            (self._folder / "wrong").write_text(traceback.format_exc())

    def end(self) -> None:
        self._is_over.set()
        self.join()


def run(folder: Path, **settings: Any) -> None:
    """Process the input, with somebody who looks on."""
    streams = topology().start(
        application_id=program.APPLICATION,
        engine="local",
        log=folder / "log",
        state_dir=program.local_state(folder),
        slots=2,
        on_progress=lambda progress: print("commit", progress.commit, flush=True),
        **{**program.SETTINGS, **SETTINGS, **settings},
    )
    reading = Reading(folder, streams)
    reading.start()
    streams.await_termination()
    reading.end()


def main() -> None:
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    match mode:
        case "--fill":
            fill(FileLog(folder / "log"), int(sys.argv[3]))
        case "--read":
            looking.read(folder)
        case "--on":
            run(folder, commit_interval="1 hour")
        case _:
            run(folder, trigger="available-now")
    print("done", flush=True)


if __name__ == "__main__":
    main()
