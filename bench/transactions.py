"""What it costs that writes can be taken back: W1 with transactions, and with stores that only write.

python -m bench.transactions FOLDER COUNT
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench import data, reads
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from penstock.arrays import IntArray
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.state.columns.rows import Values
from penstock.state.transactional import TransactionalRows
from penstock.storage.base import LocalStorage

RECORDS = 1_000_000
ROUNDS = 5
LIMIT = 1.1


def measure(plan: Plan) -> Section:
    """The cost of W1 with and without, and their ratio."""
    records, work = plan.size(RECORDS), plan.penstock.work
    with TemporaryDirectory(dir=work) as folder:
        rounds = [reads.in_a_process(__name__, folder, str(records)) for _ in range(plan.runs)]
    found = {name: [costs[column] for costs in rounds] for column, name in enumerate(("with", "without"))}
    plan.say(f"transactions: {median(found['with']):.2f} and {median(found['without']):.2f} CPU s")
    section = Section(
        "TRANSACTIONS: W1 with and without them",
        f"CPU seconds for a million records of W1 (every update), {records:,} at a time in one process without Spark, "
        f"each way {ROUNDS} times in turn; of a process's rounds the cheapest counts. Without: nothing is kept of what "
        "a write replaces, so nothing can be rolled back; what was changed is noted all the same, for the changelog.",
    )
    for name, costs in found.items():
        section.rows.append(Row(f"{name} transactions", f"{median(costs):.2f} CPU s", spread(costs)))
    section.rows.append(at_most("with / without", median(found["with"]) / median(found["without"]), LIMIT))
    return section


def costs(folder: Path, records: int) -> list[float]:
    """CPU seconds for a million records with transactions, and without."""
    from bench.workloads import TOPOLOGIES

    log = FileLog(folder / "log")
    source = data.fill_once(log, "events", records)
    best = [float("inf"), float("inf")]
    for turn in range(2 * ROUNDS + 2):
        with nullcontext() if turn % 2 == 0 else without_undo(), TemporaryDirectory(dir=folder) as own:
            storage, settings = LocalStorage(Path(own) / "checkpoint"), Settings(statestore_cache_max_bytes=0)
            topology = TOPOLOGIES["W1"](source, f"out-{turn}")
            application = LocalApplication(topology, "bench", settings, log, storage, Path(own) / "state")
            began = time.process_time()
            application.run_until()
            spent = time.process_time() - began
            application.settle()  # there is nothing left to roll back
            application.close()
        log.delete_topic(f"out-{turn}")
        if turn >= 2:  # the first of each warms up
            best[turn % 2] = min(best[turn % 2], spent / records * 1e6)
    return best


@contextmanager
def without_undo() -> Iterator[None]:
    """Stores that only write."""
    put = TransactionalRows.put
    TransactionalRows.put = _only_put  # type: ignore[method-assign]
    try:
        yield
    finally:
        TransactionalRows.put = put  # type: ignore[method-assign]


def _only_put(self: TransactionalRows, rows: IntArray, values: Values) -> None:
    nothing = np.zeros(0, np.int64)
    self._undo.append((rows, (nothing, nothing), np.zeros(0, np.bool_)))
    self._table.assign(rows, values)
    self._dirty[rows] = True
    self.approximate_num_uncommitted_entries += len(rows)


if __name__ == "__main__":
    print(json.dumps(costs(Path(sys.argv[1]), int(sys.argv[2]))))
