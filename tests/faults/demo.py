"""The demo as a program to kill: a year of flights, its own topology, the settings of ``program.py``.

python demo.py FOLDER --fill     make the input topic
python demo.py FOLDER --local    process it without Spark
python demo.py FOLDER --spark    process it on Spark
"""

from __future__ import annotations

import sys
from pathlib import Path

import program

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "flights"))  # a program with modules of its own

import feed
import topology as flights

SETTINGS = {"commit_max_bytes": 700_000, "chunk_records": 5_000, "flush_rows": 10_000}


def main() -> None:
    folder, mode, *_ = sys.argv[1:]
    if mode == "--fill":
        feed.fill(Path(folder) / "log", feed.read()[0])
        return
    run = program.MODES[mode]
    run(Path(folder), flights.topology, **SETTINGS)
    print("done", flush=True)


if __name__ == "__main__":
    main()
