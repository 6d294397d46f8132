"""One stay at a source: where to continue, and batches that are appended together with the offset behind them."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from penstock.engine.sources.progress import Noted, SourceNotes
from penstock.errors import SourceError
from penstock.faults import crash_point
from penstock.log.base import Log
from penstock.log.contract.writer import LONGEST_NOTE, LastAppend
from penstock.log.produce import write_batch
from penstock.log.rows import BATCH_ROWS
from penstock.messages import show
from penstock.sources.encoding import encoded
from penstock.sources.protocol import Source, SourceBatch, SourceContext
from penstock.values.decoding import from_json


class _Position(msgspec.Struct, frozen=True):
    """The note of an append."""

    by: str
    """A name that no other append has: it tells two processes apart that append under one number."""
    at: Any
    """The offset behind the records."""


class OvertakenError(Exception):
    """Another process has brought records of the source in meanwhile."""


class Feed:
    """Appends the records of a source to its topic, each batch under the next number and with the offset behind it.

    The log takes a number once. So another process that reads the source for the same topic, such as a program that
    slept, appends nothing twice.

    Raises:
        SourceError: the source cannot be continued.
        Exception: whatever the source raises.
    """

    def __init__(self, source: Source, context: SourceContext, topic: str, log: Log, notes: SourceNotes):
        self._context = context
        self._topic = topic
        self._log = log
        self._notes = notes
        self._topic_id = log.topic_id(topic)
        self._info = log.topic(topic)
        self._turn = sum(log.end_offsets(topic))
        self._sequence, note = self._begun(log.last_append(topic, topic))
        self._offset = from_json(note, _Position).at if note else None
        self._reader = source.open(context)
        try:
            if note:
                self._reader.committed(self._offset)
        except BaseException:
            self.close()
            raise

    def _begun(self, last: LastAppend) -> LastAppend:
        """Return the last batch that arrived."""
        noted = self._notes.noted
        if noted is not None and noted.topic != self._topic_id:
            raise SourceError(
                f"topic {self._topic!r} was removed and created again, and the source has brought records into the "
                "former one. Restore the topic, or start the program under another application id to read the source "
                "from its beginning"
            )
        if noted is None or last.sequence > noted.sequence or (last.sequence == noted.sequence and last.note):
            return self._known(last)
        if last.sequence == noted.sequence:  # an older release has written the topic's state without the note
            return LastAppend(noted.sequence, noted.note)
        if last.sequence < 0 and self._log.forgets_appends:
            if noted.is_planned:
                raise SourceError(
                    f"Kafka no longer knows what the source has brought into topic {self._topic!r}: it forgets a "
                    "group that is still for long (offsets.retention.minutes). Whether batch "
                    f"{noted.sequence:,}, which a crash interrupted, has arrived is not known. Look whether its "
                    "records are in the topic. Then start the program under another application id"
                )
            return LastAppend(noted.sequence, noted.note)
        if not noted.is_planned:
            self._context.warn(
                f"topic {self._topic!r} lacks records that the source had brought in: the log was restored from an "
                "older copy. The source is read again from where that copy ends"
            )
        return self._known(last)

    def _known(self, last: LastAppend) -> LastAppend:
        if last.sequence >= 0 and not last.note:
            raise SourceError(
                f"topic {self._topic!r} does not say how far the source was read: another release has written it"
            )
        return last

    def step(self, most: int = BATCH_ROWS) -> int | None:
        """Bring one batch in. Return how many records it had, or None if there are none for now."""
        batch: Any = self._reader.read(self._offset, most)
        if batch is None:
            return None
        if not isinstance(batch, SourceBatch):
            raise SourceError(f"read() returns a SourceBatch or None; it returned {show(batch)}")
        position = self._position(batch.offset)
        count = self._append(batch, position)
        self._sequence += 1
        self._offset = from_json(position, _Position).at
        crash_point("after-source-append")
        self._reader.committed(self._offset)
        self._notes.note(Noted(self._topic_id, self._sequence, position))
        crash_point("after-source-note")
        return count

    def _append(self, batch: SourceBatch, position: str) -> int:
        count, topic, number = 0, self._topic, self._sequence + 1
        with self._log.writer(topic, f"source-{os.urandom(8).hex()}") as writer:
            for records in encoded(batch, self._context):
                self._turn += write_batch(writer, self._info, records, self._turn)
                count += len(records)
        if self._log.forgets_appends:
            self._notes.note(Noted(self._topic_id, number, position, is_planned=True), at_once=True)
        crash_point("before-source-append")
        if not self._log.append(topic, writer.segments(), topic, number, position):
            raise OvertakenError("another process has read the source meanwhile")
        return count

    def _position(self, offset: Any) -> str:
        try:
            text = msgspec.json.encode(_Position(os.urandom(8).hex(), offset)).decode()
        except Exception as error:
            raise SourceError(f"the offset of a batch is one that JSON can say; got {show(offset)}: {error}") from None
        if len(text.encode()) > LONGEST_NOTE:
            raise SourceError(f"the offset of a batch has less than {LONGEST_NOTE:,} bytes as JSON; got {show(offset)}")
        return text

    def close(self) -> None:
        self._reader.close()
