"""Memory: of a large run at its peak, and of slots that have many or few entries in their state."""

from __future__ import annotations

from bench import data
from bench.measure import Cost, run
from bench.plan import Plan
from bench.report import Row, Section


def measure(plan: Plan) -> Section:
    """What slots and all processes together take."""
    large = plan.size(5_000_000)
    source = data.fill_once(plan.penstock.log, "events", large)
    plan.penstock.clear("out")
    s = Section("MEMORY", "x")
    for opts in (
        [],
        [
            "--set",
            "hot_max_bytes=8000000",
            "--set",
            "statestore_uncommitted_max_bytes=8000000",
            "--set",
            "commit_max_bytes=32000000",
        ],
    ):
        cost = run(plan.penstock.job("W1", [source], opts))
        plan.penstock.clear("out")
        s.rows.append(
            Row(
                str(opts),
                str([(round(p.peak_private / 1e6), round(p.peak_rss / 1e6)) for p in cost.slots()]),
                str(cost.peak_private / 1e6),
            )
        )
    for entries in (plan.size(10000), large):
        c = _at_rest(plan, entries)
        s.rows.append(
            Row(str(entries), str([(round(p.peak_private / 1e6), round(p.peak_rss / 1e6)) for p in c.slots()]))
        )
    return s


def _at_rest(plan: Plan, entries: int) -> Cost:
    """What a run over a few records costs whose state has many entries."""
    plan.penstock.clear("in", "out")
    data.fill(plan.penstock.log, "in", data.distinct(entries))
    job = plan.penstock.job("W9", ["in"])
    run(job)
    data.produce(plan.penstock.log, "in", data.events(plan.size(100_000)))
    cost = run(job)
    plan.penstock.clear("in", "out")
    return cost
