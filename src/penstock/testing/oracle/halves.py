"""Runs a case through the engine in two halves, between which the program changes without visible effect.

The changed program has unrelated steps in front, so all generated numbers after them change: those of steps, stores,
repartition topics and sub-topologies.
"""

from __future__ import annotations

from penstock import StreamsBuilder
from penstock.errors import PenstockError
from penstock.testing.cuts import CutDriver
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.chunks import run_cut
from penstock.testing.oracle.driver import settings_of
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Outcome, Runner


def in_front(builder: StreamsBuilder) -> None:
    """Declare steps unrelated to a case, with their own store and repartition topic."""
    stream = builder.stream("nothing-comes-here", value=str).filter(lambda key, value: True)
    stream.select_key(lambda key, value: value, key=str).group_by_key().count().to_stream().to("nothing-goes-here")


def runner(seed: int) -> Runner:
    """Return a runner of cases whose programs change in the middle, with cuts that follow from a seed.

    Metrics of steps, whose names change, are not compared.
    """

    def run(case: Spec) -> Outcome:
        case["expected"]["metrics"] = {}
        outcome = Outcome(dropped=[], reads=[], total_order=False)
        try:
            build, changed = Build(case), Build(case, in_front)
            topology, then = build.topology(), changed.topology()
        except PenstockError as error:
            outcome.error, outcome.error_when = error, "build"
            return outcome
        settings = settings_of(case) | {"emit_interval_ms": 0}
        with CutDriver(topology, f"{seed}-{case['name']}", **settings) as driver:
            run_cut(case, build, driver, outcome, lambda: driver.change(then))
        return outcome

    return run
