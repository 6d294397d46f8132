"""What a program costs that has nothing to do."""

from __future__ import annotations

import time
from dataclasses import replace

from bench import data
from bench.measure import Sampler
from bench.plan import Plan
from bench.report import Section, at_most, median, spread
from bench.running import check, running, wait_for

RECORDS = 100
SETTLING, SECONDS = 20, 60
LIMIT = 1.2
"""Two percent of a core."""


def measure(plan: Plan) -> Section:
    """CPU seconds a minute of a program whose topics get no records."""
    seconds = plan.size(SECONDS)
    source = data.fill_once(plan.penstock.log, "events", RECORDS)
    costs = []
    for _ in range(plan.runs):
        costs.append(_idle(plan, source, seconds) * 60 / seconds)
        plan.say(f"idle: {costs[-1]:.2f} CPU s a minute")
    section = Section(
        "IDLE: a program that has nothing to do",
        f"CPU seconds a minute of W1 (every update) that has processed {RECORDS} records and waits for more, "
        f"measured over {seconds} s after {SETTLING} s: the driver, the JVM and the slots.",
    )
    section.rows.append(replace(at_most("a minute", median(costs), LIMIT, "CPU s"), spread=spread(costs)))
    return section


def _idle(plan: Plan, source: str, seconds: float) -> float:
    plan.penstock.clear("out")
    with running(plan.penstock.job("W1", [source], ["--live"])) as process:
        wait_for(process, plan.penstock.log, "out", 1)
        time.sleep(SETTLING)
        sampler = Sampler(process.pid)  # which counts those that end meanwhile, too
        sampler.sample()
        before = sampler.cpu
        time.sleep(seconds)
        sampler.sample()
        used = sampler.cpu - before
        check(process)
    plan.penstock.clear("out")
    return used
