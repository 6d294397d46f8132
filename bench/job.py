"""One topology run to the end of its sources, or until it is killed, as a program of its own.

    python -m bench.job W1 events-1000000 --work FOLDER [--cache] [--live] [--set NAME=VALUE]...

With ``--servers HOST:PORT --sink TOPIC`` it reads and writes topics of a Kafka cluster. It goes on from the
state that it finds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from bench.workloads import TOPOLOGIES
from penstock.engine.running.arguments import AVAILABLE_NOW
from penstock.log.cluster import Kafka
from penstock.log.file.log import FileLog

CACHE_BYTES = 10 << 20
"""The size of Kafka Streams' cache by default: the last update per key and commit goes on."""


@click.command()
@click.argument("topology", type=click.Choice(sorted(TOPOLOGIES)))
@click.argument("sources", nargs=-1, required=True)
@click.option("--work", type=click.Path(path_type=Path), required=True, help="The folder of topics and state.")
@click.option("--live", is_flag=True, help="Commit as records come, until killed.")
@click.option("--cache", is_flag=True, help="Put out the last update per key and commit, instead of every update.")
@click.option("--servers", help="A Kafka cluster whose topics are meant, instead of those in the folder.")
@click.option("--sink", default="out", help="The topic that is written.")
@click.option("--master", help="Where Spark runs, instead of this process's own session.")
@click.option("--checkpoint", help="Where commits are, instead of the folder of the state.")
@click.option("--slots", type=int, help="How many slots there are.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the application.")
def main(
    topology: str,
    sources: tuple[str, ...],
    work: Path,
    live: bool,
    cache: bool,
    servers: str | None,
    sink: str,
    master: str | None,
    checkpoint: str | None,
    slots: int | None,
    settings: tuple[str, ...],
) -> None:
    """Run TOPOLOGY from SOURCES to a topic."""
    given: dict[str, Any] = dict(setting.split("=", 1) for setting in settings)
    streams = TOPOLOGIES[topology](*sources, sink).start(
        application_id="bench" if sink == "out" else f"bench-{sink}",
        log=Kafka(servers) if servers else FileLog(work / "log"),
        state_dir=work / "state",
        checkpoint=checkpoint,
        spark=None if master is None else _session(master),
        slots=slots,
        trigger=None if live else AVAILABLE_NOW,
        statestore_cache_max_bytes=CACHE_BYTES if cache else 0,
        **given,
    )
    streams.await_termination()


def _session(master: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
    return builder.config("spark.log.level", "ERROR").getOrCreate()


if __name__ == "__main__":
    main()
