"""Runs the topology of the crash tests on a cluster, two slots, and says after each commit where they live.

python living.py FOLDER MASTER HOST [--pause SECONDS] [--full SECONDS] [NAME=VALUE ...]

It waits so many seconds behind each commit, leaves a machine whose disk is full alone for so many, and runs with these
settings of Spark.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))


def living(folder: Path, master: str, host: str, *more: str) -> subprocess.Popen[str]:
    """This program, with its driver at that address."""
    command = [sys.executable, __file__, str(folder), master, host, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def hosts_of(running: subprocess.Popen[str]) -> Iterator[set[str]]:
    """The machines on which it has slots, commit by commit."""
    assert running.stdout is not None
    for line in running.stdout:
        yield set(line.split()[2:])


def main() -> None:
    import program
    from pyspark.sql import SparkSession

    from penstock.engine.spark import job

    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("master")
    parser.add_argument("host")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--full", type=float, default=600.0)
    parser.add_argument("settings", nargs="*")
    given = parser.parse_intermixed_args()

    job._FULL_SECONDS = given.full
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(given.master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", given.host).config("spark.driver.bindAddress", given.host)
    for setting in given.settings:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.config("spark.log.level", "OFF").getOrCreate()

    def tell(progress: Any) -> None:
        print("commit", progress.commit, *(slot.host for slot in streams.slots()), flush=True)
        time.sleep(given.pause)

    streams = program.two_stages().start(
        application_id=program.APPLICATION,
        log=given.folder / "log",
        state_dir=given.folder / "state",
        checkpoint=program.checkpoint(given.folder).url,
        spark=spark,
        trigger="available-now",
        slots=2,
        slot_timeout="4 s",
        on_progress=tell,
        **program.SETTINGS,
    )
    streams.await_termination()
    spark.stop()


if __name__ == "__main__":
    main()
