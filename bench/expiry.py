"""What it costs to let go of a segment of windows, with few records in it and with many.

    python -m bench.expiry [RECORDS ...]

The records lie on disk, in the segment's column family, and are committed. Measured is all that happens when stream
time passes their retention: the store lets go of the segment, commits, and the next flush drops the family.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from penstock.serdes import INT
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.kinds.window import WindowStore

LIMIT = 2.0
FEW, MANY = 1_000, 1_000_000
CHUNK = 32_768
SEGMENT = 3_600_000
TIMES = 5
MILLISECOND = 1e-3


def measure(plan: Plan) -> Section:
    """The time that both take, and their ratio."""
    sizes = [FEW, plan.size(MANY)]
    millis: dict[int, list[float]] = {records: [] for records in sizes}
    for _ in range(plan.runs):
        for records, found in millis.items():
            found += expiries(records)
            plan.say(f"expiry of {records:,} records: {found[-1]:.1f} ms")
    section = Section(
        "EXPIRY: a segment of windows that expires",
        "Milliseconds until a segment is gone from the store and from disk, in which so many windows lie on disk.",
    )
    medians = [median(found) for found in millis.values()]
    for records, found in millis.items():
        section.rows.append(Row(f"{records:,} records", f"{median(found):.1f} ms", spread(found, 1)))
    section.rows.append(at_most("many / few", medians[1] / medians[0], LIMIT))
    return section


def expiries(records: int) -> list[float]:
    """How many milliseconds it takes to let go of a segment with so many records, several times."""
    found = []
    with tempfile.TemporaryDirectory(prefix="penstock-expiry-") as folder:
        database = Database(Path(folder))
        store = WindowStore("windows", retention=SEGMENT, segment_interval=SEGMENT)
        store.open(database)
        for segment in range(TIMES):
            fill(store, database, segment, records)
            began = time.perf_counter()
            store.advance((segment + 2) * SEGMENT)
            store.commit()
            store.flushed(database)
            found.append((time.perf_counter() - began) / MILLISECOND)
            if database.families():
                raise AssertionError(f"the segment is still there: {database.families()}")
        database.close()
    return found


def fill(store: WindowStore, database: Database, segment: int, records: int) -> None:
    """Write windows into a segment and have them on disk."""
    for first in range(0, records, CHUNK):
        number = np.arange(first, min(first + CHUNK, records))
        names = pc.binary_join_element_wise("user-", pc.cast(pa.array(number), "string"), "").cast("binary")
        times = segment * SEGMENT + number % SEGMENT
        store.put(store.locate(Keys(names, times)), Values(INT.encode_all([1] * len(number)), times))
        store.commit()
    database.write({name: piece.dirty_rows() for name, piece in store.families().items()}, {})
    store.flushed(database)
    store.evict(everything=True)


if __name__ == "__main__":
    for count in [int(argument) for argument in sys.argv[1:]] or [FEW, MANY]:
        print(f"{count:>12,} records in the segment: {median(expiries(count)):.1f} ms until it is gone", flush=True)
