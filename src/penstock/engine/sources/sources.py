"""All sources of a program. They start, run and stop with it, on every engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Container
from typing import Any

from penstock.engine.running.child_queries import ChildQueries
from penstock.engine.shared.children import SOURCES, Child, ChildNotes
from penstock.engine.shared.counts import counts_of
from penstock.engine.sources.thread import SourceThread
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.produce import check_partitions, existing_or_new
from penstock.log.schema import new_topic
from penstock.plan.dataframes import SourceFeed
from penstock.plan.node import Node
from penstock.plan.topology import Topology
from penstock.storage.base import Storage

_NOTE_SECONDS = 0.5


class Sources(ChildQueries):
    """The sources of a program.

    Args:
        topology: with the topics that the application owns.
        log: the application's; each source opens it again for itself.
        without: topics whose records do not come from their sources, in a batch that has DataFrames for them.

    Raises:
        ConfigError: a source is not in this process, or does not give such types.
    """

    def __init__(self, topology: Topology, application_id: str, log: Log, without: Container[str] = ()):
        self._topology = topology
        self._log = log
        self._feeds = {topic: _feed_of(node) for topic, node in topology.feeds.items() if topic not in without}
        self._threads = [
            SourceThread(application_id, feed, topic, topology.feeds[topic].types, log)
            for topic, feed in self._feeds.items()
        ]
        self._notes: ChildNotes | None = None
        self._storage: Storage | None = None
        self._is_available_now = False
        self._is_stopping = False
        self._noting = threading.Lock()
        self._noted_at = 0.0
        for one in self._threads:
            one.on_change = self._changed

    def now(self) -> tuple[Child, ...]:
        """Return the state of each source."""
        return tuple(one.child for one in self._threads)

    def prepare(self) -> None:
        """Create the topics of the sources; raise ``ConfigError`` if one cannot be created."""
        counts = counts_of(self._topology, self._feeds, self._log, None)
        for topic, feed in self._feeds.items():
            check_partitions(self._log, topic, feed.partitions)
            existing_or_new(
                self._log, new_topic(topic, feed.partitions or counts[topic], *_types(self._topology, topic))
            )

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        """Start the sources; where a program ends with its input, ``bring_in`` does.

        Raises:
            ConfigError: the program ends with its input, and a source has no end.
        """
        endless = [feed for feed in self._feeds.values() if not getattr(feed.source, "has_end", True)]
        if is_available_now and endless:
            raise ConfigError(
                f"source {endless[0].name!r} ({endless[0].shown}, source at {endless[0].where}) has no end, so no "
                "program can end with it: leave out trigger='available-now', or run_batch"
            )
        self._storage, self._notes, self._is_available_now = storage, ChildNotes(storage, SOURCES), is_available_now
        self._notes.write(self.now())
        if not is_available_now:
            self._begin()

    def _begin(self) -> None:
        assert self._storage is not None
        for one in self._threads:
            one.committed = self.committed
            one.begin(self._storage, holds_back=not self._is_available_now)

    def bring_in(self) -> None:
        """Bring all existing records into the topics, in a program that ends with its input."""
        if self._is_available_now and not self._is_stopping:
            self._begin()
            self.process_sources()
            for one in self._threads:
                one.stop()
            self._note()

    def bring_in_once(self, storage: Storage) -> None:
        """Bring all existing records into the topics, in a batch."""
        self.prepare()
        self.begin(None, storage, is_available_now=True)
        try:
            self.bring_in()
        finally:
            self.stop()

    def process_sources(self) -> None:
        """Wait until all existing records are in their topics; raise ``SourceError`` if one fails."""
        for one in self._threads:
            one.wait_until_read(lambda: self._is_stopping)
        self.check_running()
        self._note()

    def check_running(self) -> None:
        """Raise ``SourceError`` if one has failed. The next call starts that source again."""
        for one in self._threads:
            if (failure := one.failure) is not None:
                if one.is_told:
                    assert self._storage is not None
                    one.begin(self._storage, holds_back=not self._is_available_now)
                else:
                    one.is_told = True
                    raise failure

    def stop_sources(self) -> None:
        """Stop the sources behind the batches that they bring in. The next start continues them."""
        self._is_stopping = True
        for one in self._threads:
            one.stop()
        self._note()

    def stop(self) -> None:
        """Stop the sources."""
        self.stop_sources()

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


def _types(topology: Topology, topic: str) -> Any:
    return topology.feeds[topic].types


def _feed_of(node: Node) -> SourceFeed:
    feed = node.outside
    assert isinstance(feed, SourceFeed)
    if feed.source is None:
        raise ConfigError(f"source {feed.name!r} is not in this process: build the topology where it is started")
    if hasattr(feed.source, "check_types"):
        try:
            feed.source.check_types(*node.types)
        except ConfigError as error:
            raise ConfigError(f"source at {feed.where}: {error}") from None
    return feed
