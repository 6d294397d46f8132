"""Marginal cost: CPU seconds per million records of whole runs, without start-up and warm-up.

A workload is run over few and over many records; what the many cost more, by the records they are more, is the marginal
cost. Engines and sizes take turns, round by round, so that a busy moment of the machine meets all of them. What costs
little is run over more, or the difference would be lost in the noise (``Engine.scale``); not where state grows with the
input.

Beside it stands what a run over the fewest records costs in all, its start and its warm-up included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench.digest import check
from bench.engines import Engine, Run
from bench.plan import Plan
from bench.report import Row, Section, at_least, at_most, median, spread
from bench.workloads import Inputs, Workload


@dataclass
class Measured:
    """One engine with one workload: its inputs, and the runs over them, round by round.

    Attributes:
        total: the inputs whose runs count as a whole.
    """

    name: str
    engine: Engine
    workload: Workload
    total: Inputs
    few: Inputs
    many: Inputs
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, plan: Plan, engine: Engine, workload: Workload, name: str = "") -> Measured:
        few, many = ({name: plan.size(count) for name, count in given.items()} for given in workload.sizes)
        scale = 1 if workload.grows or workload.alone else engine.scale
        more = [{name: count * scale for name, count in inputs.items()} for inputs in (few, many)]
        return cls(name or engine.name, engine, workload, few, more[0], more[1])

    def take_turn(self, plan: Plan) -> None:
        for inputs in _distinct((self.total, self.few, self.many)):
            self.runs[_sizes(inputs)].append(_run(plan, self.engine, self.workload, inputs))

    def total_rows(self) -> list[Row]:
        runs, what = self.runs[_sizes(self.total)], f"{self.name}, all of {_sizes(self.total)}"
        cpu, seconds = [run.cost.cpu for run in runs], [run.cost.seconds for run in runs]
        return [
            Row(what, f"{median(cpu):.1f} CPU s", spread(cpu, 1)),
            Row(f"{what}, time", f"{median(seconds):.1f} s", spread(seconds, 1)),
        ]

    def per_million(self, cpu: Callable[[Run], float]) -> tuple[float, list[float]]:
        """What a million records more cost: by the medians, and in each round."""
        few, many = ([cpu(run) for run in self.runs[_sizes(inputs)]] for inputs in (self.few, self.many))
        more = (sum(self.many.values()) - sum(self.few.values())) / 1e6
        return (median(many) - median(few)) / more, [(b - a) / more for a, b in zip(few, many, strict=True)]

    def rate(self, section: Section) -> float:
        """Records a second behind the start and the first records; a row for the report."""
        seconds, every = self.per_million(lambda run: run.cost.seconds)
        if seconds <= 0:
            section.rows.append(Row(f"{self.name}, records a second", "lost in the noise: too few records or runs"))
            return 0.0
        section.rows.append(
            Row(
                f"{self.name}, records a second",
                f"{1e6 / seconds:,.0f}",
                spread(sorted(1e6 / one for one in every if one > 0), 0) if len(every) > 1 else "",
            )
        )
        return 1e6 / seconds


def measure(plan: Plan, workload: Workload) -> Section:
    """The marginal cost of a workload with all engines."""
    peers = [] if workload.alone else [peer for peer in plan.peers if peer.runs(workload)]
    engines = [plan.penstock, *peers]
    measured = [Measured.of(plan, engine, workload) for engine in engines]
    if (other := workload.beside) is not None:
        measured.append(Measured.of(plan, plan.penstock, other, other.title))
    for _ in range(plan.runs):
        for one in measured:
            one.take_turn(plan)
    section = Section(workload.title, _about(measured))
    costs = {one.name: cost_rows(section, one) for one in measured}
    own = costs.pop(plan.penstock.name)
    if other is not None:
        section.rows.append(
            ratio(f"{workload.name} / {other.name}", own, costs.pop(other.title), at_most, workload.at_most)
        )
    for engine in engines[1:]:
        promised = engine.at_least(workload)
        section.rows.append(ratio(f"{engine.name} / Penstock", costs[engine.name], own, at_least, promised))
    for one in measured[: len(engines)]:
        section.rows += one.total_rows()
    return section


def ratio(what: str, one: float, other: float, row: Callable[[str, float, float], Row], limit: float) -> Row:
    """A row that compares two figures."""
    if min(one, other) <= 0:
        return Row(what, "lost in the noise: too few records or runs")
    return row(what, one / other, limit)


def _run(plan: Plan, engine: Engine, workload: Workload, inputs: Inputs) -> Run:
    run = engine.run(workload, inputs)
    is_known = check(
        engine.expected(workload), sum(inputs.values()), run.digest, workload.is_exact and not workload.cache
    )
    verdict = "output as expected" if is_known else f"output not checked: {run.digest}"
    plan.say(
        f"{workload.title}, {_sizes(inputs)}, {engine.name}: {run.cost.cpu:.1f} CPU s; "
        f"{run.digest.records:,} results, {verdict}"
    )
    return run


def cost_rows(section: Section, measured: Measured) -> float:
    """What a million records cost an engine, its broker apart; rows for the report."""
    cost, every = measured.per_million(lambda run: run.cost.cpu)
    section.rows.append(Row(measured.name, f"{cost:.2f} CPU s", spread(every)))
    broker, _ = measured.per_million(lambda run: run.broker_cpu)
    if broker:
        section.rows.append(Row(f"{measured.name}, its broker besides", f"{broker:.2f} CPU s"))
    return cost


def _about(measured: list[Measured]) -> str:
    """Who ran over how many records: those that cost more over fewer, so that it does not take hours."""
    sizes: dict[str, list[str]] = defaultdict(list)
    for one in measured:
        sizes[f"{_sizes(one.few)} and {_sizes(one.many)}"].append(one.name)
    said = [f"{size} ({', '.join(dict.fromkeys(names))})" for size, names in sizes.items()]
    why = "; who costs more is run over fewer, or it would take too long" if len(said) > 1 else ""
    return f"Marginal CPU seconds per million records: {'; '.join(said)}{why}. All of: whole runs, from start to end."


def _distinct(inputs: Iterable[Inputs]) -> list[Inputs]:
    return list({_sizes(one): one for one in inputs}.values())


def _sizes(inputs: Inputs) -> str:
    return " + ".join(f"{count:,} {name}" for name, count in inputs.items())
