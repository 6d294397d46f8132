"""The program of ``program.py`` with window, session and versioned stores that a user brings, in every step.

python own_timed.py FOLDER --fill N   make the input topics, of N records in all
python own_timed.py FOLDER --local    process them without Spark; the file ``medium`` says where the stores keep rows
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # where the tests' own stores are

import program

from penstock import Topology
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from support.own_everywhere import TOPICS, everywhere, records

PARTITIONS = 2
SETTINGS = {
    "chunk_records": 7,
    "commit_max_bytes": 500,
    "hot_max_bytes": 1,  # no row stays in memory after its commit, so that the stores are asked
    "statestore_uncommitted_max_records": 60,
}


def topology(folder: Path) -> Topology:
    return everywhere((folder / "medium").read_text())[0]


def fill(log: FileLog, count: int) -> None:
    for topic in TOPICS:
        rows = [tuple(record) for to, *record in records(count) if to == topic]
        produce(rows, topic, key=str, value=str, log=log, partitions=PARTITIONS)


if __name__ == "__main__":
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    if mode == "--fill":
        fill(FileLog(folder / "log"), int(sys.argv[3]))
    else:
        program.MODES[mode](folder, topology(folder), **SETTINGS)
