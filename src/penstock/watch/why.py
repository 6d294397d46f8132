"""Why a key got its result, for the page: ``penstock why`` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import ConfigError, PenstockError
from penstock.values.decoding import from_json
from penstock.values.masking import masked

_MOST = 500
"""How many of a key's records and windows are returned: the newest ones."""
_SECONDS = 300.0
_NICE = 5
"""The program that makes commits on this machine goes first."""


class Replays:
    """Replays the records of a program's topics to tell the fate of a key's records.

    The program is loaded and run in a process of its own, which writes nothing. One replay runs at a time.

    Args:
        program: the program, as in ``penstock why PROGRAM``.
        topics: the place of the topics; None for that of the settings.
        config: a file with settings.
    """

    def __init__(self, program: str, topics: Path | str | None = None, config: Path | None = None):
        self._program = program
        self._options = [] if config is None else ["--config", str(config)]
        self._environment = {} if topics is None else {"PENSTOCK_LOG": str(topics)}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def of(self, node: str, key: str, records: int) -> dict[str, Any]:
        """Return a key's windows in a step, and its records with the fate of each.

        Args:
            node: the step.
            key: the key, as text.
            records: how many records are replayed: the newest ones.

        Raises:
            ConfigError: the program does not load, has no such step, or the key is of another type.
            PenstockError: another replay runs, or this one takes too long.
        """
        if not self._lock.acquire(blocking=False):
            raise PenstockError("another key is being looked up; try again in a moment")
        try:
            lines = self._asked(node, key, records)
        finally:
            self._lock.release()
        return {"program": self._program, "lines": [_shortened(line) for line in lines]}

    def close(self) -> None:
        """End a replay that runs."""
        if (process := self._process) is not None:
            process.kill()

    def _asked(self, node: str, key: str, records: int) -> list[Any]:
        options = ["--json", "--newest", "--limit", str(records), *self._options]
        command = [sys.executable, "-m", "penstock", "why", *options, "--", self._program, node, key]
        environment = os.environ | self._environment
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, **pipes) as process:
            self._process = process
            try:
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
                out, said = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                way = f"run it in a terminal: penstock why {self._program} {node} {key}"
                raise PenstockError(f"the replay took longer than {_SECONDS:.0f} seconds; {way}") from None
            finally:
                self._process = None
                process.kill()
        if process.returncode != 0:
            raise ConfigError(masked(said.decode(errors="replace").strip()) or "the replay has ended without a result")
        return [from_json(line, _Line) for line in out.splitlines() if line.startswith(b"{")]


class _Line(msgspec.Struct):
    """A timeline, as ``penstock why --json`` prints it; keys and values as they are, with no number rounded."""

    node: str
    key: msgspec.Raw
    grace_ms: int
    stream_time: int
    windows: list[tuple[int, int]]
    read: int
    present: int
    records: list[_Came]


class _Came(msgspec.Struct):
    timestamp: int
    value: msgspec.Raw
    stream_time: int
    windows: list[tuple[int, int]]
    closed: list[tuple[int, int]]
    late: bool
    told: str
    topic: str
    partition: int
    offset: int


def _shortened(line: Any) -> dict[str, Any]:
    """A timeline with its newest records and windows, and how many there are in all."""
    found = {name: getattr(line, name) for name in line.__struct_fields__}
    found["records"] = [msgspec.structs.asdict(one) for one in line.records[-_MOST:]]
    found["windows"] = line.windows[-_MOST:]
    return found | {"of_key": len(line.records), "late": sum(one.late for one in line.records)}
