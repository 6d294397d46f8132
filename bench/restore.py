"""Restore on an empty machine: the state of an application that ran elsewhere, opened from its checkpoint alone.

python -m bench.restore FOLDER COUNT
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from bench import reads
from bench.plan import Plan
from bench.report import Row, Section, median, spread

ROWS = 5_000_000
AT_LEAST = 1_000_000


def measure(plan: Plan) -> Section:
    """How many rows a core restores in a second."""
    rows = plan.size(ROWS)
    folder = plan.penstock.work / "restore"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        reads.in_a_process(reads.__name__, "fill", str(folder), str(rows))
        found = [reads.in_a_process(__name__, str(folder), str(rows)) for _ in range(plan.runs)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cores = [rate for rate, _ in found]
    seconds = [took for _, took in found]
    plan.say(f"restore: {median(cores):,.0f} rows a second and core")
    section = Section(
        "RESTORE: state on an empty machine",
        f"A store of {rows:,} counts in two tasks is opened from its checkpoint by a process without local state: rows "
        "by CPU seconds, which is a second and core, and the seconds it takes.",
    )
    rates = f"{min(cores):,.0f} to {max(cores):,.0f}" if len(cores) > 1 else ""
    limit = f"at least {AT_LEAST:,}"
    section.rows.append(Row("rows", f"{median(cores):,.0f} a second", rates, limit, median(cores) >= AT_LEAST))
    section.rows.append(Row("until all tasks are open", f"{median(seconds):.2f} s", spread(seconds)))
    return section


def restore(folder: Path, rows: int) -> list[float]:
    """Rows by CPU seconds, and seconds."""
    shutil.rmtree(folder / "tasks", ignore_errors=True)
    application = reads.opened(folder)
    began, spent = time.perf_counter(), time.process_time()
    application.settle()
    took, spent = time.perf_counter() - began, time.process_time() - spent
    application.close()
    return [rows / spent, took]


if __name__ == "__main__":
    print(json.dumps(restore(Path(sys.argv[1]), int(sys.argv[2]))))
