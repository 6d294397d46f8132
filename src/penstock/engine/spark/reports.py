"""Reports of a program to Spark: as a streaming query to listeners, pages and event log, and as figures in its metrics.

A thread reports once a second at most, whatever the number of commits, so commits do not wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.engine.commit.opening import Ends, Opened
from penstock.engine.running.reports import Reports
from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.progress import Progress
from penstock.engine.spark import private
from penstock.engine.spark.gauges import show
from penstock.engine.spark.watched import AsQuery, Moment, figures_of
from penstock.errors import PenstockError

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0
_SHARE = 50
"""A report takes at most one in so many parts of the time, however many tasks there are."""
_END_SECONDS = 5.0
"""How long the end of a program waits for a report that runs."""


class _Commit(NamedTuple):
    """The newest commit."""

    progress: Progress
    manifest: Manifest
    opened: Opened
    ends: Ends
    at: float
    seconds: float


class SparkReports(Reports):
    """Reports of a program in a classic session.

    Args:
        context: Spark's context.
        session: returns the session whose listeners are told, if there is one.
        opened: the application as it starts.
        is_own: whether the context ends with the program.
    """

    def __init__(self, context: Any, session: Callable[[], Any | None], opened: Opened, slots: int, is_own: bool):
        self._context, self._session, self._slots, self._is_own = context, session, slots, is_own
        name, first = opened.application_id, opened.manifest
        identity = str(uuid.uuid5(uuid.NAMESPACE_OID, f"penstock {name} {opened.application}"))
        self._query = AsQuery(identity, str(uuid.uuid4()), name)
        nothing = Progress(name, first.commit, 0, 0, 0, 0.0)
        self._before = self._moment(_Commit(nothing, first, opened, {}, time.time(), 0.0))
        """The application as of the last report."""
        self._newest: _Commit | None = None
        self._bus: Any = None
        """Where events go; None while nobody listens."""
        self._is_of_session = False
        """Whether they go to the listeners of a session; otherwise to those of the context."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"penstock {name} reports", daemon=True)

    def _moment(self, commit: _Commit) -> Moment:
        progress, manifest, opened, ends, at, seconds = commit
        sources, internal = opened.topology.source_topics, opened.topology.internal_topics
        figures = figures_of(manifest, sources, internal, self._slots)
        return Moment(progress, figures, opened.offsets(manifest), ends, at, seconds)

    def begin(self) -> None:
        self._thread.start()

    def committed(self, progress: Progress, manifest: Manifest, opened: Opened, ends: Ends) -> None:
        seconds = progress.seconds + (self._newest.seconds if self._newest else 0.0)
        self._newest = _Commit(progress, manifest, opened, ends, time.time(), seconds)

    def ended(self, error: PenstockError | None) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
            if self._thread.is_alive():
                return
        self._try(lambda: self._tell(shows=not self._is_own))
        self._try(lambda: self._post("QueryTerminatedEvent", self._query.terminated(str(error) if error else None)))

    def _run(self) -> None:
        pause = _EVERY_SECONDS
        while not self._over.wait(pause):
            began = time.thread_time()
            self._try(self._tell)
            pause = max(_EVERY_SECONDS, _SHARE * (time.thread_time() - began))

    def _try(self, report: Callable[[], None]) -> None:
        """Report. A program goes on if Spark does not take it, as when it is gone."""
        try:
            report()
        except Exception as error:  # py4j raises many kinds of errors
            _log.debug("application %r: Spark took no report: %s", self._query.name, error)

    def _tell(self, shows: bool = True) -> None:
        """Report the commits since the last report."""
        self._listen()
        commit = self._newest
        if commit is None or commit.progress.commit == self._before.progress.commit:
            return
        now = self._moment(commit)
        self._post("QueryProgressEvent", self._query.progress(self._before, now))
        if shows:
            show(self._context, self._query.name, now.gauges)
        self._before = now

    def _listen(self) -> None:
        """Begin with events as soon as somebody listens for them."""
        if self._is_of_session:
            return
        session = self._session()
        bus = private.query_events(session) if session is not None else None
        self._is_of_session = bus is not None
        if bus is not None or self._bus is None:
            self._bus = bus or private.events_of(self._context)
            self._post("QueryStartedEvent", self._query.started(time.time()))

    def _post(self, kind: str, event: str) -> None:
        if self._bus is not None:
            self._bus(kind, event)
