"""The program of ``program.py`` with the stores of ``every_kind.py``, which are read while it runs and is killed.

python readers.py FOLDER --fill N    make the input topic, of N records in each partition
python readers.py FOLDER --slots     process it in processes of its own, and look at the stores from inside
python readers.py FOLDER --on        the same without an end, and without a commit for an hour
python readers.py FOLDER --read      look at the stores again and again, until there is a file ``done`` in the folder
python readers.py FOLDER --prove N KILLS [--keep]    all of it: two readers, and a program that is killed so often

What a store holds after so many records of a partition is known. So each look is held against all states that a run
without kills goes through (``looking.py``): a committed look is the state of its commit's position, an uncommitted one
a state at this position or behind it. A row that is torn, missing, or left by a lost attempt is in none of them.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import harness
import looking
import numpy as np
import program
import pyarrow as pa
from every_kind import GLOBAL, PARTITIONS, SETTINGS, USERS, records_of, topology

from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog
from penstock.log.produce import produce

READERS = 2


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


def fill_global(log: FileLog, count: int) -> None:
    """One partition for each global table, which follows the other input: number ``n`` is row ``n``."""
    for name in GLOBAL:
        rows = [(f"g{n % USERS}", n, n) for n in range(count)]
        produce(rows, f"{name}-in", key=str, value=int, log=log, partitions=1)


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
    try:
        streams.await_termination()
    finally:  # the end of this process removes the stores that it looks at
        reading.end()


class Looked(NamedTuple):
    """What all readers together saw of a store.

    Attributes:
        committed: the commits that they looked at.
        uncommitted: how often they asked the running program.
        ahead: how often rows were there that no commit had.
    """

    committed: int
    uncommitted: int
    ahead: int


def prove(folder: Path, kills: int, seed: int = 6) -> dict[str, Looked]:
    """Have two processes read all stores at both levels while the program of a folder is killed so often, in parts or
    whole; fail with what was seen if it was no state of a run without kills."""
    others = [harness.Program(folder, "--read", Path(__file__)) for _ in range(READERS)]
    try:
        times = harness.run_to_the_end(folder, "--slots", ["driver", "slot"], kills, seed, Path(__file__))
        (folder / "done").touch()
        assert [one.wait() for one in others] == [True] * READERS, "".join(one.errors() for one in others)
    finally:
        for one in others:
            one.kill_what_is_left()
    assert times > kills // 3, f"killed only {times} times"
    assert not (folder / "wrong").exists(), (folder / "wrong").read_text()
    told = [json.loads(one.lines[-2]) for one in others]
    return {name: Looked(*map(sum, zip(*(one[name] for one in told), strict=True))) for name in told[0]}


def prove_and_tell(folder: Path, count: int, kills: int, keeps: bool) -> None:
    """The table of all kinds of stores and both levels."""
    seen = prove(harness.prepared(folder, count, Path(__file__)), kills)
    print(f"{'store':<24}{'commits':>9}{'uncommitted looks':>19}{'of these, ahead':>17}")
    for name, looked in seen.items():
        print(f"{name:<24}{looked.committed:>9}{looked.uncommitted:>19}{looked.ahead:>17}")
    print(f"{kills} kills, and no row that no run has written")
    if keeps:
        import figures

        about = (
            f"{READERS} processes read {len(seen)} kinds of stores at both isolation levels, and hold each look "
            f"against all states of a run without kills, while the program is killed {kills} times; by `make readers`. "
            "Each row has the commits that were looked at, the looks at what is not committed, and how many of "
            "these saw rows that no commit had."
        )
        rows = [figures.Row(name, ", ".join(map(str, looked))) for name, looked in seen.items()]
        figures.keep("READERS: every kind of store", about, [*rows, figures.none_differed("looks that")])


def main() -> None:
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    match mode:
        case "--fill":
            fill(FileLog(folder / "log"), int(sys.argv[3]))
            fill_global(FileLog(folder / "log"), int(sys.argv[3]))
        case "--read":
            looking.read(folder)
        case "--prove":
            prove_and_tell(folder, int(sys.argv[3]), int(sys.argv[4]), "--keep" in sys.argv)
        case "--on":
            run(folder, commit_interval="1 hour")
        case _:
            run(folder, trigger="available-now")
    print("done", flush=True)


if __name__ == "__main__":
    main()
