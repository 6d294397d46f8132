"""Makes a commit's output visible: at once, or in a thread beside the work on the next commit.

The next commit's manifest waits until publishing is done, because a start repeats the appends of the newest manifest
only. So readers see the same either way. The one difference after a crash: there may be files of an attempt that no
manifest names, while the previous commit is not visible yet. A start publishes that commit and removes the files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor

from penstock.engine.commit.claim import producer_of
from penstock.engine.commit.older_log import check_outputs, older
from penstock.engine.commit.opening import Opened
from penstock.engine.shared.description import Description
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.errors import FencedError, PenstockError, TopicNotFoundError
from penstock.faults import crash_point
from penstock.log.base import Log
from penstock.storage.base import Storage


class Publishing:
    """Appends the output of commits to its topics.

    Args:
        fenced: returns the error of a program that was taken over; None if it was not.

    Attributes:
        is_beside: whether publishing runs in its own thread, beside the next commit.
        on_done: called by the thread that waits for such an append, with the time at which it was done.
        last: the last commit whose records are known to be in their topics.
        left_out: the topics into which a start could not append the newest commit's output.
    """

    def __init__(self, opened: Opened, fenced: Callable[[], FencedError | None]):
        self._opened, self._log, self._producer = opened, opened.log, opened.producer
        self._fenced = fenced
        self.is_beside = False
        self.last = -1
        self.left_out: set[str] = set()
        self.on_done: Callable[[float], None] = lambda at: None
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[float] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether the newest commit's publishing has not been waited for yet."""
        return self._under_way is not None

    def can_be_beside(self) -> bool:
        """Return whether publishing in a thread keeps the order that readers see.

        That requires three things: the application reads none of its own outputs, it is not at-least-once (which has a
        second manifest), and the log supports it.
        """
        topology, settings = self._opened.topology, self._opened.settings
        reads_own = not set(self._opened.outputs).isdisjoint(topology.source_topics)
        is_open = topology.has_patterns or topology.dynamic_sinks or reads_own
        return self._log.can_publish_beside and not is_open and not settings.at_least_once

    def begin(self, manifest: Manifest) -> None:
        """Publish a commit, or start publishing it. The previous one must be done."""
        if not self.is_beside:
            self._published(manifest)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"penstock {self._opened.application_id} publishes")
        try:
            self._under_way = self._thread.submit(self._published, manifest)
        except RuntimeError:  # the interpreter is exiting and starts no threads
            self._published(manifest)

    def finish(self) -> None:
        """Wait until the commit is visible. Raise the error if publishing failed."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            crash_point("awaits-publish")
            self.on_done(under_way.result())

    def close(self) -> None:
        """Stop the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _published(self, manifest: Manifest) -> float:
        crash_point("before-publish")
        self.publish(manifest)
        crash_point("after-publish")
        return time.monotonic()

    def publish(self, manifest: Manifest, repeated: bool = False) -> None:
        """Append a commit's output, unless it is already there.

        Raises:
            FencedError: it is there, though this program has not repeated it: another program has taken over.
        """
        offsets = self._opened.offsets(manifest)
        with self._log.publishing(self._producer, manifest.sequence, offsets, manifest.published):
            self._append(manifest, repeated)
        self.last = manifest.sequence

    def _append(self, manifest: Manifest, repeated: bool) -> None:
        opened, log, producer = self._opened, self._log, self._producer
        for topic, segments in manifest.sinks.items():
            try:
                known = manifest.outputs.get(topic, -1)
                if not repeated and log.lacks(topic, producer, known):
                    raise older(log, topic, producer, known, opened.application_id)
                appended = log.append(topic, segments, producer, manifest.sequence)
            except TopicNotFoundError:
                if repeated and (topic in opened.topics.adopted or topic not in opened.outputs):
                    self.left_out.add(topic)  # created again when manifests had no ids, or chosen and gone
                    continue
                raise self._missing(topic, manifest) from None
            if not appended and not repeated:
                raise self._fenced() or FencedError(
                    f"topic {topic!r} already has commit {manifest.commit} of application "
                    f"{opened.application_id!r}: another program has taken over, and this one stops"
                )
            crash_point("during-publish")

    def _missing(self, topic: str, manifest: Manifest) -> PenstockError:
        """Return the error for an output into which records cannot be appended: it is gone, or an older copy."""
        log, known = self._log, manifest.topics.get(topic)
        if known and log.exists(topic) and log.topic_id(topic) == known:
            return older(log, topic, self._producer, manifest.commit, self._opened.application_id)
        return self._opened.topics.output_is_gone(topic, manifest.commit)


def publish_newest(
    log: Log,
    storage: Storage,
    newest: Manifest,
    application_id: str,
    kept: Description,
    emptied: Collection[str] = (),
) -> None:
    """Repeat the appends that a crash of the newest commit may have left undone, as a start would.

    Args:
        kept: the topics that the application reads.
        emptied: outputs that are emptied next; records missing from them do not matter.

    Raises:
        CorruptDataError: an output was restored from an older copy.
    """
    producer, outbox = producer_of(newest.application), log.with_outbox(storage, application_id)
    check_newest(log, newest, application_id, emptied)
    if not newest.sinks:
        return
    offsets = {
        topic: [read_up_to(newest, kept, topic, partition) for partition in range(count)]
        for topic, count in kept.topics.items()
        if topic in newest.topics
    }
    with outbox.publishing(producer, newest.sequence, offsets):
        for topic, segments in newest.sinks.items():
            if not log.exists(topic) or log.topic_id(topic) != newest.topics.get(topic, log.topic_id(topic)):
                continue  # it has been removed since, and possibly created again
            try:
                outbox.append(topic, segments, producer, newest.sequence)
            except TopicNotFoundError:
                if topic not in emptied:
                    raise older(log, topic, producer, newest.sequence, application_id) from None


def check_newest(log: Log, newest: Manifest, application_id: str, emptied: Collection[str] = ()) -> None:
    """Raise ``CorruptDataError`` when an output was restored from an older copy, unless it is emptied next."""
    kept = [topic for topic in newest.topics if topic not in emptied]
    check_outputs(log, newest, kept, producer_of(newest.application), application_id)


def read_up_to(newest: Manifest, kept: Description, topic: str, partition: int) -> int:
    """Return the offset up to which a partition of a source is read."""
    return newest.tasks.get(str(TaskId(kept.readers[topic], partition)), TaskEntry()).offsets.get(topic, 0)
