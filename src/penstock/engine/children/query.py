"""Starts, watches and stops one Spark query that belongs to a program; ``source.py`` and ``sink.py`` have its work."""

from __future__ import annotations

import logging
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec.structs import replace

from penstock.engine.shared.children import ENDED, FAILED, RUNNING, Child
from penstock.engine.spark.checkpoints import sweep_first_batch
from penstock.errors import PenstockError, QueryError

_OURS = re.compile(r"penstock\.errors\.\w+: (.*)")
_LASTING = re.compile(r"penstock\.errors\.\w+: |AnalysisException|ParseException|SQLSyntaxError")
"""Errors that a restart of the query does not change."""
_LONGEST = 600

_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds between a failure of a query and its restart, for each attempt."""

_log = logging.getLogger(__name__)


class Query(ABC):
    """One query.

    Args:
        application_id: the program's.
        child: its name, topic, table and state.
        place: where Spark keeps its progress, a folder or a URL.
        trigger_ms: how often it works; None for as soon as it can.
    """

    def __init__(self, application_id: str, child: Child, place: str, trigger_ms: int | None):
        self.application_id = application_id
        self.child = child
        self.place = place
        self._trigger_ms = trigger_ms
        self._running: Any = None
        self._seen = -1
        self._working = threading.Lock()
        """Held while this process works on a micro-batch."""
        self._said = ""
        """The error of the last micro-batch that failed in this process."""
        self._tries = 0
        self._again_at = 0.0
        self.is_told = False
        """Whether its failure was raised already."""

    @abstractmethod
    def _writer(self, session: Any) -> Any:
        """Return a stream writer without its checkpoint and its trigger."""

    def _start(self, writer: Any) -> Any:
        return writer.start()

    def check(self, session: Any) -> None:  # noqa: B027 - most need none
        """Raise ``ConfigError`` for what cannot work, before anything starts."""

    def begin(self, session: Any, is_available_now: bool) -> None:
        """Start it, or continue it from its progress."""
        sweep_first_batch(session, self.place)
        writer = self._writer(session).queryName(f"{self.application_id}-{self.child.name}-{self._kind}")
        writer = writer.option("checkpointLocation", self.place)
        if is_available_now:
            writer = writer.trigger(availableNow=True)
        elif self._trigger_ms is not None:
            writer = writer.trigger(processingTime=f"{self._trigger_ms} milliseconds")
        self._seen, self._again_at, self._said, self.is_told = -1, 0.0, "", False
        self._begun = session, is_available_now
        self.child = replace(self.child, state=RUNNING)
        try:
            self._running = self._start(writer)
        except Exception as error:
            self.child = replace(self.child, state=FAILED, error=plainly(error))
            raise self.failure() from error

    @property
    def _kind(self) -> str:
        return "sink" if self.child.table else "source"

    def look(self, is_stopping: bool) -> None:
        """Update its state. Restart it a few times after a failure that may be temporary."""
        if self._running is None or self.child.state != RUNNING:
            return
        if self._again_at:
            if time.monotonic() >= self._again_at and not is_stopping:
                with suppress(QueryError):  # the state says so
                    self.begin(*self._begun)
            return
        is_active = self._running.isActive
        error = None if is_active else self._running.exception()
        self._take_note()
        if is_active:
            return
        if is_stopping or (error is None and self._begun[1]):
            self.child = replace(self.child, state=ENDED)
            return
        told = "somebody has stopped the query" if error is None else self._said or plainly(error)
        if error is not None and not _LASTING.search(f"{error} {told}") and self._tries < len(_PAUSES):
            self._again_at = time.monotonic() + _PAUSES[self._tries]
            self._tries += 1
            self.child = replace(self.child, error=told)
            _log.warning("the query of %r failed and is restarted: %s", self.child.name, told)
        else:
            self.child = replace(self.child, state=FAILED, error=told)

    def _take_note(self) -> None:
        """Count the rows since the last update of its state."""
        rows, batch = self.child.rows, self.child.batch
        for done in self._running.recentProgress:
            if done.batchId > self._seen and done.numInputRows:
                self._seen = batch = done.batchId
                rows += done.numInputRows
        if rows != self.child.rows:
            self._tries = 0
            self.child = replace(self.child, rows=rows, batch=batch, error="")

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Mark that this process works on a micro-batch, and keep the error of one that fails."""
        with self._working:
            try:
                yield
            except Exception as error:
                self._said = plainly(error)
                raise

    def failure(self) -> QueryError:
        """Return the error with which the program ends."""
        child = self.child
        what = f"for table {child.table}" if child.table else f"of DataFrame {child.name!r}"
        return QueryError(
            f"application {self.application_id!r} stopped because its Spark query {what} failed "
            f"({'from' if child.table else 'into'} topic {child.topic!r}): {child.error}. Everything committed is "
            f"safe. Fix the cause and start again: the program and the query continue. The query's progress "
            f"is in {self.place}"
        )

    @property
    def is_working(self) -> bool:
        """Whether it runs: it has started, and has neither ended nor failed."""
        return self._running is not None and self.child.state == RUNNING

    def process_all_available(self) -> bool:
        """Wait until it has processed its input; return False if it failed before that."""
        try:
            self._running.processAllAvailable()
        except Exception:  # of the query, which a look finds
            return False
        return bool(self._running.isActive)

    def stop(self) -> None:
        """Stop it, and wait until this process has finished its micro-batch."""
        if self._running is None:
            return
        with suppress(Exception):  # Spark may be gone, and then it has ended
            self._running.stop()
        with self._working:
            pass


def plainly(error: Any) -> str:
    """Return the message of a query's error, without stack traces.

    >>> plainly(Exception("[STREAM_FAILED]\\nTraceback\\npenstock.errors.SerdeError: no number\\n at org.apache"))
    'no number'
    """
    text = str(error)
    if isinstance(error, PenstockError):
        return text.rstrip(".")
    if (java := getattr(error, "java_exception", None)) is not None:
        while java.getCause() is not None:
            java = java.getCause()
        return str(java.toString()).partition("\n")[0][:_LONGEST].rstrip(". ")
    if found := _OURS.findall(text):
        return str(found[-1]).rstrip(". ")
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "==="))
    ]
    return " ".join(lines)[:_LONGEST].rstrip(". ")
