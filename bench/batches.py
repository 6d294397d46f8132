"""Topologies as batch jobs of Spark: what a million rows more cost, beside the live engine and Spark's own operators.

All of these read the same files of Parquet, but for those over a topic and the live engine, which read the file log,
and write into it. ``PENSTOCK_BENCH_ROWS`` says how many rows the larger run has, where there is no time for 20 million.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path

from bench import data
from bench.measure import Cost, run
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.spark import SparkOperators

FEW, MANY = 1_000_000, int(os.environ.get("PENSTOCK_BENCH_ROWS", "20_000_000"))
SEEDED = 5_000_000
ONE_OF = {"W1": "events", "W3": "events", "W7": "accounts"}
"""The workloads that are measured, and which records they read."""
LIVE = 1.3
"""How many times the live engine a batch may cost, over what Spark needs to move and show the rows."""

_Sizes = tuple[str, str, str, tuple[int, int]]


def measure(plan: Plan) -> Section:
    """What batches cost."""
    few, many = plan.size(FEW), plan.size(MANY)
    section = Section(
        "BATCH: topologies as batch jobs of Spark",
        f"Marginal CPU seconds per million rows of Parquet, {many:,} against {few:,}, all processes; a local session "
        "with two cores. The floor is the same DataFrame through repartition, sortWithinPartitions and a mapInArrow "
        "that gives its rows back; results are written as Parquet, as those of batches are. Live: the live engine over "
        "topics of the file log, every update. A batch of a topic is a commit of an application, into topics.",
    )
    runs: dict[tuple[str, str], list[float]] = defaultdict(list)
    memory: dict[str, list[int]] = defaultdict(list)
    jobs = [(mode, name) for name in ONE_OF for mode in ("batch", "topic", "live")]
    jobs += [("floor", name) for name in ("W1", "W7")] + [("count", "W1"), ("sessions", "W3")]
    for _ in range(plan.runs):
        for mode, name in jobs:
            costs = [_run(plan, mode, name, size) for size in (few, many)]
            runs[mode, name].append((costs[1].cpu - costs[0].cpu) / (many - few) * 1e6)
            if (mode, name) == ("batch", "W1"):
                for size, cost in zip(("few", "many"), costs, strict=True):
                    memory[size].append(_python_memory(cost))
    found = {job: median(every) for job, every in runs.items()}
    for (mode, name), every in runs.items():
        section.rows.append(Row(f"{name}, {_TITLES[mode]}", f"{found[mode, name]:.2f} CPU s", spread(every)))
    for name, source in ONE_OF.items():
        live, floor = found["live", name], found["floor", "W7" if source == "accounts" else "W1"]
        batch, topic = found["batch", name], found["topic", name]
        section.rows.append(at_most(f"{name}, batch", batch, floor + LIVE * live, "CPU s"))
        section.rows.append(at_most(f"{name}, topic / live", topic / live, LIVE))
    section.rows.append(at_most("W3 / session_window", found["batch", "W3"] / found["sessions", "W3"], 1.0))
    section.rows.append(
        at_most("memory of a Python worker, many / few", median(memory["many"]) / median(memory["few"]), 1.1)
    )
    return section


_TITLES = {
    "batch": "batch of Parquet",
    "topic": "batch of a topic",
    "live": "live engine",
    "floor": "floor of its rows",
    "count": "Spark's own count",
    "sessions": "Spark's own session_window",
}


def measure_seed(plan: Plan) -> Section:
    """What it costs to leave a checkpoint: as many keys as rows."""
    count = plan.size(SEEDED)
    section = Section("SEED: a batch that leaves a checkpoint", f"W9 over {count:,} rows, each with a key of its own.")
    costs: dict[str, list[float]] = defaultdict(list)
    for _ in range(plan.runs):
        for name, options in (("batch", []), ("seed", ["--seed"])):
            costs[name].append(_job(plan, "batch", "W9", str(_files(plan, "distinct", count)), options).cpu)
    for name, every in costs.items():
        section.rows.append(Row(name, f"{median(every):.1f} CPU s", spread(every, 1)))
    section.rows.append(at_most("seed / batch", median(costs["seed"]) / median(costs["batch"]), 1.3))
    return section


def _run(plan: Plan, mode: str, name: str, size: int) -> Cost:
    penstock = plan.penstock
    if mode in ("topic", "live"):
        source = data.fill_once(penstock.log, ONE_OF[name], size)
        if mode == "topic":
            return _job(plan, mode, name, source)
        penstock.clear("out")
        cost = run(penstock.job(name, [source]))
        plan.say(f"batch: live {name} {size:,}: {cost.cpu:.1f} CPU s")
        return cost
    return _job(plan, mode, name, str(_files(plan, ONE_OF[name], size)))


def _job(plan: Plan, mode: str, name: str, source: str, options: list[str] | None = None) -> Cost:
    work = str(plan.penstock.work)
    plan.penstock.clear("out")
    command = [sys.executable, "-m", "bench.batch_job", mode, name, source, "--work", work, *(options or [])]
    cost = run(command, timeout=3600)
    plan.say(f"batch: {mode} {name} {Path(source).name} {' '.join(options or [])}: {cost.cpu:.1f} CPU s")
    return cost


def _files(plan: Plan, name: str, count: int) -> Path:
    """A folder of Parquet files with so many records."""
    return SparkOperators(plan.penstock.work).filled(name, count)


def _python_memory(cost: Cost) -> int:
    """The most private memory of one of Spark's Python workers, in bytes."""
    return max(process.peak_private for process in cost.processes if process.is_worker)
