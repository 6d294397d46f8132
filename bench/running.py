"""Programs that run until they are killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from bench.measure import RunError, kill_session, start
from penstock.log.file.log import FileLog

PATIENCE = 300.0
_LOOK_SECONDS = 0.01


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[subprocess.Popen[str]]:
    """Start a program; in the end it is killed, with everything it started."""
    process = start(command, environment=environment)
    try:
        yield process
    finally:
        kill_session(process.pid)
        process.communicate()


def wait_for(process: subprocess.Popen[str], log: FileLog, topic: str, records: int) -> None:
    """Wait until a topic has so many records.

    Raises:
        RunError: the program that writes them ended before, or takes too long.
    """
    until = time.monotonic() + PATIENCE
    while not log.exists(topic) or log.size(topic) < records:
        check(process)
        if time.monotonic() > until:
            raise RunError(f"the job did not put out what was expected in {PATIENCE:g} s")
        time.sleep(_LOOK_SECONDS)


def check(process: subprocess.Popen[str]) -> None:
    """Raise ``RunError`` when a program has ended by itself."""
    if process.poll() is not None:
        raise RunError(f"the job ended by itself:\n{process.communicate()[1][-3000:]}")
