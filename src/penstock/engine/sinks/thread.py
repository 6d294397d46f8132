"""The thread of one sink: it waits for committed records, hands them on, and tries again what failed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from penstock.engine.shared.children import ENDED, FAILED, RUNNING, Child
from penstock.engine.shared.retrying import Retrying
from penstock.engine.sinks.delivery import Delivery
from penstock.engine.sinks.progress import SinkNotes
from penstock.errors import (
    ConfigError,
    CorruptDataError,
    OffsetOutOfRangeError,
    PenstockError,
    SerdeError,
    SinkError,
)
from penstock.log.base import Log
from penstock.log.open import opened
from penstock.plan.dataframes import SinkTarget
from penstock.serdes.record_columns import RecordColumns
from penstock.sinks.protocol import SinkPartition
from penstock.storage.base import Storage

_log = logging.getLogger(__name__)

_LASTING = (SinkError, SerdeError, ConfigError, CorruptDataError, OffsetOutOfRangeError)
"""Errors that no retry mends."""

_LOOK_SECONDS = 1.0
_TRIM_SECONDS = 10.0


class SinkThread:
    """Hands the records of one topic on to a sink.

    Args:
        columns: the columns of the sink's batches.
        log: the application's; the thread opens it again for itself.
        on_change: called from the thread when the sink has got something, or has failed for good.
    """

    def __init__(
        self,
        application_id: str,
        target: SinkTarget,
        topic: str,
        columns: RecordColumns,
        log: Log,
        on_change: Callable[[], None] = lambda: None,
    ):
        self.child = Child(name=target.name, topic=topic, sink=target.shown)
        self.on_change = on_change
        self.failure: SinkError | None = None
        """The error that ended it."""
        self.is_told = False
        """Whether that was raised already."""
        self.max_behind = target.max_behind
        self._application_id = application_id
        self._target = target
        self._topic = topic
        self._columns = columns
        self._log = log
        self._storage: Storage | None = None
        self._stop = threading.Event()
        self._news = threading.Condition()
        self._caught_up: list[int] = []
        """The ends up to which the sink has all records, by partition."""
        self._wanted: list[int] = []
        """The ends up to which no record may wait for others, by partition."""
        self._before: list[int] | None = None
        """Where the partitions ended when the program began, before it wrote."""
        self._asked: set[int] = set()
        """The partitions whose numbers the sink has said since then."""
        self._thread: threading.Thread | None = None
        self._watch: Any = None

    # --- from other threads ------------------------------------------------------------------------------------------

    def begin(self, storage: Storage) -> None:
        """Start it, or start it again after a failure."""
        self._storage, self.failure, self.is_told = storage, None, False
        self.child = replace(self.child, state=RUNNING, error="")
        if self._before is None:
            self._before = self._log.end_offsets(self._topic) if self._log.exists(self._topic) else []
        self._thread = threading.Thread(target=self._run, name=f"penstock sink {self._target.name}", daemon=True)
        self._thread.start()

    def wait_for(self, ends: list[int], is_stopping: Callable[[], bool]) -> None:
        """Wait until the sink has the records up to these offsets, has failed, or is stopped."""
        self._wanted = ends
        self._wake()
        with self._news:
            while not self._has(ends) and self.failure is None and not is_stopping() and not self._stop.is_set():
                self._news.wait(0.1)

    def _has(self, ends: list[int]) -> bool:
        done = self._caught_up + [0] * (len(ends) - len(self._caught_up))
        return all(at >= end for at, end in zip(done, ends, strict=False))

    def behind(self, ends: list[int]) -> int:
        """Return how many records the sink lacks."""
        done = list(self._caught_up)
        return sum(max(0, end - (done[p] if p < len(done) else 0)) for p, end in enumerate(ends))

    def stop(self) -> None:
        """Stop it behind the batch that it writes."""
        self._stop.set()
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self.child.state == RUNNING:
            self.child = replace(self.child, state=ENDED)

    def _wake(self) -> None:
        watch = self._watch
        if watch is not None:
            watch.wake()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        target = self._target
        secrets = getattr(target.sink, "secrets", ())
        retrying = Retrying(f"sink {target.name!r}", target.retry_ms, _LASTING, secrets)
        said = retrying.run(self._stay, self._stop, lambda: self.child.rows, self._failed)
        if said is not None:
            self._end(said)

    def _stay(self) -> None:
        with opened(self._log.place or self._log) as log:
            self._work(log)

    def _failed(self, said: str, has_ended: bool) -> None:
        self._tell(replace(self.child, error=said, state=FAILED if has_ended else RUNNING))

    def _end(self, said: str) -> None:
        self.failure = SinkError(
            f"application {self._application_id!r} stopped because its sink {self._target.name!r} "
            f"({self._target.shown}, to_sink at {self._target.where}) failed: {said}. Everything committed is safe, in "
            f"topic {self._topic!r}. Fix the cause and start again: the sink gets what it lacks, each record once"
        )
        self._change()

    def _tell(self, child: Child) -> None:
        with self._news:
            self.child = child
            self._news.notify_all()

    def _change(self) -> None:
        with self._news:
            self._news.notify_all()
        self.on_change()

    def _work(self, log: Log) -> None:
        assert self._storage is not None
        deliveries: dict[int, Delivery] = {}
        notes = SinkNotes(self._storage, self._target.name, log.topic_id(self._topic))
        self._watch = log.watch([self._topic])
        next_trim = time.monotonic()
        try:
            while not self._stop.is_set():
                ends = log.end_offsets(self._topic)
                self._watch.has_seen({self._topic: ends})
                self._hand_on(log, notes, deliveries, ends)
                if time.monotonic() >= next_trim:
                    self._trim(log, notes, deliveries)
                    next_trim = time.monotonic() + min(_TRIM_SECONDS, max(self._target.keep_ms / 1000, 0.05))
                if log.end_offsets(self._topic) == ends and not self._stop.is_set():
                    self._watch.wait(min([_LOOK_SECONDS, *(one.waits for one in deliveries.values())]))
        finally:
            for one in deliveries.values():
                with suppress(Exception):  # it may be what failed
                    one.close()
            with suppress(PenstockError, OSError):
                notes.write()
            watch, self._watch = self._watch, None
            watch.close()

    def _hand_on(self, log: Log, notes: SinkNotes, deliveries: dict[int, Delivery], ends: list[int]) -> None:
        if len(self._caught_up) < len(ends):
            self._caught_up += [0] * (len(ends) - len(self._caught_up))
        is_pressing = 2 * self.behind(ends) > self.max_behind  # soon the program is held back
        for number, end in enumerate(ends):
            if number not in deliveries:
                deliveries[number] = self._delivery(number, log, notes)
                self._caught_up[number] = deliveries[number].number
            if self._caught_up[number] >= end:
                continue
            is_at_once = number < len(self._wanted) and self._caught_up[number] < self._wanted[number]
            for rows in deliveries[number].hand_on(end, self._stop.is_set, is_at_once or is_pressing):
                self._caught_up[number] = deliveries[number].number
                self._tell(replace(self.child, rows=self.child.rows + rows, batch=self.child.batch + 1, error=""))
                self.on_change()
            if not self._stop.is_set():
                self._caught_up[number] = deliveries[number].next
        self._tell(replace(self.child, behind=self.behind(ends), error=""))

    def _delivery(self, number: int, log: Log, notes: SinkNotes) -> Delivery:
        keys = tuple(self._columns.keys.names)
        ids = self._application_id, self._target.name, number, log.topic_id(self._topic)
        partition = SinkPartition(*ids, self._target.is_table, self._columns.schema, keys)
        before = None if number in self._asked else self._before
        found = Delivery(self._target, partition, self._topic, self._columns, log, notes, before, self._warn)
        self._asked.add(number)
        return found

    def _warn(self, said: str) -> None:
        _log.warning("application %r: %s", self._application_id, said)
        self.child = replace(self.child, told=(*self.child.told, said)[-3:])

    def _trim(self, log: Log, notes: SinkNotes, deliveries: dict[int, Delivery]) -> None:
        """Remove records from the topic that the sink has had for long enough."""
        starts = log.start_offsets(self._topic)
        found = {number: one.trim() for number, one in deliveries.items()}
        found = {number: offset for number, offset in found.items() if offset > starts[number]}
        if found and not log.why_not_emptied(self._topic):
            notes.write()
            log.trim(self._topic, found)
