"""A year of flights as a stream: feed it, run it, sum it up.

Run it: `python examples/flights/main.py [FOLDER]`; everything is kept in the folder, and made anew each time.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import feed
import summary
from penstock.engine.running.engine import choice_of
from penstock.figures.metrics import Metric
from penstock.settings import Settings
from topology import topology

COMMIT_BYTES = 1 << 20  # the whole year fits into one commit; small ones show how it goes on


def main(folder: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    shutil.rmtree(folder, ignore_errors=True)
    log = folder / "log"
    flights, left_out = feed.read()
    console.print(f"{len(flights) + left_out:,} flights left New York in 2013, or should have.")
    console.print(f"{left_out:,} were cancelled or diverted, or their time in the air is unknown: left out.")
    feed.fill(log, flights)
    metrics = run(console, log, folder / "state", len(flights))
    summary.show(console, log, len(flights), metrics)
    console.print(f"The topics are in {log}: flights went in, departures and aircraft came out. To read them:")
    for topic in ("departures", "aircraft"):
        console.print(f"  {penstock()} topics tail {topic} --log-dir {log}")


def penstock() -> str:
    """How to call the command line from here."""
    return "penstock" if shutil.which("penstock") else os.path.relpath(Path(sys.executable).parent / "penstock")


def run(console: Console, log: Path, state_dir: Path, records: int) -> Mapping[Metric, float]:
    """Process all that is in the log, and stop; the counters."""
    if choice_of(Settings.load(), None).name == "spark":  # a start without it says so itself
        console.print("Starting Spark ...")
    streams = topology.start(
        application_id="flights",
        log=log,
        state_dir=state_dir,
        commit_max_bytes=COMMIT_BYTES,
        trigger="available-now",
    )
    columns = TextColumn("flights"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=records)
        streams.on_progress(lambda progress: bar.update(task, completed=progress.total_records))
        streams.await_termination()
    return streams.metrics()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".penstock/demo"))
