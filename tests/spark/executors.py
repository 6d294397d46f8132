"""Runs the topology of the crash tests on a small cluster and kills executors now and then.

python executors.py FOLDER KILLS [MASTER [COPIES]]

With copies, the first to be killed is a whole machine of a standalone cluster, an executor and its worker, once all
copies have caught up.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from penstock import StateRestoreListener

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


def worker_of(executor: int) -> int:
    """The process that started an executor."""
    return int(Path(f"/proc/{executor}/stat").read_text().rpartition(")")[2].split()[1])


class Began(StateRestoreListener):
    """Says from which commit on restores go."""

    def on_restore_start(self, place: Any, store_name: str, starting_offset: int, ending_offset: int) -> None:
        print(f"restores {store_name} {place.partition} from commit {starting_offset}", flush=True)


def main(folder: Path, kills: int, master: str = "local-cluster[2,1,1024]", copies: str = "0") -> None:
    import program
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    rng, killed = random.Random(5), []
    while int(copies) and spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # with the driver
        time.sleep(0.05)

    def kill_one(progress: Any) -> None:
        if int(copies) and not killed:
            if all(slot.copy for slot in streams.slots()):
                machine_dies(progress)
            else:
                time.sleep(1)  # for copies, which nobody waits for
        elif progress.commit % 8 == 5 and len(killed) < kills and (found := executors()):
            killed.append(rng.choice(found))
            os.kill(killed[-1], signal.SIGKILL)
            print("killed executor", killed[-1], "after commit", progress.commit, flush=True)

    def machine_dies(progress: Any) -> None:
        killed.append(rng.choice(executors()))
        for process in (worker_of(killed[-1]), killed[-1]):
            os.kill(process, signal.SIGKILL)
        print("killed executor", killed[-1], "and its machine after commit", progress.commit, flush=True)

    streams = program.two_stages().start(
        application_id=program.APPLICATION,
        log=folder / "log",
        state_dir=folder / "state",
        checkpoint=program.checkpoint(folder).url,
        spark=spark,
        trigger="available-now",
        slots=2,
        on_progress=kill_one,
        standby_replicas=int(copies),
        state_restore_listener=Began(),
        **program.SETTINGS,
    )
    streams.await_termination()
    print("ended with", streams.last_progress, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
