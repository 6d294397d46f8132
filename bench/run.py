"""Runs the benchmark: `python -m bench.run [WORKLOAD]...`, or `make bench`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from bench import (
    batches,
    commits,
    executors,
    expiry,
    held,
    history,
    idle,
    kafka,
    kafka_latency,
    kafka_restart,
    large,
    latency,
    lost,
    marginal,
    memory,
    on_kafka,
    page,
    passthrough,
    reads,
    remembered,
    report,
    restart,
    restore,
    serve,
    starts,
    tasks,
    transactions,
    versions,
    without_spark,
)
from bench.engines import Penstock
from bench.measure import RunError
from bench.plan import Plan
from bench.report import Section
from bench.spark import SparkOperators
from bench.workloads import WORKLOADS

MEASUREMENTS: list[tuple[str, Callable[[Plan], Section]]] = [
    ("PASS", passthrough.measure),
    *((workload.name, partial(marginal.measure, workload=workload)) for workload in WORKLOADS),
    *((f"KAFKA-{workload.name}", partial(on_kafka.measure, workload=workload)) for workload in on_kafka.measured()),
    ("BATCH", batches.measure),
    ("COMET", batches.measure_comet),
    ("SEED", batches.measure_seed),
    ("VERSIONS", versions.measure),
    ("STORE", remembered.measure),
    ("W8", latency.measure),
    ("KAFKA-W8", kafka_latency.measure),
    ("KAFKA-W9", kafka_restart.measure),
    ("W9", restart.measure),
    ("RESTORE", restore.measure),
    ("TRANSACTIONS", transactions.measure),
    ("START", starts.measure),
    ("CONNECT", starts.measure_connect),
    ("WHOLE", starts.measure_whole),
    ("GET", reads.measure),
    ("SERVE", serve.measure),
    ("PAGE", page.measure),
    ("IDLE", idle.measure),
    ("COMMIT", commits.measure),
    ("TASKS", tasks.measure),
    *(
        (f"EXECUTORS-{workload.name}", partial(executors.measure, workload=workload))
        for workload in executors.measured()
    ),
    *(
        (f"LOCAL-{workload.name}", partial(without_spark.measure, workload=workload))
        for workload in without_spark.measured()
    ),
    ("LOST", lost.measure),
    ("MEMORY", memory.measure),
    ("HELD", held.measure),
    ("LARGE", large.measure),
    ("EXPIRY", expiry.measure),
]
NAMES = sorted({name for name, _ in MEASUREMENTS})
FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.jsonl"
PEERS = "PENSTOCK_BENCH_PEERS"


@click.command()
@click.argument("workloads", nargs=-1, type=click.Choice(NAMES, case_sensitive=False))
@click.option("--runs", default=3, show_default=True, help="How often everything is measured; medians count.")
@click.option("--quick", is_flag=True, help="A tenth of the records, to see that it works; nothing is kept.")
@click.option(
    "--work", type=click.Path(path_type=Path), default=FOLDER / "runs", help="The folder for topics and state."
)
def main(workloads: tuple[str, ...], runs: int, quick: bool, work: Path) -> None:
    """Measure WORKLOADS, by default all; print a table, and what became slower or faster since the last time.

    Results are kept in bench/results.jsonl, by commit, and the newest in bench/RESULTS.md; so a tree with changes is
    refused.

    Where Spark has an operator for the same it is measured beside it; with PENSTOCK_BENCH_PEERS, the folder of a peers'
    harness, so is Kafka Streams.
    """
    console = Console(width=None if sys.stdout.isatty() else 120)
    if not quick and (changed := report.changes()):
        raise click.ClickException(
            f"the tree has changes ({', '.join(line[3:] for line in changed[:5])}), and results are kept by commit; "
            "commit them, or use --quick, which keeps nothing"
        )
    sections = []
    trends: list[str] = []
    try:
        with kafka.beside(os.environ.get(PEERS)) as peers:
            plan = Plan(
                Penstock(work),
                [*peers, SparkOperators(work)],
                runs,
                quick,
                lambda text: console.print(text, style="dim"),
            )
            for name, measure in MEASUREMENTS:
                if not workloads or name in workloads:
                    sections.append(measure(plan))
                    if not quick:
                        trends += keep(sections[-1], runs)
    except RunError as error:
        raise click.ClickException(str(error)) from error
    finally:
        if sections:
            console.print(report.table(sections))
        for text in trends:
            console.print(text, style="bold red" if text.endswith("SLOWER") else None)


def keep(section: Section, runs: int) -> list[str]:
    """Keep a section's results; how they stand beside those of before."""
    before, now = history.read(RESULTS), history.Line.of(section, report.conditions(runs))
    history.append(RESULTS, now)
    (FOLDER / "RESULTS.md").write_text(history.markdown([*before, now]))
    return list(history.trend(before, now))


if __name__ == "__main__":
    main()
