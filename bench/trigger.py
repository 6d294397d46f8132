"""A steady trigger of 100 records, beside the same query whose job has nothing to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench import data
from bench.helper import Helper, answer
from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from bench.workloads import w1
from penstock.engine.spark.streams import Streams
from penstock.engine.work import StageWork
from penstock.log.file.log import FileLog
from penstock.settings import Settings

LIMIT = 1.6
KINDS = {"empty": "an empty job", "full": "100 records"}
RECORDS = 100
WARM_UP, TRIGGERS, ROUNDS = 40, 10, 6


def measure(plan: Plan) -> Section:
    """How long the triggers of both take, as Spark counts them, and their ratio."""
    source = data.fill_once(plan.penstock.log, "events", RECORDS)
    millis: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(plan.runs):
        plan.penstock.clear(*(f"{end}-{kind}" for kind in KINDS for end in ("in", "out")))
        helpers = {kind: Helper([__name__, kind, str(plan.penstock.work), source]) for kind in KINDS}
        try:
            for helper in helpers.values():
                helper.ask(WARM_UP)
            for _ in range(ROUNDS):
                for kind, helper in helpers.items():
                    millis[kind] += helper.ask(TRIGGERS)
        finally:
            for helper in helpers.values():
                helper.end()
        plan.say(f"trigger: {ROUNDS * TRIGGERS} of each")
    plan.penstock.clear(*(f"{end}-{kind}" for kind in KINDS for end in ("in", "out")))
    section = Section(
        "TRIGGER: a steady trigger of 100 records",
        f"Duration of a trigger of W1 (every update) as Spark has it, {len(millis['full'])} of each. The empty job is "
        "one of the same query on the same slots, with nothing to read, compute or commit.",
    )
    medians = {kind: median(values) for kind, values in millis.items()}
    for kind, label in KINDS.items():
        section.rows.append(Row(label, f"{medians[kind]:.0f} ms", spread(millis[kind], 0)))
    section.rows.append(at_most("100 records / empty", medians["full"] / medians["empty"], LIMIT))
    return section


class _EmptyJob(Streams):
    """A running application that does nothing in its micro-batches but ask its slots for nothing."""

    def _batch(self, _: Any, batch: int) -> None:
        assert self._coordinator.runner is not None
        self._coordinator.runner.run(StageWork(self.application_id, batch, "", []), "an empty job")


def main(kind: str, work: Path, source: str) -> None:
    """Have so many triggers of 100 records as are asked for; answers with how many milliseconds each took."""
    log = FileLog(work / "log")
    topic, sink = f"in-{kind}", f"out-{kind}"
    segments = data.copies(log, source, topic)
    settings = Settings.load(state_dir=work / "state" / kind, statestore_cache_max_bytes=0).resolved()
    application = _EmptyJob if kind == "empty" else Streams
    streams = application(w1(topic, sink), kind, settings, log, None, "50 ms", None, None)

    def trigger(times: int) -> list[float]:
        for _ in range(times):
            log.append(topic, segments)
            streams.process_all_available()
        durations = [progress["durationMs"] for progress in streams.query.recentProgress]
        return [millis["triggerExecution"] for millis in durations if "addBatch" in millis][-times:]

    answer(trigger)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
