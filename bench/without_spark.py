"""The same work by the local engine and in slots on Spark: what a record costs the driver and its two slots.

Spark's virtual machine is left out of the comparison. What a run costs in all counts all processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from bench import data
from bench.engines import Engine, Penstock, Run
from bench.marginal import Measured, cost_rows, ratio
from bench.measure import run
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.workloads import WORKLOADS, Inputs, Workload

SLOTS = 2
NAMES = ("W1", "W3")
AT_MOST, AT_MOST_IN_ALL = 1.0, 3.0


@dataclass
class OnEngine(Engine):
    """Penstock with two slots on an engine.

    Attributes:
        totals: by the size of the input, the CPU seconds of all processes of each run.
    """

    name: str
    penstock: Penstock
    engine: str
    scale: int = 1
    totals: dict[int, list[float]] = field(default_factory=dict)

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        log = self.penstock.log
        sources = [data.fill_once(log, name, count) for name, count in inputs.items()]
        self.penstock.clear("out")
        command = self.penstock.job(workload.name, sources, ["--slots", str(SLOTS)])
        cost = run(command, environment={"PENSTOCK_ENGINE": self.engine})
        self.totals.setdefault(sum(inputs.values()), []).append(cost.cpu)
        return self.penstock.without_jvm(workload, cost)


def measured() -> Iterator[Workload]:
    """What is run on both engines."""
    return (workload for workload in WORKLOADS if workload.name in NAMES and not workload.cache)


def measure(plan: Plan, workload: Workload) -> Section:
    """What a record costs by the local engine and in slots on Spark, and what a run costs in all."""
    section = Section(
        f"LOCAL-{workload.title}, without Spark and on it",
        f"Marginal CPU seconds per million records, of the driver and {SLOTS} slots; in all: all processes, from start "
        "to end.",
    )
    local, spark = (OnEngine(f"{workload.name}, {name}", plan.penstock, name) for name in ("local", "spark"))
    turns = [Measured.of(plan, engine, workload) for engine in (local, spark)]
    for _ in range(plan.runs):
        for each in turns:
            each.take_turn(plan)
    without, on_spark = (cost_rows(section, each) for each in turns)
    section.rows.append(ratio(f"{workload.name}, local / spark", without, on_spark, at_most, AT_MOST))
    for engine in (local, spark):
        size = min(engine.totals)
        what, found = f"{engine.name}, {size:,} records in all", engine.totals[size]
        row = Row(what, f"{median(found):.2f} CPU s")
        if engine is local:
            row = at_most(what, median(found), AT_MOST_IN_ALL, "CPU s")
        section.rows.append(replace(row, spread=spread(found)))
    return section
