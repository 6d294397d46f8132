"""One partition on its way into a sink: where to continue, the next batches, and what may leave the topic."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator

from penstock.engine.sinks.progress import Noted, SinkNotes
from penstock.errors import SinkError
from penstock.faults import crash_point
from penstock.log.base import Log
from penstock.log.records import Records, gathered
from penstock.log.rows import BATCH_BYTES, BATCH_ROWS
from penstock.plan.dataframes import SinkTarget
from penstock.serdes.record_columns import RecordColumns
from penstock.sinks.batch import SinkBatch
from penstock.sinks.protocol import SinkPartition
from penstock.values.times import wall_clock_ms

_log = logging.getLogger(__name__)

_GATHERED_BYTES = 64 << 20
"""How many bytes of records are given at once to a sink that wants many."""


class Delivery:
    """Hands the committed records of one partition on, and knows by the sink's own number what it has.

    Args:
        partition: which one, as the sink knows it.
        topic: the topic on the way.
        ends: where its partitions ended before this program wrote into it; no sink can have more yet. None once the
            sink has been asked.
        on_warning: is told what people have to know.

    Raises:
        SinkError: the sink cannot be continued.
        Exception: whatever the sink raises.
    """

    def __init__(
        self,
        target: SinkTarget,
        partition: SinkPartition,
        topic: str,
        columns: RecordColumns,
        log: Log,
        notes: SinkNotes,
        ends: list[int] | None,
        on_warning: Callable[[str], None],
    ):
        self._target = target
        self._partition = partition
        self._topic = topic
        self._columns = columns
        self._log = log
        self._notes = notes
        self._on_warning = on_warning
        self._has_numbers = True
        self.number = 0
        """The number that the sink has: the offset behind its last record."""
        self.next = 0
        """The offset to read from: behind the number where records in between are gone."""
        self._planned: int | None = None
        """The number of a batch that may be there in part: it is given first."""
        self._gather_rows: int | None = getattr(target.sink, "gather_rows", None)
        self._gather_seconds: float = getattr(target.sink, "gather_ms", 0) / 1000
        self._waits_since: float | None = None
        """Since when records wait until there are enough of them; None if none do."""
        self._writer = target.sink.open(partition)
        try:
            self._begin(log.end_offsets(topic) if ends is None else ends)
        except BaseException:
            self.close()
            raise

    # --- where to continue -------------------------------------------------------------------------------------------

    def _begin(self, ends: list[int]) -> None:
        said = self._writer.committed()
        noted = self._notes.of(self._partition.number)
        if said is None:
            self._has_numbers, said = False, noted.number
        elif type(said) is not int or said < 0:
            raise SinkError(f"{self._where}: committed() returns a number from 0 on, or None; it returned {said!r}")
        end = ends[self._partition.number] if self._partition.number < len(ends) else 0
        if said > end:
            raise SinkError(
                f"{self._where}: the sink has number {said:,}, and topic {self._topic!r} ended at offset {end:,}: "
                "the log was restored from an older copy, or another program wrote into the sink under this name. "
                "Nothing was written. Restore both as of one time, or remove the sink's rows and its number"
            )
        if said < noted.number:
            self._on_warning(
                f"{self._where}: the sink has number {said:,} and had {noted.number:,} before: it was restored from an "
                "older copy. Penstock writes the missing records again"
            )
            self._notes.note(self._partition.number, Noted(said, said), at_once=True)
        self._planned = self._writer.planned() if self._has_numbers else noted.planned
        if self._planned is not None and self._planned > end:
            raise SinkError(
                f"{self._where}: the sink has begun a batch up to number {self._planned:,}, and topic {self._topic!r} "
                f"ends at offset {end:,}: the log was restored from an older copy. Nothing was written. Restore both "
                "as of one time"
            )
        self.number = self.next = said
        self._waits_since = -math.inf if said < end else None  # what is there has waited since an earlier start
        self._skip_missing()

    def _skip_missing(self) -> None:
        first = self._log.start_offsets(self._topic)[self._partition.number]
        if self.next >= first:
            return
        gone = f"{self._where}: the sink has number {self.number:,}, and the records before offset {first:,} are gone"
        if not self._target.skips_missing:
            raise SinkError(
                f"{gone}: it lacks {first - self.number:,} records. Restore a copy of the sink with a higher number, "
                "or continue without them: to_sink(..., missing='skip'). Nothing was written"
            )
        self._on_warning(f"{gone}: it continues without {first - self.number:,} records (missing='skip')")
        self.next = first

    @property
    def _where(self) -> str:
        return f"sink {self._target.name!r} ({self._target.shown}), partition {self._partition.number}"

    # --- batches -----------------------------------------------------------------------------------------------------

    def hand_on(self, end: int, is_stopping: Callable[[], bool], is_at_once: bool = True) -> Iterator[int]:
        """Write the records up to an offset, batch by batch; yield how many each had.

        Args:
            is_at_once: whether records go on that could wait for others.
        """
        planned, self._planned = self._planned, None
        if planned is not None and planned > self.next:  # the sink may have it: the same batch again
            yield self._write(self._read(planned), planned)
        end = self._ready(end, is_at_once)
        for records in self._batches(end):
            if is_stopping():
                return
            yield self._write(records, records.end)
        if self.next < end and not is_stopping():  # the rest are gaps, as transactions leave them in Kafka
            self.next = end

    def _ready(self, end: int, is_at_once: bool) -> int:
        """Return the offset up to which no record waits for others."""
        if self._gather_rows is None or is_at_once:
            self._waits_since = None
            return end
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        if now - self._waits_since >= self._gather_seconds:
            self._waits_since = None
            return end
        full = max(0, end - self.next) // self._gather_rows * self._gather_rows
        if full:
            self._waits_since = now
        return self.next + full

    @property
    def waits(self) -> float:
        """The seconds until records have waited for long enough; infinite if none wait."""
        if self._waits_since is None:
            return math.inf
        return max(0.0, self._waits_since + self._gather_seconds - time.monotonic())

    def _read(self, end: int) -> Records:
        return next(gathered(self._log.read(self._topic, self._partition.number, self.next, end), 1 << 62, 1 << 62))

    def _batches(self, end: int) -> Iterator[Records]:
        if self._gather_rows is None:
            yield from gathered(self._pieces(self.next, end), BATCH_ROWS, BATCH_BYTES)
            return
        for start in range(self.next, end, self._gather_rows):
            pieces = self._pieces(start, min(start + self._gather_rows, end))
            yield from gathered(pieces, self._gather_rows, _GATHERED_BYTES)

    def _pieces(self, start: int, end: int) -> Iterator[Records]:
        for piece in self._log.read(self._topic, self._partition.number, start, end):
            yield from (piece.slice(at, at + BATCH_ROWS) for at in range(0, len(piece), BATCH_ROWS))

    def _write(self, records: Records, number: int) -> int:
        partition = self._partition.number
        if not self._has_numbers:
            plan = Noted(self.number, number, self._notes.of(partition).kept)
            self._notes.note(partition, plan, at_once=True)
        crash_point("before-sink")
        self._writer.write(SinkBatch(records, self._columns, self.number), number)
        crash_point("after-sink")
        self.number = self.next = number
        noted = self._notes.of(partition).at(number, wall_clock_ms(), self._target.keep_ms)
        self._notes.note(partition, noted)
        crash_point("after-sink-note")
        return len(records)

    def trim(self) -> int:
        """Return the offset up to which the topic need not keep records."""
        noted, offset = self._notes.of(self._partition.number).trimmed(wall_clock_ms(), self._target.keep_ms)
        self._notes.note(self._partition.number, noted)
        return min(offset, self.number)

    def close(self) -> None:
        self._writer.close()
