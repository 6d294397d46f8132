"""The thread of one source: it reads batches, holds back while the program is behind, and tries again what failed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from msgspec.structs import replace

from penstock.engine.shared.children import ENDED, FAILED, RUNNING, Child
from penstock.engine.shared.retrying import Retrying
from penstock.engine.sources.feed import Feed, OvertakenError
from penstock.engine.sources.progress import SourceNotes
from penstock.errors import ConfigError, CorruptDataError, PenstockError, SourceError, TopicNotFoundError
from penstock.log.base import Log
from penstock.log.open import opened
from penstock.log.records import Records
from penstock.plan.dataframes import SourceFeed
from penstock.serdes import Serde
from penstock.sources.protocol import SourceContext
from penstock.storage.base import Storage
from penstock.values.times import wall_clock_ms

_log = logging.getLogger(__name__)

_OVERTAKEN_SECONDS = 0.1
"""How soon a source continues behind batches that another process has brought in."""

_LASTING = (SourceError, ConfigError, CorruptDataError, TopicNotFoundError)
"""Errors that no retry mends."""

_HELD_SECONDS = 0.1
"""How soon a source that is held back looks again how far the program is."""

_LOOKS = 8
"""How often within ``max_ahead`` records it looks."""

_TRIM_SECONDS = 10.0


class SourceThread:
    """Brings the records of a source into its topic.

    Args:
        types: those of keys and values.
        log: the application's; the thread opens it again for itself.
    """

    def __init__(self, application_id: str, feed: SourceFeed, topic: str, types: tuple[Serde, Serde], log: Log):
        self.child = Child(name=feed.name, topic=topic, source=feed.shown)
        self.on_change: Callable[[], None] = lambda: None
        """Called from the thread when records came in, or it has failed for good."""
        self.committed: Callable[[], Mapping[str, Sequence[int]]] = dict
        """Gives the offsets up to which the program has read its topics."""
        self.failure: SourceError | None = None
        """The error that ended it."""
        self.is_told = False
        """Whether that was raised already."""
        self._application_id = application_id
        self._feed = feed
        self._topic = topic
        self._types = types
        self._log = log
        self._storage: Storage | None = None
        self._holds_back = True
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._news = threading.Condition()
        self._asked = self._answered = 0
        """How often somebody asked whether all is read, and how many of them have their answer."""
        self._unseen = 0
        """How many records came in since it looked last how far the program is."""
        self._is_held = False
        self._thread: threading.Thread | None = None

    # --- from other threads ------------------------------------------------------------------------------------------

    def begin(self, storage: Storage, holds_back: bool = True) -> None:
        """Start it, or start it again after a failure.

        Args:
            holds_back: whether it waits while the program is far behind.
        """
        self._storage, self.failure, self.is_told, self._holds_back = storage, None, False, holds_back
        self.child = replace(self.child, state=RUNNING, error="")
        self._thread = threading.Thread(target=self._run, name=f"penstock source {self._feed.name}", daemon=True)
        self._thread.start()

    def wait_until_read(self, is_stopping: Callable[[], bool]) -> None:
        """Wait until all existing records are in the topic, the source has failed, or it is stopped."""
        with self._news:
            self._asked += 1
            mine = self._asked
        self._wake.set()
        with self._news:
            while self._answered < mine and self.failure is None and not is_stopping() and not self._stop.is_set():
                self._news.wait(0.1)

    def stop(self) -> None:
        """Stop it behind the batch that it brings in."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self.child.state == RUNNING:
            self.child = replace(self.child, state=ENDED)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        feed = self._feed
        secrets = getattr(feed.source, "secrets", ())
        retrying = Retrying(f"source {feed.name!r}", feed.retry_ms, _LASTING, secrets)
        said = retrying.run(self._stay, self._stop, lambda: self.child.batch, self._failed)
        if said is not None:
            self._end(said)

    def _stay(self) -> None:
        while not self._stop.is_set():
            try:
                with opened(self._log.place or self._log) as log:
                    self._work(log)
                return
            except OvertakenError as error:
                _log.warning("source %r: %s; it continues behind that", self._feed.name, error)
                self._stop.wait(_OVERTAKEN_SECONDS)

    def _failed(self, said: str, has_ended: bool) -> None:
        self._tell(replace(self.child, error=said, state=FAILED if has_ended else RUNNING))

    def _end(self, said: str) -> None:
        self.failure = SourceError(
            f"application {self._application_id!r} stopped because its source {self._feed.name!r} "
            f"({self._feed.shown}, source at {self._feed.where}) failed: {said}. Everything that it brought in is "
            f"safe, in topic {self._topic!r}. Fix the cause and start again: the source continues there, each record "
            "once"
        )
        with self._news:
            self._news.notify_all()
        self.on_change()

    def _tell(self, child: Child) -> None:
        with self._news:
            self.child = child
            self._news.notify_all()

    def _work(self, log: Log) -> None:
        assert self._storage is not None
        notes = SourceNotes(self._storage, self._feed.name)
        seconds = getattr(self._feed.source, "poll_ms", 1_000) / 1000
        try:
            with closing(Feed(self._feed.source, self._context(log), self._topic, log, notes)) as feed:
                next_trim = time.monotonic()
                while not self._stop.is_set():
                    if self._feed.keep_ms is not None and time.monotonic() >= next_trim:
                        self._trim(log, notes, self._feed.keep_ms)
                        next_trim = time.monotonic() + min(_TRIM_SECONDS, max(self._feed.keep_ms / 1000, 0.05))
                    if self._is_far_ahead(log):
                        self._stop.wait(_HELD_SECONDS)
                        continue
                    asked = self._asked
                    count = feed.step()
                    if count is not None:
                        self._brought_in(count)
                        if not getattr(self._feed.source, "has_end", True):
                            self._is_all_read(asked)  # there is always more
                        continue
                    self._is_all_read(asked)
                    if self._wake.wait(seconds):
                        self._wake.clear()
        finally:
            with suppress(PenstockError, OSError):
                notes.write()

    def _trim(self, log: Log, notes: SourceNotes, keep_ms: int) -> None:
        """Remove records from the topic that the program has processed for long enough."""
        processed = self.committed().get(self._topic)
        if processed is None:
            return
        ends = notes.trim(wall_clock_ms(), keep_ms, processed)
        starts = log.start_offsets(self._topic)
        found = {p: end for p, (end, start) in enumerate(zip(ends, starts, strict=False)) if end > start}
        if found and not log.why_not_emptied(self._topic):
            log.trim(self._topic, found)

    def _brought_in(self, count: int) -> None:
        self._unseen += count
        child = self.child
        self._tell(replace(child, rows=child.rows + count, batch=child.batch + 1, error=""))
        self.on_change()

    def _is_all_read(self, asked: int) -> None:
        with self._news:
            self._answered = asked
            if self.child.error:
                self.child = replace(self.child, error="")
            self._news.notify_all()

    def _is_far_ahead(self, log: Log) -> bool:
        """Return whether the program lacks so many records that the source waits."""
        if not self._holds_back or (not self._is_held and self._unseen * _LOOKS < self._feed.max_ahead):
            return False
        self._unseen = 0
        read = self.committed().get(self._topic)
        ends = log.end_offsets(self._topic) if read is not None else []
        self._is_held = read is not None and sum(ends) - sum(read) > self._feed.max_ahead
        return self._is_held

    def _context(self, log: Log) -> SourceContext:
        def recent(since: int) -> Iterator[Records]:
            for partition, end in enumerate(log.end_offsets(self._topic)):
                start = log.offset_at(self._topic, partition, since)
                if start is not None:
                    yield from log.read(self._topic, partition, start, end)

        key, value = self._types
        ids = self._application_id, self._feed.name
        return SourceContext(*ids, key, value, warn=self._warn, storage=self._storage, recent=recent)

    def _warn(self, said: str) -> None:
        said = f"source {self._feed.name!r} ({self._feed.shown}): {said}"
        _log.warning("application %r: %s", self._application_id, said)
        self.child = replace(self.child, told=(*self.child.told, said)[-3:])
