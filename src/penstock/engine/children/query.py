"""A query of Spark that belongs to a program: it is begun, looked at and stopped; what it does is in ``source.py`` and
``sink.py``."""

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
from penstock.errors import PenstockError, QueryError

_OURS = re.compile(r"penstock\.errors\.\w+: (.*)")
_LASTING = re.compile(r"penstock\.errors\.\w+: |AnalysisException|ParseException|SQLSyntaxError")
"""What a failure says that comes again however often it is tried."""
_LONGEST = 600

_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""How many seconds to wait before a query that has failed is begun again."""

_log = logging.getLogger(__name__)


class Query(ABC):
    """One query.

    Args:
        application_id: the program's.
        child: what is known of it.
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
        """Held while a micro-batch is taken in this process."""
        self._said = ""
        """Why a micro-batch failed in this process."""
        self._tries = 0
        self._again_at = 0.0
        self.is_told = False
        """Whether its failure was told."""

    @abstractmethod
    def _writer(self, session: Any) -> Any:
        """A stream writer that is complete but for where it keeps its progress and how often it works."""

    def _start(self, writer: Any) -> Any:
        return writer.start()

    def check(self, session: Any) -> None:  # noqa: B027 - most need none
        """Raise ``ConfigError`` for what cannot work, before anything is begun."""

    def begin(self, session: Any, is_available_now: bool) -> None:
        """Start it, to go on where it was."""
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
        """See how it is, and begin it again after a failure that may pass: a few times, until it goes on."""
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
            _log.warning("the query of %r has failed, and is begun again: %s", self.child.name, told)
        else:
            self.child = replace(self.child, state=FAILED, error=told)

    def _take_note(self) -> None:
        """Of what it has done since the last look."""
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
        """A micro-batch is taken in this process."""
        with self._working:
            try:
                yield
            except Exception as error:
                self._said = plainly(error)
                raise

    def failure(self) -> QueryError:
        """Why it has ended, as the error of the program."""
        child = self.child
        what = f"writes table {child.table}" if child.table else f"brings DataFrame {child.name!r} in"
        return QueryError(
            f"application {self.application_id!r} stopped because the query of Spark has ended that {what} "
            f"({'from' if child.table else 'into'} topic {child.topic!r}): {child.error}. Everything committed is "
            f"safe; start again when the cause is mended, and both go on where they were. The query's progress "
            f"is in {self.place}"
        )

    @property
    def is_working(self) -> bool:
        """Whether it has begun, and has neither ended nor failed."""
        return self._running is not None and self.child.state == RUNNING

    def process_all_available(self) -> bool:
        """Wait until it has taken all that is there; False where it failed before that."""
        try:
            self._running.processAllAvailable()
        except Exception:  # of the query, which a look finds
            return False
        return bool(self._running.isActive)

    def stop(self) -> None:
        """Stop it, and wait for what it does in this process."""
        if self._running is None:
            return
        with suppress(Exception):  # Spark may be gone, and then it has ended
            self._running.stop()
        with self._working:
            pass


def plainly(error: Any) -> str:
    """What went wrong in a query, without the traces around it.

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
