"""All sinks of a program. They start, run and stop with it, on every engine."""

from __future__ import annotations

import threading
import time
from typing import Any

from penstock.engine.running.child_queries import ChildQueries
from penstock.engine.shared.children import SINKS, Child, ChildNotes
from penstock.engine.sinks.thread import SinkThread
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.plan.dataframes import SinkTarget
from penstock.plan.nodes import Sink
from penstock.plan.topology import Topology
from penstock.serdes.record_columns import RecordColumns
from penstock.storage.base import Storage

_NOTE_SECONDS = 0.5


class Sinks(ChildQueries):
    """The sinks of a program.

    Args:
        topology: with the topics that the application owns.
        log: the application's; each sink opens it again for itself.

    Raises:
        ConfigError: a sink is not in this process, two of its columns have one name, or it cannot keep one.
    """

    def __init__(self, topology: Topology, application_id: str, log: Log):
        self._log = log
        self._threads = [_thread(application_id, topic, node, log) for topic, node in topology.sinks.items()]
        self._notes: ChildNotes | None = None
        self._storage: Storage | None = None
        self._is_stopping = False
        self._noting = threading.Lock()
        self._noted_at = 0.0
        for one in self._threads:
            one.on_change = self._changed

    def now(self) -> tuple[Child, ...]:
        """Return the state of each sink."""
        return tuple(one.child for one in self._threads)

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        """Start the sinks."""
        self._storage, self._notes = storage, ChildNotes(storage, SINKS)
        self._notes.write(self.now())
        for one in self._threads:
            one.begin(storage)

    def holds(self) -> bool:
        """Whether a sink is so far behind that the program makes no commit for now."""
        return not self._is_stopping and any(
            one.failure is None and one.behind(self._log.end_offsets(one.child.topic)) > one.max_behind
            for one in self._threads
        )

    def take_out(self) -> None:
        """Wait until the sinks have all present records, in a program that ends with its input."""
        self.process_sinks()

    def process_sinks(self) -> None:
        """Wait until the sinks have all present records; raise ``SinkError`` if one fails."""
        for one in self._threads:
            one.wait_for(self._log.end_offsets(one.child.topic), lambda: self._is_stopping)
        self.check_running()
        self._note()

    def check_running(self) -> None:
        """Raise ``SinkError`` if one has failed. The next call starts that sink again."""
        for one in self._threads:
            if (failure := one.failure) is not None:
                if one.is_told:
                    assert self._storage is not None
                    one.begin(self._storage)
                else:
                    one.is_told = True
                    raise failure

    def stop_sources(self) -> None:
        """Hold the program back no longer."""
        self._is_stopping = True

    def stop(self) -> None:
        """Stop the sinks behind the batches that they write. The next start continues them."""
        self._is_stopping = True
        for one in self._threads:
            one.stop()
        self._note()

    def _changed(self) -> None:
        if any(one.failure is not None for one in self._threads):
            self._note()
            self.on_failure()
        elif time.monotonic() - self._noted_at >= _NOTE_SECONDS:
            self._note()

    def _note(self) -> None:
        with self._noting:
            self._noted_at = time.monotonic()
            if self._notes is not None:
                self._notes.write(self.now())


def _thread(application_id: str, topic: str, node: Sink, log: Log) -> SinkThread:
    target = node.outside
    assert isinstance(target, SinkTarget)
    if target.sink is None:
        raise ConfigError(f"sink {target.name!r} is not in this process: build the topology where it is started")
    where = f"to_sink at {target.where}"
    columns = RecordColumns.of(node.types, (target.key, target.value, target.timestamp))
    if columns.repeated is not None:
        raise ConfigError(
            f"{where}: two columns are called {columns.repeated!r}. Give the key's another name (key=...), or that of "
            "the time (timestamp=..., or None to leave it out)"
        )
    if hasattr(target.sink, "check_columns"):
        try:
            target.sink.check_columns(columns.schema)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
    return SinkThread(application_id, target, topic, columns, log)
