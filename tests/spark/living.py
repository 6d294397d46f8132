"""Runs the topology of the crash tests on a cluster, two slots, and says after each commit where they live.

python living.py FOLDER MASTER HOST [PAUSE FULL]

It waits so many seconds behind each commit, and leaves a machine whose disk is full alone for so many.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))


def main(folder: Path, master: str, host: str, pause: str = "0", full: str = "600") -> None:
    import program
    from pyspark.sql import SparkSession

    from penstock.engine.spark import job

    job._FULL_SECONDS = float(full)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", host).config("spark.driver.bindAddress", host)
    spark = builder.config("spark.log.level", "OFF").getOrCreate()

    def tell(progress: Any) -> None:
        print("commit", progress.commit, *(slot.host for slot in streams.slots()), flush=True)
        time.sleep(float(pause))

    streams = program.two_stages().start(
        application_id=program.APPLICATION,
        log=folder / "log",
        state_dir=folder / "state",
        checkpoint=program.checkpoint(folder).url,
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
    main(Path(sys.argv[1]), *sys.argv[2:])
