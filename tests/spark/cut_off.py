"""Runs the topology of the crash tests on a cluster, two slots, and says after each commit where they live.

python cut_off.py FOLDER MASTER HOST
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))


def main(folder: Path, master: str, host: str) -> None:
    import program
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", host).config("spark.driver.bindAddress", host)
    spark = builder.config("spark.log.level", "OFF").getOrCreate()

    def tell(progress: Any) -> None:
        print("commit", progress.commit, *(slot.host for slot in streams.slots()), flush=True)

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
