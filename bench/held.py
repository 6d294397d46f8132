"""What a record costs in a suppression that holds few keys, and in one that holds many.

    python -m bench.held [HELD ...]

Every record is a key of its own, a millisecond after the one before, so the time to wait says how many are held. Once
it is full, as many results go out as records come in. Only the suppression is measured.
"""

from __future__ import annotations

import sys
import time
from math import log2

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from penstock.columns.batch import Changes
from penstock.columns.column import BytesColumn, WindowedColumn
from penstock.engine.task.steps import Gathered
from penstock.ops.core.context import Context
from penstock.ops.core.failures import Origin
from penstock.ops.core.notes import TaskFacts
from penstock.ops.suppress.operator import Suppress
from penstock.ops.suppress.rules import Limits
from penstock.serdes import INT, STR, TimeWindowedSerde
from penstock.state.clock import StreamTime
from penstock.state.kinds.buffer import TimeOrderedBuffer

CHUNK = 32_768
CHUNKS = 12
SECOND = 1000
HELD = [10_000, 100_000, 1_000_000]


def measure(plan: Plan) -> Section:
    """The cost of a record with few and with many keys held, and their ratio."""
    sizes = [plan.size(held) for held in HELD]
    costs: dict[int, list[float]] = {held: [] for held in sizes}
    for _ in range(plan.runs):
        for held, found in costs.items():
            found.append(cpu_per_million(held))
            plan.say(f"suppress with {held:,} keys held: {found[-1]:.2f} CPU s for a million records")
    section = Section(
        "HELD: suppress with few and with many keys held",
        "CPU seconds of the suppression alone for a million records; as many results go out as records come in.",
    )
    medians = [median(found) for found in costs.values()]
    for held, found in costs.items():
        section.rows.append(Row(f"{held:,} keys held", f"{median(found):.2f} CPU s", spread(found)))
    limit = log2(sizes[-1]) / log2(sizes[0])
    section.rows.append(at_most("most / fewest", medians[-1] / medians[0], limit))
    return section


def updates(first: int) -> Changes:
    """A chunk of updates of windows of a second."""
    number = np.arange(first, first + CHUNK)
    start = number // SECOND * SECOND
    names = pc.binary_join_element_wise("user-", pc.cast(pa.array(number), "string"), "").cast("binary")
    keys = WindowedColumn(BytesColumn(names, STR), start, start + SECOND, TimeWindowedSerde(STR, SECOND))
    keys.encoded()
    none = BytesColumn(pa.nulls(CHUNK, pa.binary()), INT)
    return Changes(keys, BytesColumn(INT.encode_all([1] * CHUNK), INT), number, (number,), None, old=none)


def cpu_per_million(held: int) -> float:
    """CPU seconds for a million records in a suppression that holds so many."""
    facts = TaskFacts(task="0_0", origin=lambda at: Origin("in", 0, at, None, None, 0))
    context = Context(facts)
    buffer, clock = TimeOrderedBuffer("buffer", held, times_follow=True), StreamTime()
    suppress = Suppress("suppress", context, buffer, clock, True, Limits(), False, STR, INT)
    warm = held // CHUNK + 1
    spent = 0.0
    for chunk in range(warm + CHUNKS):
        batch = updates(chunk * CHUNK)
        began = time.process_time()
        suppress.step(batch, Gathered())
        buffer.commit()
        clock.commit()
        spent += time.process_time() - began if chunk >= warm else 0
    return spent / (CHUNKS * CHUNK) * 1e6


if __name__ == "__main__":
    for held in [int(count) for count in sys.argv[1:]] or HELD:
        print(f"{held:>12,} keys held: {cpu_per_million(held):.2f} CPU s for a million records", flush=True)
