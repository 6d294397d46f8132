"""Programs one after the other in a Spark session that is there: W1, each stopped after its first output.

    python -m bench.in_session events-100 FOLDER [connect]

Says as JSON how many seconds the first and the last took from their start to their first output, and the last to stop;
then how long another one made no commit after one of its slots was killed; and when all had stopped. The session is a
classic one, or one of Spark Connect.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench import data
from bench.workloads import w1
from penstock.engine.running.start import start
from penstock.log.file.log import FileLog

PROGRAMS = 3
_MASTER = "local[4]"
_SINK, _AGAIN = "out", "events-again"


def main(source: str, work: Path, kind: str = "classic") -> None:
    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    spark = (builder.remote(_MASTER) if kind == "connect" else builder.master(_MASTER)).getOrCreate()
    log = FileLog(work / "log")
    starts = []
    for number in range(PROGRAMS):
        with _program(spark, log, source, work / "state" / str(number)) as (streams, seconds):
            starts.append(seconds)
            began = time.monotonic()
            streams.stop()
            stop = time.monotonic() - began
    killed = _after_a_kill(spark, log, source, work / "state" / "killed")
    said = {"first": starts[0], "start": starts[-1], "stop": stop, "killed": killed, "ended": time.monotonic()}
    print(json.dumps(said), flush=True)


@contextmanager
def _program(spark: Any, log: FileLog, source: str, state: Path) -> Iterator[tuple[Any, float]]:
    """A program that has had its first output, and after how many seconds."""
    began = time.monotonic()
    streams = start(w1(source, _SINK), f"again-{state.name}", log, spark=spark, state_dir=state)
    try:
        _wait_for(log, 0)
        yield streams, time.monotonic() - began
    finally:
        streams.stop()
        log.delete_topic(_SINK)
        shutil.rmtree(state)


def _after_a_kill(spark: Any, log: FileLog, source: str, state: Path) -> float:
    """Seconds from the end of a slot's process to the next commit."""
    records = data.copies(log, source, _AGAIN)
    log.append(_AGAIN, records)
    try:
        with _program(spark, log, _AGAIN, state) as (streams, _):
            streams.process_all_available()
            before = log.size(_SINK)
            lock = min((state / "slots").iterdir())
            began = time.monotonic()
            os.kill(int(lock.read_text().split()[-1]), signal.SIGKILL)
            log.append(_AGAIN, records)
            _wait_for(log, before)
            return time.monotonic() - began
    finally:
        log.delete_topic(_AGAIN)


def _wait_for(log: FileLog, size: int) -> None:
    """Wait until the output has more records than these."""
    while not (log.exists(_SINK) and log.size(_SINK) > size):
        time.sleep(0.005)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
