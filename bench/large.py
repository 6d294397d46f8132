"""What large values cost: a backlog of 2.4 GB in values of 1 kB, 100 kB and 5 MB.

    python -m bench.large SIZE COUNT

Each is read from a topic, copied to another, and the last one of each key kept in a store, by the engine's own tasks in
one process. What is worked on at once is bounded by bytes, so the memory does not follow the values.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from penstock import StreamsBuilder, produce
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage

SIZES = {"1 kB": 1_000, "100 kB": 100_000, "5 MB": 5_000_000}
BYTES = 2_400_000_000
KEYS = 10
MIB = 1 << 20
LIMIT_MIB = 1_024


def measure(plan: Plan) -> Section:
    """CPU seconds for a gigabyte and private memory, for values of each size."""
    section = Section(
        "LARGE: values of 1 kB, 100 kB and 5 MB",
        f"A backlog of {plan.size(BYTES) / 1e9:.2g} GB: CPU seconds for a gigabyte to copy it into another topic and "
        "keep the last value of each key, and the private memory (without pages of files) at its peak.",
    )
    for name, size in SIZES.items():
        found = [_in_a_process(size, max(plan.size(BYTES) // size, 1)) for _ in range(plan.runs)]
        costs, peaks = [cost for cost, _ in found], [peak for _, peak in found]
        plan.say(f"values of {name}: {median(costs):.2f} CPU s a gigabyte")
        section.rows.append(Row(f"{name}, a gigabyte", f"{median(costs):.2f} CPU s", spread(costs)))
        section.rows.append(at_most(f"{name}, private memory", max(peaks), LIMIT_MIB, "MiB"))
    return section


def _in_a_process(size: int, count: int) -> tuple[float, float]:
    command = [sys.executable, "-m", __name__, str(size), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cost, peak = json.loads(done.stdout)
    return float(cost), float(peak)


def run(size: int, count: int) -> tuple[float, float]:
    """CPU seconds for a gigabyte, and the most private memory in MiB."""
    block = os.urandom(size)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = ((f"k{number % KEYS}", block, number) for number in range(count))
        produce(rows, "in", value=bytes, log=folder / "log")
        builder = StreamsBuilder()
        stream = builder.stream("in", value=bytes)
        stream.to("out")
        stream.to_table(store="last")
        log, storage = FileLog(folder / "log"), LocalStorage(folder / "checkpoint")
        application = LocalApplication(builder.build(), "large", Settings(), log, storage, folder / "tasks")
        peak, began = 0.0, time.process_time()
        for _ in _commits(application):
            peak = max(peak, _private_mib())
        spent = time.process_time() - began
        application.close()
    return spent / (size * count / 1e9), peak


def _commits(application: LocalApplication) -> Iterator[int]:
    while (done := application.coordinator.step(application.coordinator.end_offsets())) is not None:
        yield done.commit


def _private_mib() -> float:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
