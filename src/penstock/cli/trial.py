"""One start of a user's program under ``penstock chaos``: it processes its present input and ends.

python trial.py PROGRAM FOLDER local|slots|spark SETTINGS

The variable STATE names the folder of its databases in FOLDER. For each commit it prints a line.
"""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path

from penstock.cli.program import load_program
from penstock.engine.local import LocalApplication
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.testing.chaos.outcome import checkpoint
from penstock.testing.chaos.recorded import APPLICATION, settings_in


def _run_local(topology: Topology, folder: Path, settings: Settings, databases: Path) -> None:
    log, storage = FileLog(folder / "log"), checkpoint(folder)
    application = LocalApplication(topology, APPLICATION, settings, log, storage, databases / "tasks")
    ends = application.coordinator.end_offsets()
    while True:  # ends with the input
        own = {topic: log.end_offsets(topic) for topic in set(ends) & set(topology.sink_topics)}
        done = application.coordinator.step(ends | own)
        if done is None:
            break
        print("commit", done.commit, flush=True)
    application.close()


def _run_by_an_engine(topology: Topology, folder: Path, settings: Settings, databases: Path, engine: str) -> None:
    from penstock.engine.running.start import start

    own = ("log", "log_dir", "state_dir", "checkpoint", "engine", "origins")
    streams = start(
        topology,
        application_id=APPLICATION,
        log=folder / "log",
        state_dir=databases,
        checkpoint=checkpoint(folder).url,
        trigger="available-now",
        slots=2,
        engine=engine,
        on_progress=lambda progress: print("commit", progress.commit, flush=True),
        **{item.name: getattr(settings, item.name) for item in fields(settings) if item.name not in own},
    )
    streams.await_termination()


def _engine(mode: str, settings: Settings) -> str:
    if mode == "slots":
        return "local"
    return "micro-batch" if settings.engine == "micro-batch" else "spark"


def main() -> None:
    target, folder, mode, file = sys.argv[1:]
    own = Path(__file__).parent
    sys.path[:] = [entry for entry in sys.path if Path(entry) != own]  # it has modules with common names
    settings = settings_in(Path(folder), Path(file))
    topology, databases = load_program(target), Path(folder) / os.environ.get("STATE", "state")
    if mode == "local":
        _run_local(topology, Path(folder), settings, databases)
    else:
        _run_by_an_engine(topology, Path(folder), settings, databases, _engine(mode, settings))


if __name__ == "__main__":
    main()
