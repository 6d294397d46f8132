"""The program with every kind of store, in processes of this machine, for tests that kill it and start it again.

python restarting.py FOLDER [--once]

It says "commit N" with each commit, and goes on until it is killed; with --once it ends when all is read.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

SETTINGS = {"commit_max_bytes": 300, "snapshot_commits": 3, "flush_commits": 1, "statestore_cache_max_bytes": 0}


def main() -> None:
    from support.every_store import every_kind_of_store

    folder = Path(sys.argv[1])
    streams = every_kind_of_store().start(
        "app",
        engine="local",
        slots=2,
        log=folder / "log",
        state_dir=folder / "state",
        on_progress=lambda progress: print("commit", progress.commit, flush=True),
        **SETTINGS,
    )
    print("started", flush=True)
    if "--once" in sys.argv:
        streams.process_all_available()
        streams.stop()
    else:
        threading.Event().wait()


if __name__ == "__main__":
    main()
