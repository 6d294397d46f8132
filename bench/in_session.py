"""Programs one after the other in a Spark session that is there: W1, each stopped after its first output.

    python -m bench.in_session events-100 FOLDER

Says as JSON how many seconds the last took from its start to its first output, and to stop, and when it had stopped.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench.workloads import w1
from penstock.engine.running.start import start
from penstock.log.file.log import FileLog

PROGRAMS = 3


def main(source: str, work: Path) -> None:
    spark = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").getOrCreate()
    log = FileLog(work / "log")
    for number in range(PROGRAMS):
        sink, state = f"out-{number}", work / "state" / str(number)
        began = time.monotonic()
        streams = start(w1(source, sink), f"again-{number}", log, spark=spark, state_dir=state)
        while not (log.exists(sink) and log.size(sink)):
            time.sleep(0.005)
        first = time.monotonic() - began
        began = time.monotonic()
        streams.stop()
        stop = time.monotonic() - began
        log.delete_topic(sink)
        shutil.rmtree(state)
    print(json.dumps({"start": first, "stop": stop, "ended": time.monotonic()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
