"""A commit of 100 records, from the look that finds them until they can be read."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from bench import data
from bench.helper import Helper, answer
from bench.plan import Plan
from bench.report import Section, at_most, median, spread
from bench.workloads import w1
from penstock.engine.running.start import start
from penstock.engine.shared.progress import Progress
from penstock.log.file.log import FileLog

LIMIT_MS = 15.0
RECORDS = 100
WARM_UP, COMMITS = 40, 60


def measure(plan: Plan) -> Section:
    """How long commits of so few records take."""
    source = data.fill_once(plan.penstock.log, "events", RECORDS)
    millis: list[float] = []
    for _ in range(plan.runs):
        plan.penstock.clear("in-few", "out-few")
        helper = Helper([__name__, str(plan.penstock.work), source])
        try:
            helper.ask(WARM_UP)
            millis += helper.ask(COMMITS)
        finally:
            helper.end()
        plan.say(f"commits: {median(millis):.1f} ms")
    plan.penstock.clear("in-few", "out-few")
    section = Section(
        "COMMIT: a commit of 100 records",
        f"Milliseconds of a commit of W1 (every update), from the look that finds {RECORDS} records until what comes "
        f"of them can be read, {len(millis)} of them one by one.",
    )
    section.rows.append(replace(at_most("a commit", median(millis), LIMIT_MS, "ms"), spread=spread(millis)))
    return section


def main(work: Path, source: str) -> None:
    """Have so many commits of 100 records as are asked for; answers with how many milliseconds each took."""
    log = FileLog(work / "log")
    segments = data.copies(log, source, "in-few")
    took: list[float] = []

    def note(progress: Progress) -> None:
        took.append(progress.seconds * 1000)

    streams = start(
        w1("in-few", "out-few"),
        "few",
        log,
        on_progress=note,
        state_dir=work / "state" / "few",
        statestore_cache_max_bytes=0,
    )

    def commit(times: int) -> list[float]:
        for _ in range(times):
            log.append("in-few", segments)
            streams.process_all_available()
        return took[-times:]

    answer(commit)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
