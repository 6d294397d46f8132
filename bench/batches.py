"""Topologies as batch jobs of Spark: what a million rows more cost, beside the live engine and Spark's own operators.

All of these read the same files of Parquet, but for those over a topic and the live engine, which read the file log,
and write into it. ``PENSTOCK_BENCH_ROWS`` says how many rows the larger run has, where there is no time for 20 million.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

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

NOTHING: Mapping[str, str] = MappingProxyType({})


def measure(plan: Plan) -> Section:
    """What batches cost."""
    few, many = plan.size(FEW), plan.size(MANY)
    section = Section(
        "BATCH: topologies as batch jobs of Spark",
        f"Marginal CPU seconds per million rows of Parquet, {many:,} against {few:,}, all processes; a local session "
        "with two cores. The floor is the same DataFrame through repartition, sortWithinPartitions and a mapInArrow "
        "that gives its rows back; results are written as Parquet, as those of batches are. Live: the live engine over "
        "topics of the file log, every update. A batch of a topic is a commit of an application, into topics. Each "
        "session once: the default of batches, and what Spark's session_window gives.",
    )
    runs: dict[tuple[str, str], list[float]] = defaultdict(list)
    memory: dict[tuple[str, int], list[int]] = defaultdict(list)
    jobs = [(mode, name) for name in ONE_OF for mode in ("batch", "topic", "live")]
    jobs += [("floor", name) for name in ("W1", "W7")] + [("count", "W1"), ("last", "W3"), ("sessions", "W3")]
    for _ in range(plan.runs):
        for mode, name in jobs:
            costs = [_run(plan, mode, name, size) for size in (few, many)]
            runs[mode, name].append((costs[1].cpu - costs[0].cpu) / (many - few) * 1e6)
            if mode == "batch" and name != "W7":
                for size, cost in zip((few, many), costs, strict=True):
                    memory[name, size].append(_python_memory(cost))
    found = {job: median(every) for job, every in runs.items()}
    for (mode, name), every in runs.items():
        section.rows.append(Row(f"{name}, {_TITLES[mode]}", f"{found[mode, name]:.2f} CPU s", spread(every)))
    for name, source in ONE_OF.items():
        live, floor = found["live", name], found["floor", "W7" if source == "accounts" else "W1"]
        batch, topic = found["batch", name], found["topic", name]
        section.rows.append(at_most(f"{name}, batch", batch, floor + LIVE * live, "CPU s"))
        section.rows.append(at_most(f"{name}, topic / live", topic / live, LIVE))
    section.rows.append(at_most("W3, sessions / session_window", found["last", "W3"] / found["sessions", "W3"], 1.0))
    for name in ("W1", "W3"):
        growth = median(memory[name, many]) / median(memory[name, few])
        section.rows.append(at_most(f"{name}, memory of a Python worker, many / few", growth, 1.1))
    return section


_TITLES = {
    "batch": "batch of Parquet",
    "last": "batch of Parquet, each session once",
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


def measure_comet(plan: Plan) -> Section:
    """What batches cost with Comet, and without it on the same Spark."""
    few, many = plan.size(FEW), plan.size(MANY)
    section = Section(
        "COMET: batches with Apache DataFusion Comet",
        f"Marginal CPU seconds per million rows of Parquet, {many:,} against {few:,}, as in BATCH, with Spark 4.1.",
    )
    if COMET not in os.environ:
        plan.say(f"comet: left out: {COMET}=FOLDER{os.pathsep}JAR says where PySpark 4.1 and Comet are")
        return section
    folder, jar = os.environ[COMET].split(os.pathsep)
    settings = {"spark.jars": jar, "spark.driver.extraClassPath": jar} | _COMET
    runs: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for _ in range(plan.runs):
        for mode, name in (("floor", "W1"), ("batch", "W1"), ("batch", "W3"), ("last", "W3"), ("sessions", "W3")):
            for which, given in (("Spark alone", {}), ("Comet", settings)):
                costs = [_run(plan, mode, name, size, given, folder) for size in (few, many)]
                runs[mode, name, which].append((costs[1].cpu - costs[0].cpu) / (many - few) * 1e6)
    for (mode, name, which), every in runs.items():
        section.rows.append(Row(f"{name}, {_TITLES[mode]}, {which}", f"{median(every):.2f} CPU s", spread(every)))
    return section


COMET = "PENSTOCK_BENCH_COMET"
"""The variable with the folder of PySpark 4.1 and the jar of Comet."""

_COMET = {
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
    "spark.comet.exec.pyarrowUDF.enabled": "true",
    "spark.memory.offHeap.enabled": "true",
    "spark.memory.offHeap.size": "2g",
}


def _run(
    plan: Plan, mode: str, name: str, size: int, conf: Mapping[str, str] = NOTHING, spark: str | None = None
) -> Cost:
    penstock = plan.penstock
    if mode in ("topic", "live"):
        source = data.fill_once(penstock.log, ONE_OF[name], size)
        if mode == "topic":
            return _job(plan, mode, name, source)
        penstock.clear("out")
        cost = run(penstock.job(name, [source]))
        plan.say(f"batch: live {name} {size:,}: {cost.cpu:.1f} CPU s")
        return cost
    options = [f"--conf={key}={value}" for key, value in conf.items()]
    if mode == "last":
        mode, options = "batch", ["--last", *options]
    return _job(plan, mode, name, str(_files(plan, ONE_OF[name], size)), options, spark)


def _job(plan: Plan, mode: str, name: str, source: str, options: Sequence[str] = (), spark: str | None = None) -> Cost:
    work = str(plan.penstock.work)
    plan.penstock.clear("out")
    command = [sys.executable, "-m", "bench.batch_job", mode, name, source, "--work", work, *options]
    other = {} if spark is None else {"PYTHONPATH": spark, "SPARK_HOME": f"{spark}/pyspark"}
    cost = run(command, timeout=3600, environment=other)
    plan.say(f"batch: {mode} {name} {Path(source).name} {' '.join(options)}: {cost.cpu:.1f} CPU s")
    return cost


def _files(plan: Plan, name: str, count: int) -> Path:
    """A folder of Parquet files with so many records."""
    return SparkOperators(plan.penstock.work).filled(name, count)


def _python_memory(cost: Cost) -> int:
    """The most private memory of one of Spark's Python workers, in bytes."""
    return max(process.peak_private for process in cost.processes if process.is_worker)
