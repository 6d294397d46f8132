"""One workload run to its end, or until it is killed, as a program of its own.

    python -m bench.job W1 1000000 --work FOLDER [--cache] [--slots 2] [--set NAME=VALUE]...

The topic with the input is made when it is not there. The last line of the output is a JSON object.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from bench import data
from bench.measure import process_age
from bench.workloads import WORKLOADS
from penstock import Topology
from penstock.engine.spark.streams import AVAILABLE_NOW, Progress
from penstock.log.file.log import FileLog

CACHE_BYTES = 10 << 20
"""The size of Kafka Streams' cache by default: the last update per key and commit goes on."""


@click.command()
@click.argument("workload", type=click.Choice(sorted(WORKLOADS)))
@click.argument("records", type=int)
@click.option("--work", type=click.Path(path_type=Path), required=True, help="The folder of topics and state.")
@click.option("--source", help="The input topic; by default the workload's own set of so many records.")
@click.option("--sink", default="out", help="The output topic.")
@click.option("--state", default="state", help="The folder of the state, in the work folder.")
@click.option("--keep", is_flag=True, help="Go on from the state that is there; otherwise begin anew.")
@click.option("--trigger", default=AVAILABLE_NOW, help="An interval to run until killed.")
@click.option("--cache", is_flag=True, help="Put out the last update per key and commit, instead of every update.")
@click.option("--slots", type=int, help="How many Python processes; by default as many as cores.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the application.")
def main(
    workload: str,
    records: int,
    work: Path,
    source: str | None,
    sink: str,
    state: str,
    keep: bool,
    trigger: str,
    cache: bool,
    slots: int | None,
    settings: tuple[str, ...],
) -> None:
    """Run WORKLOAD over RECORDS records."""
    work = work.resolve()
    log = FileLog(work / "log")
    source = source or data.fill_once(log, data.set_of(workload), records)
    if not keep:
        shutil.rmtree(work / state, ignore_errors=True)
        if log.exists(sink):
            log.delete_topic(sink)
    topology = WORKLOADS[workload](source, sink)
    values = {"statestore_cache_max_bytes": CACHE_BYTES if cache else 0}
    values |= dict(setting.split("=", 1) for setting in settings)  # type: ignore[arg-type]
    print(json.dumps(_run(topology, log, work / state, trigger, slots, values)), flush=True)


def _run(
    topology: Topology, log: FileLog, state: Path, trigger: str, slots: int | None, settings: dict[str, int]
) -> dict[str, float]:
    """Run a topology and tell how it went; its times count from the start of this process."""
    commits: list[tuple[Progress, float]] = []
    streams = topology.start(
        application_id="bench",
        log=log,
        state_dir=state,
        trigger=trigger,
        slots=slots,
        on_progress=lambda progress: commits.append((progress, process_age())),
        **settings,
    )
    streams.await_termination()
    return {
        "records": commits[-1][0].total_records if commits else 0,
        "commits": len(commits),
        "first_commit": round(commits[0][1], 3) if commits else 0.0,
        "seconds": round(process_age(), 3),
    }


if __name__ == "__main__":
    main()
