"""What a program that reads another's committed state gets: look-ups by key, one after the other, in its own process.

python -m bench.reads fill FOLDER COUNT
python -m bench.reads read FOLDER COUNT
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import penstock
from bench import data
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from penstock import StreamsBuilder, Topology
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

ROWS = 1_000_000
READS, WARM_UP = 200_000, 20_000
AT_LEAST, AT_MOST_MS = 50_000, 0.1


def measure(plan: Plan) -> Section:
    """How many look-ups a second, and how long the slowest of a hundred take."""
    rows = plan.size(ROWS)
    folder = plan.penstock.work / "reads"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _ask("fill", folder, rows)
        found = [_ask("read", folder, rows) for _ in range(plan.runs)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rate, p99, opening = (list(values) for values in zip(*found, strict=True))
    plan.say(f"reads: {median(rate):,.0f} a second")
    section = Section(
        "GET: look-ups in committed state",
        f"{READS:,} calls of get, one after the other, for keys at random, in a store of {rows:,} counts that another "
        "process has committed; each call shows the newest commit. Opening takes a copy of the store.",
    )
    limit = f"at least {AT_LEAST:,}"
    rates = f"{min(rate):,.0f} to {max(rate):,.0f}" if len(rate) > 1 else ""
    section.rows.append(Row("get", f"{median(rate):,.0f} a second", rates, limit, median(rate) >= AT_LEAST))
    section.rows.append(at_most("get, p99", median(p99), AT_MOST_MS, "ms"))
    section.rows.append(Row("open_store, until the first get", f"{median(opening):.2f} s", spread(opening)))
    return section


def _ask(what: str, folder: Path, rows: int) -> list[float]:
    return in_a_process(__name__, what, str(folder), str(rows))


def in_a_process(module: str, *arguments: str) -> list[float]:
    """The figures that a module prints, run as a program of its own."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], check=True, capture_output=True, text=True)
    answer: list[float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def counts() -> Topology:
    """The last count of each key."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=bytes).group_by_key().count("counts")
    return builder.build()


def fill(folder: Path, rows: int) -> list[float]:
    """Count as many keys as there are rows, and end."""
    data.fill(FileLog(folder / "log"), "in", data.distinct(rows))
    application = opened(folder)
    application.run_until()
    application.close()
    return []


def opened(folder: Path) -> LocalApplication:
    """The application that counts."""
    log, storage = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
    return LocalApplication(counts(), "reads", Settings(), log, storage, folder / "tasks")


def read(folder: Path, rows: int) -> list[float]:
    """Look-ups a second, the 99th percentile in milliseconds, and the seconds until the first."""
    chosen = random.Random(9)
    keys = [f"user-{chosen.randrange(rows):07d}" for _ in range(READS)]
    began = time.perf_counter()
    with penstock.open_store(folder / "checkpoint", "counts") as view:
        store: Any = view
        get = store.get
        assert get(keys[0]) == 1
        opening = time.perf_counter() - began
        for key in keys[:WARM_UP]:
            get(key)
        began = time.perf_counter()
        for key in keys:
            get(key)
        rate = READS / (time.perf_counter() - began)
        took = np.zeros(READS, np.int64)
        for number, key in enumerate(keys):
            before = time.perf_counter_ns()
            get(key)
            took[number] = time.perf_counter_ns() - before
    return [rate, float(np.percentile(took, 99)) / 1e6, opening]


if __name__ == "__main__":
    mode = {"fill": fill, "read": read}[sys.argv[1]]
    print(json.dumps(mode(Path(sys.argv[2]), int(sys.argv[3]))))
