"""Copies an application's recorded input, so that its program can run over it under chaos. The original is not
touched.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.contract.topics import NO_LIMIT
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.testing.chaos.outcome import FIGURES
from penstock.testing.chaos.subject import Subject

APPLICATION = "chaos"
_COMMITS = 30
"""Approximate number of commits for the input, so that there are places to kill the program at."""
_SMALL = {"chunk_records": 500, "flush_rows": 5_000, "flush_commits": 4, "snapshot_commits": 8}
"""Small enough that a short input has flushes and snapshots, too."""
SIZES = frozenset([*_SMALL, "commit_max_bytes"])
"""The settings that are smaller here than a user may have them."""
OWN_PLACES = ("log", "log_dir", "state_dir", "checkpoint")
"""The settings that a run here replaces."""


class Recorded(Subject):
    """A user's program over a copy of its source topics' records.

    Args:
        runner: the Python file that runs it; its arguments are ``target``, the folder, the mode and a file of settings.
        log: the log that has its topics.
        records: how many records to copy at most; None for all.
        chosen: the user's settings; all others are the defaults, but small.
    """

    def __init__(
        self, runner: Path, target: str, topology: Topology, log: Log, records: int | None, mode: str, **chosen: Any
    ):
        super().__init__("program", topology, APPLICATION, (mode,))
        self._runner, self._target, self._log, self._most = runner, target, log, records
        self._chosen = {name: value for name, value in chosen.items() if name not in OWN_PLACES}
        self.copied: dict[str, int] = {}
        """How many records of each topic were copied."""

    def command(self, folder: Path, mode: str) -> list[str]:
        return [str(self._runner), self._target, str(folder), mode, str(self.base / "settings.json")]

    def settings(self, folder: Path) -> Settings:
        return settings_in(folder, self.base / "settings.json")

    def prepare(self, folder: Path) -> None:
        """Copy the input, and find a limit for the size of a commit.

        Raises:
            ConfigError: there is nothing to copy.
        """
        taken = self._taken()
        self.copied = {topic: sum(end - start for start, end in ranges) for topic, ranges in taken.items()}
        if not any(self.copied.values()):
            topics = ", ".join(self.topology.source_topics)
            raise ConfigError(
                f"the program's source topics ({topics}) have no records in {self._log_url}; produce some"
            )
        log = FileLog(folder / "log")
        widest = max(_copy(self._log, log, topic, ranges) for topic, ranges in taken.items())
        small = {**_SMALL, "commit_max_bytes": max(widest // _COMMITS, 1_000)}
        (folder / "settings.json").write_text(json.dumps({**small, **self._chosen}, default=str))

    def leave_out(self, names: Collection[str]) -> None:
        """Do not compare these."""
        assert self.expected is not None
        self.expected = {name: found for name, found in self.expected.items() if name not in names}

    @property
    def compared(self) -> list[str]:
        """The outputs and stores that are compared."""
        return [name for name in self.expected or {} if name not in FIGURES]

    @property
    def _log_url(self) -> str:
        return str(getattr(self._log, "url", "the log"))

    def _taken(self) -> dict[str, list[tuple[int, int]]]:
        """Return the offsets to copy of each partition of each source topic: from its start on, an equal share of all.

        The program's own output is left out: the program writes it again.
        """
        own = set(self.topology.sink_topics)
        there = {
            topic: list(zip(self._log.start_offsets(topic), self._log.end_offsets(topic), strict=True))
            for topic in self.topology.source_topics
        }
        total = sum(end - start for topic, ranges in there.items() if topic not in own for start, end in ranges)
        share = 1.0 if self._most is None or total <= self._most else self._most / total
        return {
            topic: [(start, start if topic in own else start + int((end - start) * share)) for start, end in ranges]
            for topic, ranges in there.items()
        }


def settings_in(folder: Path, file: Path) -> Settings:
    """Return a program's settings in a folder: those of a file, and none of the environment."""
    chosen = json.loads(file.read_text())
    return Settings.load(folder=file.parent, environment={}, state_dir=folder / "state", **chosen)


def _copy(source: Log, target: FileLog, topic: str, ranges: list[tuple[int, int]]) -> int:
    """Copy records of a topic. Return the bytes of the largest partition."""
    info = msgspec.structs.replace(source.topic(topic), retention_ms=NO_LIMIT, retention_bytes=NO_LIMIT)
    target.create_topic(info)
    sizes = [0]
    with target.writer(topic, "recorded") as writer:
        for partition, (start, end) in enumerate(ranges):
            nbytes = 0
            for piece in source.read(topic, partition, start, end):
                writer.write(partition, piece.key, piece.value, piece.timestamp, piece.headers, piece.placed)
                nbytes += piece.nbytes
            sizes.append(nbytes)
    target.append(topic, writer.segments())
    return max(sizes)
