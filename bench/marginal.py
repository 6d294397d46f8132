"""Marginal cost: CPU seconds per million records of whole runs, without start-up and warm-up.

Every workload is run over few and over many records; what the many cost more, by the records they are more, is the
marginal cost. Engines and sizes take turns, round by round, so that a busy moment of the machine meets all of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from bench import data
from bench.engines import Engine, Run
from bench.expected import check
from bench.plan import Plan
from bench.report import Row, Section, at_least, median, spread


@dataclass(frozen=True)
class Case:
    """A workload as it is measured.

    Attributes:
        least: how many times less than Kafka Streams it has to cost; 0 where nothing is promised.
        peers: whether other engines have it.
    """

    workload: str
    label: str
    cache: bool = False
    least: float = 0
    peers: bool = True


CASES = (
    Case("PASS", "PASS, topic to topic", peers=False),
    Case("W0", "W0, filter and project"),
    Case("W1", "W1, windowed count, every update", least=7),
    Case("W1", "W1, windowed count, last update per commit", cache=True, least=10),
    Case("W7", "W7, table aggregate", least=7),
)

Runs = dict[tuple[Case, str, int], list[Run]]
"""By case, engine and number of records."""


def measure(plan: Plan) -> Section:
    """All cases with all engines that have them."""
    runs: Runs = defaultdict(list)
    for number in range(plan.runs):
        for case in CASES:
            for records in _sizes(plan, case):
                for engine in _engines(plan, case):
                    run = _run(plan, engine, case, records, is_first=number == 0)
                    runs[case, engine.name, records].append(run)
                    plan.say(f"{number + 1}/{plan.runs} {case.label}, {records:,}: {engine.name} {run.cost.cpu:.1f} s")
    section = Section(
        "Marginal cost",
        "CPU seconds of all processes per million records: (the larger run - the smaller run) / the difference, "
        "medians. Outputs were compared with what they have to be.",
    )
    for case in CASES:
        section.rows += _rows(plan, case, runs)
    return section


def _run(plan: Plan, engine: Engine, case: Case, records: int, is_first: bool) -> Run:
    engine.prepare(case.workload, records)
    run = engine.run(case.workload, records, cache=case.cache, with_digest=is_first)
    if run.digest is not None:
        check(case.workload, records, case.cache, run.digest, plan.penstock.log)
    return run


def _sizes(plan: Plan, case: Case) -> tuple[int, int]:
    return plan.sizes.accounts if data.set_of(case.workload) == "accounts" else plan.sizes.events


def _engines(plan: Plan, case: Case) -> list[Engine]:
    return [plan.penstock, *(plan.peers if case.peers else [])]


def _rows(plan: Plan, case: Case, runs: Runs) -> list[Row]:
    rows = []
    costs: dict[str, float] = {}
    for engine in _engines(plan, case):
        small, large = _sizes(plan, case)
        few, many = runs[case, engine.name, small], runs[case, engine.name, large]
        every = _per_million([run.cost.cpu for run in few], [run.cost.cpu for run in many], large - small)
        costs[engine.name] = cost = every.pop()
        rows.append(Row(f"{case.label}: {engine.name}", f"{cost:.2f} CPU s", spread(every)))
        if broker := _per_million([run.broker_cpu for run in few], [run.broker_cpu for run in many], large - small)[-1]:
            rows.append(Row(f"{case.label}: its broker, not counted above", f"{broker:.2f} CPU s"))
    own = costs.pop(plan.penstock.name)
    for name, cost in costs.items():
        what, times = f"{case.label}: {name} / Penstock", cost / max(own, 0.001)
        rows.append(at_least(what, times, case.least) if case.least else Row(what, f"{times:.1f} times"))
    return rows


def _per_million(few: list[float], many: list[float], more: int) -> list[float]:
    """What a million records cost more, for each round, and last for the medians."""
    pairs = [*zip(few, many, strict=True), (median(few), median(many))]
    return [(large - small) / more * 1e6 for small, large in pairs]
