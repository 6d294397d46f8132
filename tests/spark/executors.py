"""Runs the topology of the crash tests on a small cluster and kills executors now and then.

python executors.py FOLDER KILLS [MASTER]
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "faults"))


def executors() -> list[int]:
    """The executors' processes of this session of processes."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        is_java = words[0].endswith(b"java") and any(b"CoarseGrainedExecutorBackend" in word for word in words)
        if is_java and os.getsid(int(pid)) == os.getsid(0):
            found.append(int(pid))
    return found


def main(folder: Path, kills: int, master: str = "local-cluster[2,1,1024]") -> None:
    import program
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    rng, killed = random.Random(5), []

    def kill_one(progress: Any) -> None:
        if progress.commit % 8 == 5 and len(killed) < kills and (found := executors()):
            killed.append(rng.choice(found))
            os.kill(killed[-1], signal.SIGKILL)
            print("killed executor", killed[-1], "after commit", progress.commit, flush=True)

    streams = program.two_stages().start(
        application_id=program.APPLICATION,
        log=folder / "log",
        state_dir=folder / "state",
        checkpoint=program.checkpoint(folder).url,
        spark=spark,
        trigger="available-now",
        slots=2,
        on_progress=kill_one,
        **program.SETTINGS,
    )
    streams.await_termination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
