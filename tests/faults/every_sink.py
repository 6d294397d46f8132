"""A program with all ready sinks at once, on any engine and log, that is killed at named points of named sinks.

python every_sink.py FOLDER --fill N                   make the input topic
python every_sink.py FOLDER --slots|--spark|--micro    process it in slots of this machine or of Spark, or in
                                                       micro-batches

Variables say where it works: LOG (a folder or ``kafka://``), NAME (the application's), SERVICE and DATABASE (as in
``EverySink``), and SPARK_MASTER as for ``program.py``. KILLS has pairs ``sink:point`` with commas: the program is
killed when a sink first comes to its point.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import program

from penstock import faults, produce

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.every_sink import EverySink, click

NAME = "every-sink"
ENGINES = {"--slots": "local", "--spark": "spark", "--micro": "micro-batch"}


def place(folder: Path) -> Path | str:
    return os.environ.get("LOG") or folder / "log"


def name() -> str:
    """The application's; its input is the topic ``NAME-in``."""
    return os.environ.get("NAME", NAME)


def fill(folder: Path, count: int) -> None:
    """Clicks in some steps, so that there are some commits."""
    for start in range(0, count, 100):
        clicks = [click(n) for n in range(start, min(start + 100, count))]
        produce(clicks, f"{name()}-in", key=str, value=int, log=place(folder), partitions=2)


def run(folder: Path, engine: str) -> None:
    """Process what is there."""
    sinks = EverySink(folder / "sinks", os.environ.get("SERVICE", ""), os.environ.get("DATABASE", ""))
    streams = sinks.topology(f"{name()}-in").start(
        name(),
        engine=engine,
        log=place(folder),
        state_dir=folder / "state",
        slots=1,
        trigger="available-now",
        spark=program.session(),
        on_progress=lambda progress: print("commit", progress.commit, flush=True),
        **program.SETTINGS,
    )
    streams.await_termination()


def kill_at(folder: Path, kills: str) -> None:
    """Have this process killed at each of the points once, over all starts."""
    wanted = {tuple(one.split(":")) for one in kills.split(",") if one}

    def hear(point: str) -> None:
        kind = threading.current_thread().name.removeprefix("penstock sink ").partition("-")[0]
        if (kind, point) in wanted:
            try:
                marker(folder, kind, point).touch(exist_ok=False)
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

    faults.listener = hear


def marker(folder: Path, kind: str, point: str) -> Path:
    """The file that is there when the program was killed at a point of a sink."""
    return folder / f"killed-{kind}-{point}"


if __name__ == "__main__":
    given, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill(Path(given), int(rest[0]))
    else:
        kill_at(Path(given), os.environ.get("KILLS", ""))
        run(Path(given), ENGINES[mode])
