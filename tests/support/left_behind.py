"""Processes that tests started and that live on: JVMs, slots, programs of tests whose process was killed.

They keep the terminal, or the pipe of whoever started the tests, so that a run would never end for those who wait for
it. All of them have a variable of the run in their environment.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PATIENCE = 10.0
"""Seconds for those that are about to end."""


def kill_left_behind(name: str, value: str, ends_by_itself: str) -> list[str]:
    """Kill all other processes with a variable in their environment; their command lines.

    Args:
        ends_by_itself: what stands in the command lines of processes that end without being told to.
    """
    until = time.monotonic() + _PATIENCE
    while found := _with(f"{name}={value}".encode(), ends_by_itself):
        if time.monotonic() > until:
            break
        time.sleep(0.2)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [f"{pid} {command}" for pid, command in found.items()]


def _with(variable: bytes, but: str) -> dict[int, str]:
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        folder = Path("/proc", pid)
        with suppress(OSError):
            if int(pid) != os.getpid() and variable in (folder / "environ").read_bytes().split(b"\0"):
                found[int(pid)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return {pid: command for pid, command in found.items() if but not in command}
