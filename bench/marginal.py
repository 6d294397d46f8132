"""Marginal cost: CPU seconds per million records of whole runs, without start-up and warm-up.

A workload is run over few and over many records; what the many cost more, by the records they are more, is the marginal
cost. Engines and sizes take turns, round by round, so that a busy moment of the machine meets all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from bench.digest import check
from bench.engines import Engine, Run
from bench.plan import Plan
from bench.report import Row, Section, at_least, at_most, median, spread
from bench.workloads import Inputs, Workload


def measure(plan: Plan, workload: Workload) -> Section:
    """The marginal cost of a workload with all engines."""
    engines = [plan.penstock, *(peer for peer in plan.peers if peer.runs(workload))]
    few, many = ({name: plan.size(count) for name, count in inputs.items()} for inputs in (workload.few, workload.many))
    promised = {engine.name: engine.at_least(workload) for engine in engines}
    measured = [(engine.name, engine, workload) for engine in engines]
    if workload.beside is not None:
        measured.append((workload.beside.title, plan.penstock, workload.beside))
    runs: dict[str, list[tuple[Run, Run]]] = defaultdict(list)
    for _ in range(plan.runs):
        for name, engine, job in measured:
            runs[name].append((_run(plan, engine, job, few), _run(plan, engine, job, many)))
    more = sum(many.values()) - sum(few.values())
    section = Section(workload.title, f"Marginal CPU seconds per million records: {_sizes(few)} and {_sizes(many)}.")
    costs = {name: _per_million(section, name, pairs, more) for name, pairs in runs.items()}
    own = costs.pop(plan.penstock.name)
    beside = costs.pop(workload.beside.title) if workload.beside is not None else 0.0
    for name, cost in costs.items():
        section.rows.append(_ratio(f"{name} / Penstock", cost, own, at_least, promised[name]))
    if workload.beside is not None:
        what = f"{workload.name} / {workload.beside.name}"
        section.rows.append(_ratio(what, own, beside, at_most, workload.at_most))
    return section


def _ratio(what: str, one: float, other: float, row: Callable[[str, float, float], Row], limit: float) -> Row:
    if min(one, other) <= 0:
        return Row(what, "lost in the noise: too few records or runs")
    return row(what, one / other, limit)


def _run(plan: Plan, engine: Engine, workload: Workload, inputs: Inputs) -> Run:
    run = engine.run(workload, inputs)
    is_known = check(
        engine.expected(workload), sum(inputs.values()), run.digest, workload.is_exact and not workload.cache
    )
    verdict = "output as expected" if is_known else f"output not checked: {run.digest}"
    plan.say(f"{workload.title}, {_sizes(inputs)}, {engine.name}: {run.cost.cpu:.1f} CPU s; {verdict}")
    return run


def _per_million(section: Section, engine: str, pairs: list[tuple[Run, Run]], more: int) -> float:
    """What a million records cost an engine, its broker apart; rows for the report."""
    few, many = zip(*pairs, strict=True)
    cost = (median(run.cost.cpu for run in many) - median(run.cost.cpu for run in few)) / more * 1e6
    every = [(large.cost.cpu - small.cost.cpu) / more * 1e6 for small, large in pairs]
    section.rows.append(Row(engine, f"{cost:.2f} CPU s", spread(every)))
    broker = (median(run.broker_cpu for run in many) - median(run.broker_cpu for run in few)) / more * 1e6
    if broker:
        section.rows.append(Row(f"{engine}, its broker besides", f"{broker:.2f} CPU s"))
    return cost


def _sizes(inputs: Inputs) -> str:
    return " + ".join(f"{count:,} {name}" for name, count in inputs.items())
