"""The state of the Spark queries, the sources and the sinks of a program, which views read in the checkpoint.

Each is one small file, whose name is the time at which it was written. A program writes it when a query begins, fails
or ends, and every few seconds while rows come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from penstock.errors import CorruptDataError, PenstockError
from penstock.storage.base import Storage, number_in, seal, unseal
from penstock.values.times import wall_clock_ms

CHILDREN, SINKS, SOURCES = "children", "children-sinks", "children-sources"

RUNNING, FAILED, ENDED = "running", "failed", "ended"

_SECONDS = 2.0
"""So often figures that grow are written down."""


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """A query of Spark that brings rows of a DataFrame in, or takes results out into a table; or a source or a sink.

    Attributes:
        name: its name in the program.
        topic: the topic that it writes, or reads.
        table: the table that it writes; empty where a DataFrame comes in.
        state: ``running``, ``failed``, or ``ended`` where the program has.
        batch: the number of its last micro-batch; -1 before the first.
        rows: how many rows it has taken since this start.
        error: why it has failed, or why it is tried again.
        sink: the sink that it writes, for people; empty for a query.
        behind: how many records the sink lacked last.
        told: warnings about the source or the sink, for people.
        source: the source that brings records in, for people; empty for a query and for a sink.
    """

    name: str
    topic: str
    table: str = ""
    state: str = RUNNING
    batch: int = -1
    rows: int = 0
    error: str = ""
    sink: str = ""
    behind: int = 0
    told: tuple[str, ...] = ()
    source: str = ""

    @property
    def says(self) -> str:
        """It in a line, for people."""
        if self.sink:
            lacks = f", {self.behind:,} records behind" if self.behind else ""
            told = "".join(f"; {one}" for one in self.told)
            error = self.error and f": {self.error}"
            return f"{self.topic} -> {self.sink}: {self.state}, {self.rows:,} rows{lacks}{error}{told}"
        if self.source:
            told = "".join(f"; {one}" for one in self.told)
            error = self.error and f": {self.error}"
            return f"{self.source} -> {self.topic}: {self.state}, {self.rows:,} records{error}{told}"
        way = f"{self.topic} -> table {self.table}" if self.table else f"DataFrame {self.name} -> {self.topic}"
        done = f"batch {self.batch:,}, {self.rows:,} rows" if self.batch >= 0 else "nothing yet"
        return f"{way}: {self.state}, {done}{self.error and f': {self.error}'}"


class Children(msgspec.Struct, frozen=True):
    """All queries of a program, as of one moment."""

    at: int
    """Wall-clock time in ms."""
    children: tuple[Child, ...]


class ChildNotes:
    """Writes down how the queries of a program are.

    Args:
        storage: that of the checkpoint.
        folder: where in it: ``CHILDREN``, ``SOURCES`` or ``SINKS``.
    """

    def __init__(self, storage: Storage, folder: str = CHILDREN):
        self._storage = storage
        self._folder = folder
        self._written: tuple[Child, ...] = ()
        self._at = float("-inf")
        self._name = ""

    def write(self, children: Sequence[Child]) -> None:
        """Write them down, where they are others than before; figures that grow only now and then."""
        now, new = time.monotonic(), tuple(children)
        states = [(one.name, one.state) for one in self._written]
        is_turn = [(one.name, one.state) for one in new] != states
        if new == self._written or (now - self._at < _SECONDS and not is_turn):
            return
        with suppress(PenstockError, OSError):  # the next one will tell
            at = wall_clock_ms()
            before, self._name = self._name, f"{self._folder}/{at:016d}.json"
            if not self._storage.create(self._name, seal(Children(at, new))):
                return
            for name in [before] if before else self._storage.list(self._folder):
                if name != self._name:
                    self._storage.delete(name)
            self._written, self._at = new, now


def children_of(storage: Storage) -> tuple[Child, ...]:
    """The queries, sources and sinks of a checkpoint's program, as it wrote them down last; none where it has none."""
    return tuple(one for folder in (CHILDREN, SOURCES, SINKS) for one in _newest(storage, folder))


def _newest(storage: Storage, folder: str) -> tuple[Child, ...]:
    names = [name for name in storage.list(folder) if number_in(name) is not None]
    for name in sorted(names, reverse=True):
        with suppress(FileNotFoundError, CorruptDataError):  # another one has come meanwhile
            return unseal(storage.read(name), Children, f"{storage.shown}/{name}").children
    return ()
