"""Cold start: the time from the start of a program that has no state until its first output can be read."""

from __future__ import annotations

import time

from bench import data
from bench.plan import Plan
from bench.report import Row, Section, median, spread
from bench.running import running, wait_for

JOBS = {"W1": "W1, windowed counts", "W3": "W3, sessions, whose rules are compiled code"}
RECORDS = 100


def measure(plan: Plan) -> Section:
    """How long it takes for a topology without compiled rules and for one with them."""
    source = data.fill_once(plan.penstock.log, "events", RECORDS)
    seconds: dict[str, list[float]] = {name: [] for name in JOBS}
    for _ in range(plan.runs):
        for name, found in seconds.items():
            found.append(_first_output(plan, name, source))
            plan.say(f"cold start of {name}: {found[-1]:.2f} s")
    section = Section(
        "START: cold start",
        f"Seconds from the start of a process, which has no state, until its first output can be read; {RECORDS} "
        "records wait for it. The JVM, Spark and the slots start in them.",
    )
    section.rows += [Row(JOBS[name], f"{median(found):.2f} s", spread(found)) for name, found in seconds.items()]
    return section


def _first_output(plan: Plan, name: str, source: str) -> float:
    plan.penstock.clear("out")
    began = time.monotonic()
    with running(plan.penstock.job(name, [source], ["--live"])) as process:
        wait_for(process, plan.penstock.log, "out", 1)
        seconds = time.monotonic() - began
    plan.penstock.clear("out")
    return seconds
