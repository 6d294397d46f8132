"""Restart after kill -9 with few state entries and with many: the time until the first new output."""

from __future__ import annotations

import time

import numpy as np

from bench import data
from bench.digest import Digest, content, digest
from bench.measure import RunError
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.running import running, wait_for

LIMIT = 1.3
SIZES = 10_000, 1_000_000, 10_000_000
AGAIN = 1_000


def measure(plan: Plan) -> Section:
    """The time that each takes, and the ratio of the most to the fewest."""
    seconds: dict[int, list[float]] = {plan.size(entries): [] for entries in SIZES}
    for _ in range(plan.runs):
        for entries, found in seconds.items():
            found.append(_restart(plan, entries))
            plan.say(f"restart with {entries:,} entries: {found[-1]:.2f} s")
    section = Section(
        "W9: restart after kill -9",
        "Seconds from the start of the process until its first new output can be read. All processes were killed with "
        f"as many entries in the state as records read; then {AGAIN:,} of the same records came again, spread over all "
        "entries, and each had to count on: no state was wiped.",
    )
    medians = [median(found) for found in seconds.values()]
    for entries, found in seconds.items():
        section.rows.append(Row(f"{entries:,} entries", f"{median(found):.2f} s", spread(found)))
    section.rows.append(at_most("most / fewest", medians[-1] / medians[0], LIMIT))
    return section


def _restart(plan: Plan, entries: int) -> float:
    log = plan.penstock.log
    plan.penstock.clear("in", "out")
    columns = data.distinct(entries)
    data.fill(log, "in", columns)
    job = plan.penstock.job("W9", ["in"], ["--live"])
    _run_until(plan, job, entries)
    rows = np.linspace(0, entries - 1, AGAIN).astype(int)
    key, value, timestamp = (column.take(rows) for column in columns)
    data.produce(log, "in", (key, value, timestamp))
    first = _run_until(plan, job, entries + 1)
    _run_until(plan, job, entries + AGAIN)
    found, expected = digest(("w", "n"), content(log, "out")), Digest(entries + AGAIN, entries, entries + AGAIN)
    plan.penstock.clear("in", "out")
    if found != expected:
        raise RunError(f"after a restart with {entries:,} entries the output was {found}, but expected is {expected}")
    return first


def _run_until(plan: Plan, command: list[str], outputs: int) -> float:
    """Start a job and kill it when so many outputs are there; after how many seconds they were."""
    began = time.monotonic()
    with running(command) as process:
        wait_for(process, plan.penstock.log, "out", outputs)
        return time.monotonic() - began
