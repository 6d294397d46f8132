"""``suppress``: holds updates of a table back until they are due, or until the buffer is full (KIP-328)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, concat, is_present, nulls, spans
from penstock.columns.batch import NO_RECORD, Batch, Changes, Origins, order_columns, take_order
from penstock.columns.column import BytesColumn, windows_of
from penstock.errors import BufferFullError
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Collector, Operator
from penstock.ops.core.record_context import origins_of
from penstock.ops.core.written import PriorValues, Written
from penstock.ops.suppress.processing import TIME_AND_NO_HEADERS, Before, Outcome, Recorded, Work, process_updates
from penstock.ops.suppress.rules import FOREVER, NONE, Limits
from penstock.serdes import Serde
from penstock.state.clock import StreamTime
from penstock.state.columns.packed_headers import sizes_of_headers
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.buffer import Entries, TimeOrderedBuffer, in_order, join_entries
from penstock.state.kinds.held import Updates, no_updates, unpack

EMITTED = "suppression-emit-total"
COUNT = "suppression-buffer-count"
SIZE = "suppression-buffer-size"
OVERTIME = "intermediate-result-suppression-overtime"
"""Metric: how long a result was held back beyond its due time; measured from its last update."""

_BEHIND = 2**62
"""Sorts after everything that emitted records cause."""

_AT_ONCE = 8192
"""How many due entries on disk are read at once."""

_CONTEXT_BYTES = 8 + 8 + 8 + 4
"""The bytes that Kafka Streams counts for an entry apart from its data: the buffer's time, the record's time, offset,
partition."""


_TIME = 8
"""The bytes of a held value's timestamp, where headers count."""


class Suppress(Operator):
    """Holds updates back in a buffer.

    Args:
        until_close: emit final results of windows: the time of an entry is the end of its window, and deletions are
            left out, since nothing was emitted before. Otherwise the time of an entry is that of its first update.
        limits: the size of the buffer, and what happens when it is full.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        buffer: TimeOrderedBuffer,
        clock: StreamTime,
        until_close: bool,
        limits: Limits,
        sends_old: bool,
        key: Serde,
        value: Serde,
    ):
        self._node = node
        self._context = context
        self._buffer = buffer
        self._clock = clock
        self._until_close = until_close
        self._limits = limits
        self._sends_old = sends_old
        self._key = key
        self._value = value

    def step(self, batch: Batch, out: Collector) -> None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        assert isinstance(batch, Changes)
        if len(batch):
            self._hold(batch, out)

    def _hold(self, batch: Changes, out: Collector) -> None:
        """Hold updates, and emit the entries that are due. If very many entries on disk are due, they are read in
        pieces."""
        if not out.sends_at_once or not self._reads_in_pieces(batch):
            self._hold_together(batch, out)
        elif len(batch) > 1:
            half = len(batch) // 2
            self._hold(batch.slice(0, half), out)
            self._hold(batch.slice(half, len(batch)), out)
        else:
            self._burst(batch, out)

    def _reads_in_pieces(self, batch: Changes) -> bool:
        """True if more entries are due than fit into one read, and all of them will be emitted."""
        stream_time = max(self._clock.now, int(batch.timestamp.max()))
        return not self._limits.are_any and self._buffer.is_due_more_than(stream_time, _AT_ONCE)

    def _hold_together(self, batch: Changes, out: Collector) -> None:
        work = self._work(batch, self._clock.advance(batch.timestamp) - self._buffer.retention)
        outcome = self._processed(work)
        if self._buffer.name in self._context.facts.looked_up:
            self._context.chunk.prior[self._buffer.name] = self._note(work, outcome)
        self._write(work, outcome)
        out.emit(self._sent_on(work, outcome))

    def _burst(self, batch: Changes, out: Collector) -> None:
        """Process one update that makes very many others due: hold it like any other, then emit all of those."""
        work = self._work(batch, self._clock.advance(batch.timestamp) - self._buffer.retention)
        outcome = self._outcome(replace(work, expiry=np.array([NONE])), join_entries([]), NONE)
        self._put(work, outcome)
        records, nbytes = int(outcome.recorded.records[-1]), int(outcome.recorded.nbytes[-1])
        before, sent = np.array([records, nbytes]), 0
        for entries in self._buffer.let_go(self._clock.now, _AT_ONCE):
            gone = unpack(entries.values.data)
            records, nbytes = records - len(entries.times), nbytes - int(gone.sizes.sum())
            changes = self._sent(batch, entries, gone, sent)
            sent += 0 if changes is None else len(changes)
            out.emit(changes)
        self._record(Recorded(*np.stack([before, np.array([records, nbytes])]).T))

    def _sent(self, batch: Changes, entries: Entries, gone: Updates, first: int) -> Changes | None:
        """Return the entries that are emitted at the single update of a batch; ``first`` is the number of the first
        entry."""
        if self._until_close:
            sent = np.flatnonzero(gone.new.is_valid().to_numpy(zero_copy_only=False))
            entries, gone = entries.take(sent), gone.take(sent)
        count = len(entries.times)
        if not count:
            return None
        self._count(count, entries.times, gone.seen)
        order = (*take_order(batch.order, np.zeros(count, np.int64)), np.arange(first, first + count))
        old = BytesColumn(gone.old, batch.value.serde) if self._sends_old else None
        key, value = BytesColumn(entries.keys, batch.key.serde), BytesColumn(gone.new, batch.value.serde)
        parts = (key, value, entries.values.timestamps, order, gone.headers, batch.placed, old)
        return Changes(*parts, held=gone.origins)

    def advance_time(self, out: Collector) -> None:
        """Emit entries that are due because time has advanced without a record."""
        due = self._buffer.due(self._clock.now)
        due = due.take(in_order(due.times, due.keys))
        gone = _unpack_present(due.values.data)
        self._buffer.advance(self._clock.now)
        if not len(due.times):
            return
        held = self._held_now()
        self._record(Recorded(held.records - len(due.times), held.nbytes - int(gone.sizes.sum())))
        sent = np.flatnonzero(gone.new.is_valid().to_numpy(zero_copy_only=False))
        if not sent.size:
            return
        due, gone = due.take(sent), gone.take(sent)
        self._count(len(sent), due.times, gone.seen)
        order = np.full(len(sent), NO_RECORD), np.arange(len(sent))
        old = BytesColumn(gone.old, self._value) if self._sends_old else None
        keys, values = BytesColumn(due.keys, self._key), BytesColumn(gone.new, self._value)
        parts = (keys, values, due.values.timestamps, order, gone.headers, None, old)
        out.emit(Changes(*parts, held=gone.origins))

    def _count(self, sent: int, times: IntArray, seen: IntArray) -> None:
        """Count the emitted updates, and for due entries the time since their last update."""
        self._context.count(EMITTED, self._node, sent)
        self._context.observe(OVERTIME, self._node, np.maximum(self._buffer.retention - (seen - times), 0))

    # --- deciding ------------------------------------------------------------------------------------------------

    def _work(self, batch: Changes, expiry: IntArray) -> Work:
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        times = windows_of(batch.key)[1] if self._until_close else batch.timestamp
        held_times, values = self._buffer.held(keys, times[groups.order[groups.starts]])
        old = nulls(len(batch)) if batch.old is None else batch.old.encoded()
        new = batch.value.encoded()
        origins = origins_of(self._context.facts, batch)
        sizes = spans(keys.data).length[codes] + _lengths(new) + _lengths(old) + origins.topic_bytes()
        sizes += _context_bytes(batch)
        seen, held = expiry + self._buffer.retention, _unpack_present(values.data)
        headers, held_headers = np.zeros(len(batch), np.int64), np.zeros(len(keys), np.int64)
        if self._limits.with_headers:
            headers, held_headers = _headers_of(batch.headers, new), _headers_of(held.headers, held.new)
            sizes += headers + _TIME * (is_present(new).astype(np.int64) + is_present(old))
        return Work(
            batch, keys, codes, times, expiry, new, old, sizes, seen, origins, held_times, held, headers, held_headers
        )

    def _processed(self, work: Work) -> Outcome:
        """Run a chunk through the rules; entries that are evicted early are removed from the buffer.

        Raises:
            BufferFullError: the buffer is over its limit and must not emit early.
        """
        for entries, known_until in self._entries(work):
            outcome = self._outcome(work, entries, known_until)
            if outcome.done == len(work.codes):
                break
            if self._limits.shuts_down:
                raise self._full(work.batch, outcome.done, outcome.recorded)
        early = np.flatnonzero(outcome.gone.is_stored & (outcome.gone.time > work.expiry[-1]))
        if early.size:
            gone = outcome.gone.take(early)
            self._buffer.delete(Keys(outcome.keys.take(pa.array(gone.key)), gone.time))
        return outcome

    def _entries(self, work: Work) -> Iterator[tuple[Entries, int]]:
        """Yield the entries that may be evicted, with the time up to which they are complete. These are the due
        entries, and, if the buffer may be over its limit, more and more of the oldest ones."""
        held, (records, nbytes, shuts_down, _), count = self._held_now(), self._limits, len(work.codes)
        grows = int(work.sizes.sum() + _lengths(work.old).sum() + 2 * work.headers.sum() + work.held_headers.sum())
        grows += 2 * TIME_AND_NO_HEADERS * count if self._limits.with_headers else 0
        if shuts_down or (held.records[0] + count <= records and held.nbytes[0] + grows <= nbytes):
            yield self._buffer.due(self._clock.now), int(work.expiry[-1])
            return
        entries = join_entries([])
        for piece in self._buffer.oldest_first(count):
            entries = join_entries([entries, piece])
            last = int(entries.times[-1])
            if len(entries.times) < held.records[0] and last >= work.expiry[-1]:
                yield entries, last
        yield entries, FOREVER

    def _outcome(self, work: Work, entries: Entries, known_until: int) -> Outcome:
        key = pc.index_in(entries.keys, work.keys.data).fill_null(NONE).to_numpy().astype(np.int64)
        before = Before(entries, _unpack_present(entries.values.data), key, known_until)
        return process_updates(self._limits, work, before, self._held_now())

    def _held_now(self) -> Recorded:
        numbers = self._buffer.numbers
        return Recorded(np.array([numbers.get("records", 0)]), np.array([numbers.get("bytes", 0)]))

    def _full(self, batch: Changes, row: int, recorded: Recorded) -> BufferFullError:
        return BufferFullError(
            f"{self._node} buffer exceeded its max capacity. "
            f"Currently [{recorded.records[-1]}/{self._limits.records}] records and "
            f"[{recorded.nbytes[-1]}/{self._limits.nbytes}] bytes, at the update of key "
            f"{batch.key.decoded()[row]!r}, timestamp {batch.timestamp[row]}. Nothing of this commit was kept and "
            "nothing is lost: start again with larger limits, with spill_to_disk_when_full(), or with a shorter time "
            "to wait"
        )

    # --- writing and sending on ----------------------------------------------------------------------------------

    def _write(self, work: Work, outcome: Outcome) -> None:
        self._buffer.advance(self._clock.now)
        self._put(work, outcome)
        self._record(outcome.recorded)

    def _put(self, work: Work, outcome: Outcome) -> None:
        if outcome.kept.size:
            located = self._buffer.locate(work.keys.at(outcome.kept, outcome.time))
            packed = outcome.updates.take(outcome.row).pack()
            self._buffer.put(located, Values(packed, work.batch.timestamp[outcome.row]))

    def _record(self, recorded: Recorded) -> None:
        numbers, context, name = self._buffer.numbers, self._context, self._buffer.name
        for what, kept, recordings in ((COUNT, "records", recorded.records), (SIZE, "bytes", recorded.nbytes)):
            if kept not in numbers:
                context.observe(what, name, np.zeros(1, np.int64))  # as Kafka Streams does when it opens a buffer
            context.observe(what, name, recordings)
        numbers["records"], numbers["bytes"] = int(recorded.records[-1]), int(recorded.nbytes[-1])
        context.count(f"{COUNT}-current", name, numbers["records"])
        context.count(f"{SIZE}-current", name, numbers["bytes"])

    def _note(self, work: Work, outcome: Outcome) -> Written[PriorValues]:
        """Note which keys are held from which record on, with their prior values; called before the buffer is written.

        An emitted record still finds its key held.
        """
        gone, rows, batch = outcome.gone, len(work.codes), work.batch
        number, is_row = np.arange(len(gone.at)), np.arange(rows + len(gone.at)) < rows
        at = np.concatenate([np.arange(rows), gone.at])
        columns = [column[at] for column in order_columns(batch.order, rows, len(batch.order))]
        columns += [np.append(np.zeros(rows, np.int64), number), np.where(is_row, 0, _BEHIND)]
        in_order = np.lexsort(columns[::-1])
        prior = concat([outcome.updates.prior, nulls(len(number))])
        writes = PriorValues(prior, is_row).take(in_order)
        before = PriorValues(
            concat([work.held.prior, outcome.before.updates.prior]),
            np.append(work.held_times != NONE, outcome.before.key == NONE),
        )
        codes = np.append(work.codes, gone.key)[in_order]
        return Written(Keys(outcome.keys), before, codes, writes, tuple(column[in_order] for column in columns))

    def _sent_on(self, work: Work, outcome: Outcome) -> Changes | None:
        batch, gone, before = work.batch, outcome.gone, outcome.before
        every = outcome.updates.join(before.updates)
        if self._until_close and gone.update.size:
            exists = every.new.take(pa.array(gone.update)).is_valid().to_numpy(zero_copy_only=False)
            gone = gone.take(np.flatnonzero(exists))
        at, update = gone.at, gone.update
        if not update.size:
            return None
        sent = every.take(update)
        in_time = gone.time <= work.expiry[at]
        self._count(len(update), gone.time[in_time], sent.seen[in_time])
        stamps = np.concatenate([batch.timestamp, before.entries.values.timestamps])[update]
        serde = batch.value.serde
        order = (*take_order(batch.order, at), np.arange(len(at)))
        old = BytesColumn(sent.old, serde) if self._sends_old else None
        key, value = BytesColumn(outcome.keys.take(pa.array(gone.key)), batch.key.serde), BytesColumn(sent.new, serde)
        parts = (key, value, stamps, order, sent.headers, batch.placed, old)
        return Changes(*parts, held=sent.origins)


def _unpack_present(packed: Binary) -> Updates:
    """Unpack values; null ones get size 0."""
    if not len(packed):
        return no_updates()
    present = np.flatnonzero(packed.is_valid().to_numpy(zero_copy_only=False))
    if present.size == len(packed):
        return unpack(packed)
    found = unpack(packed.take(pa.array(present)))
    places = np.full(len(packed), -1, np.int64)
    places[present] = np.arange(present.size)
    chosen = pa.array(places, mask=places < 0)
    headers = None if found.headers is None else found.headers.take(chosen)
    sizes, seen = np.zeros((2, len(packed)), np.int64)
    sizes[present], seen[present] = found.sizes, found.seen
    origins = found.origins.join(Origins.alike(1)).take(np.where(places < 0, present.size, places))
    new, old, prior = (part.take(chosen) for part in (found.new, found.old, found.prior))
    return Updates(new, old, prior, headers, sizes, seen, origins)


def _context_bytes(batch: Changes) -> IntArray:
    """The bytes that updates count apart from their data and their topic."""
    sizes = np.full(len(batch), _CONTEXT_BYTES)
    if batch.headers is None:
        return sizes
    every = pc.list_flatten(batch.headers)
    values = pc.binary_length(pc.struct_field(every, "value")).fill_null(0).to_numpy()
    lengths = pc.utf8_length(pc.struct_field(every, "key")).to_numpy() + values
    owner = pc.list_parent_indices(batch.headers).to_numpy()
    return sizes + np.bincount(owner, lengths, len(batch)).astype(np.int64)


def _headers_of(headers: Any, values: Binary) -> IntArray:
    """The bytes of headers beside values; 0 for null."""
    return np.where(is_present(values), sizes_of_headers(headers, len(values)), 0)


def _lengths(data: Binary) -> IntArray:
    """The lengths of values; 0 for null."""
    length = spans(data).length if data.null_count < len(data) else np.zeros(len(data), np.int64)
    return length if not data.null_count else np.where(data.is_null().to_numpy(zero_copy_only=False), 0, length)
