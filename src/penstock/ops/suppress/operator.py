"""``suppress``: holds updates of a table back until their time has come, or until there is no more room (KIP-328)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, concat, nulls, spans
from penstock.batch import NO_RECORD, Batch, Changes, order_columns, take_order
from penstock.columns import BytesColumn, windows_of
from penstock.errors import BufferFullError
from penstock.ops.core.context import Context
from penstock.ops.core.groups import Groups, group_keys
from penstock.ops.core.operator import Operator
from penstock.ops.core.written import Written
from penstock.ops.suppress.eviction import NotEnough, Sizes, early_plan
from penstock.ops.suppress.timing import NOT_HELD, Chunk, Ledger, Limits, Plan, ledger_of, plan_of
from penstock.serdes import Serde
from penstock.state.clock import StreamTime
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.buffer import Entries, TimeOrderedBuffer, in_order, join_entries
from penstock.state.kinds.held import Updates, no_updates, unpack

EMITTED = "suppression-emit-total"
COUNT = "suppression-buffer-count"
SIZE = "suppression-buffer-size"
OVERTIME = "intermediate-result-suppression-overtime"
"""How much longer a result was held back than was needed: the time from its last update until it was due."""

HELD = 1
FREE = 0
"""Stand as timestamps of the values before what is held back."""

_BEHIND = 2**62
"""Behind all that records cause that are sent on."""

_AT_ONCE = 8192
"""How much of what lies on disk and is due is read at once."""

_CONTEXT_BYTES = 8 + 8 + 8 + 4
"""What Kafka Streams counts for an entry besides its data: the buffer's time, the record's time, offset, partition."""


class Suppress(Operator):
    """Holds updates back in a buffer.

    Args:
        until_close: send final results of windows: the time of an entry is the end of its window, and deletions are
            not sent on, since nothing was sent before. Otherwise the time is that of the update that began it.
        limits: what the buffer may hold.
        shuts_down: fail when it would hold more; otherwise the oldest entries go on early.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        buffer: TimeOrderedBuffer,
        clock: StreamTime,
        until_close: bool,
        limits: Limits,
        shuts_down: bool,
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
        self._shuts_down = shuts_down
        self._sends_old = sends_old
        self._key = key
        self._value = value

    def step(self, batch: Batch) -> Changes | None:
        batch = self._context.encoded(self._node, batch, "key", "value")
        assert isinstance(batch, Changes)
        if not len(batch):
            return None
        expiry = self._clock.advance(batch.timestamp) - self._buffer.retention
        work = self._work(batch, expiry)
        due = self._buffer.due(self._clock.now)
        done = self._with_room(work, due)
        full = done.ledger.first_over(self._limits)
        if full is not None:
            if self._shuts_down:
                raise self._full(batch, full, done.ledger)
            done = self._without_room(work, int(expiry[-1]))
        if self._buffer.name in self._context.facts.looked_up:
            self._context.chunk.written[self._buffer.name] = self._note(work, done)
        self._write(work, done)
        return self._emit(work, done)

    def step_in_pieces(self, batch: Batch) -> Iterator[Changes | None]:
        """What becomes of a chunk, in pieces: when very much of what lies on disk is due, it is read piece by piece."""
        stream_time = max(self._clock.now, int(batch.timestamp.max(initial=-1)))
        if self._limits != Limits() or not self._buffer.is_due_more_than(stream_time, _AT_ONCE):
            yield self.step(batch)
        elif len(batch) > 1:
            half = len(batch) // 2
            yield from self.step_in_pieces(batch.take(np.arange(half)))
            yield from self.step_in_pieces(batch.take(np.arange(half, len(batch))))
        else:
            yield from self._burst(batch)

    def _burst(self, batch: Batch) -> Iterator[Changes | None]:
        """What becomes of one update that makes very many others due: it is held like any other, then all those go."""
        batch = self._context.encoded(self._node, batch, "key", "value")
        assert isinstance(batch, Changes)
        if not len(batch):
            return
        work = self._work(batch, self._clock.advance(batch.timestamp) - self._buffer.retention)
        done = self._with_room(work._replace(chunk=work.chunk._replace(expiry=np.array([NOT_HELD]))), join_entries([]))
        self._put(work, done)
        records, nbytes = int(done.ledger.records[-1]), int(done.ledger.nbytes[-1])
        before, sent = np.array([records, nbytes]), 0
        for entries in self._buffer.let_go(self._clock.now, _AT_ONCE):
            gone = unpack(entries.values.data)
            records, nbytes = records - len(entries.times), nbytes - int(gone.sizes.sum())
            changes = self._sent(batch, entries, gone, sent)
            sent += 0 if changes is None else len(changes)
            yield changes
        after = np.array([records, nbytes])
        self._record(Ledger(after[:1], after[1:], *np.stack([before, after]).T))

    def _sent(self, batch: Changes, entries: Entries, gone: Updates, first: int) -> Changes | None:
        """Entries that are let go of at the one update of a batch; the first of them has a number."""
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
        return Changes(*parts, topic_bytes=gone.topic_bytes)

    def advance_time(self) -> Changes | None:
        """Let go of what is due by a time that went on without a record."""
        due = self._buffer.due(self._clock.now)
        due = due.take(in_order(due.times, due.keys))
        gone = _unpack_present(due.values.data)
        self._buffer.advance(self._clock.now)
        if not len(due.times):
            return None
        held, size = self._held_now()
        records, nbytes = np.array([held - len(due.times)]), np.array([size - int(gone.sizes.sum())])
        self._record(Ledger(records, nbytes, records, nbytes))
        sent = np.flatnonzero(gone.new.is_valid().to_numpy(zero_copy_only=False))
        if not sent.size:
            return None
        due, gone = due.take(sent), gone.take(sent)
        self._count(len(sent), due.times, gone.seen)
        order = np.full(len(sent), NO_RECORD), np.arange(len(sent))
        old = BytesColumn(gone.old, self._value) if self._sends_old else None
        keys, values = BytesColumn(due.keys, self._key), BytesColumn(gone.new, self._value)
        parts = (keys, values, due.values.timestamps, order, gone.headers, None, old)
        return Changes(*parts, topic_bytes=gone.topic_bytes)

    def _count(self, sent: int, times: IntArray, seen: IntArray) -> None:
        """Count what was sent on, and how long after the last update of each that was due it was so."""
        self._context.count(EMITTED, self._node, sent)
        self._context.observe(OVERTIME, self._node, np.maximum(times + self._buffer.retention - seen, 0))

    # --- deciding ------------------------------------------------------------------------------------------------

    def _work(self, batch: Changes, expiry: IntArray) -> _Work:
        keys, codes = group_keys(batch.key.encoded())
        groups = Groups.by_number(codes)
        times = self._times(batch)
        held, values = self._buffer.held(keys, times[groups.order[groups.starts]])
        chunk = Chunk(keys.data, groups, times, expiry, held)
        old = nulls(len(batch)) if batch.old is None else batch.old.encoded()
        new = batch.value.encoded()
        topics = self._context.topic_bytes_of(batch)
        sizes = spans(keys.data).length[codes] + _lengths(new) + _lengths(old) + topics + _context_bytes(batch)
        seen = expiry + self._buffer.retention
        return _Work(batch, keys, codes, chunk, new, old, sizes, seen, topics, _unpack_present(values.data))

    def _times(self, batch: Changes) -> IntArray:
        return windows_of(batch.key)[1] if self._until_close else batch.timestamp

    def _with_room(self, work: _Work, due: Entries) -> _Done:
        """What happens if there is room for all."""
        in_chunk = pc.index_in(due.keys, work.keys.data).fill_null(-1).to_numpy().astype(np.int64)
        return self._done(work, plan_of(work.chunk, due, in_chunk), due, *self._held_now())

    def _without_room(self, work: _Work, expiry: int) -> _Done:
        """What happens when the oldest entries have to go early; these are taken out of the buffer."""
        records, nbytes = self._held_now()
        pieces = self._buffer.oldest_first(len(work.codes))
        before = next(pieces, join_entries([]))
        while True:
            keys = pc.index_in(before.keys, work.keys.data).fill_null(-1).to_numpy().astype(np.int64)
            others = _unpack_present(before.values.data.filter(pa.array(keys < 0))).sizes
            try:
                early = early_plan(work.chunk, before, keys, work.all_sizes(others), records, nbytes, self._limits)
                break
            except NotEnough:
                before = join_entries([before, next(pieces)])
        done, held = self._done(work, early.plan, before.take(early.gone), records, nbytes), work.chunk.held
        first = np.flatnonzero(done.gone.times > expiry)
        replaced = early.replaced[held[early.replaced] > expiry]
        gone = concat([done.gone.keys.take(pa.array(first)), work.keys.data.take(pa.array(replaced))])
        if len(gone):
            self._buffer.delete(Keys(gone, np.concatenate([done.gone.times[first], held[replaced]])))
        return done

    def _done(self, work: _Work, plan: Plan, gone: Entries, records: int, nbytes: int) -> _Done:
        updates, before = work.updates(plan), _unpack_present(gone.values.data)
        sizes = np.concatenate([updates.sizes, before.sizes])
        return _Done(plan, ledger_of(work.chunk, plan, sizes, work.held.sizes, records, nbytes), updates, gone, before)

    def _held_now(self) -> tuple[int, int]:
        numbers = self._buffer.numbers
        return numbers.get("records", 0), numbers.get("bytes", 0)

    def _full(self, batch: Changes, row: int, ledger: Ledger) -> BufferFullError:
        return BufferFullError(
            f"{self._node} buffer exceeded its max capacity. Currently [{ledger.records[row]}/{self._limits.records}] "
            f"records and [{ledger.nbytes[row]}/{self._limits.nbytes}] bytes, at the update of key "
            f"{batch.key.decoded()[row]!r}, timestamp {batch.timestamp[row]}. Nothing of this commit was kept and "
            "nothing is lost: start again with larger limits, with spill_to_disk_when_full(), or with a shorter time "
            "to wait"
        )

    # --- writing and sending on ----------------------------------------------------------------------------------

    def _write(self, work: _Work, done: _Done) -> None:
        self._buffer.advance(self._clock.now)
        self._put(work, done)
        self._record(done.ledger)

    def _put(self, work: _Work, done: _Done) -> None:
        plan = done.plan
        if plan.kept.size:
            located = self._buffer.locate(work.keys.at(plan.kept, plan.time))
            self._buffer.put(located, Values(done.updates.take(plan.row).pack(), work.batch.timestamp[plan.row]))

    def _record(self, ledger: Ledger) -> None:
        numbers, context, name = self._buffer.numbers, self._context, self._buffer.name
        records, nbytes = ledger.recorded_records, ledger.recorded_bytes
        for what, kept, recordings in ((COUNT, "records", records), (SIZE, "bytes", nbytes)):
            if kept not in numbers:
                context.observe(what, name, np.zeros(1, np.int64))  # as Kafka Streams does when a buffer opens
            context.observe(what, name, recordings)
        numbers["records"], numbers["bytes"] = int(ledger.records[-1]), int(ledger.nbytes[-1])
        context.count(f"{COUNT}-current", name, numbers["records"])
        context.count(f"{SIZE}-current", name, numbers["bytes"])

    def _note(self, work: _Work, done: _Done) -> Written:
        """What keys are held, with which value before, from which record on; before the buffer is written.

        A record that is sent on still finds its key held.
        """
        at, update, _ = done.plan.emissions
        count, rows, number = len(at), np.arange(len(work.batch)), np.arange(len(at))
        keys = concat([work.keys.data, done.gone.keys]).dictionary_encode()
        key_of = keys.indices.to_numpy().astype(np.int64)
        update_key = np.concatenate([work.codes, len(work.keys) + np.arange(len(done.gone.times))])
        codes = key_of[np.concatenate([work.codes, update_key[update]])]
        distinct = Keys(keys.dictionary)
        source = np.zeros(len(distinct), np.int64)
        source[key_of] = np.arange(len(key_of))
        was_held = np.concatenate([work.chunk.held != NOT_HELD, np.ones(len(done.gone.times), np.bool_)])[source]
        prior = concat([work.held.prior, done.before.prior]).take(pa.array(source))
        before = Values(prior, np.where(was_held, HELD, FREE))
        depth = len(work.batch.order)
        columns = [column[np.concatenate([rows, at])] for column in order_columns(work.batch.order, len(rows), depth)]
        columns += [np.concatenate([np.zeros(len(rows), np.int64), number])]
        columns += [np.concatenate([np.zeros(len(rows), np.int64), np.full(count, _BEHIND)])]
        in_order = np.lexsort(columns[::-1])
        prior = concat([done.updates.prior, nulls(count)])
        is_held = np.where(np.arange(len(rows) + count) < len(rows), HELD, FREE)
        values = Values(prior.take(pa.array(in_order)), is_held[in_order])
        return Written(distinct, before, codes[in_order], values, tuple(column[in_order] for column in columns))

    def _emit(self, work: _Work, done: _Done) -> Changes | None:
        at, update, time = done.plan.emissions
        batch = work.batch
        every = done.updates.join(done.before)
        if self._until_close and update.size:
            exists = every.new.take(pa.array(update)).is_valid().to_numpy(zero_copy_only=False)
            at, update, time = at[exists], update[exists], time[exists]
        if not update.size:
            return None
        number = np.concatenate([work.codes, len(work.keys) + np.arange(len(done.gone.times))])
        keys = concat([work.keys.data, done.gone.keys]).take(pa.array(number[update]))
        sent = every.take(update)
        in_time = time <= work.chunk.expiry[at]
        self._count(len(update), time[in_time], sent.seen[in_time])
        stamps = np.concatenate([batch.timestamp, done.gone.values.timestamps])[update]
        serde = batch.value.serde
        order = (*take_order(batch.order, at), np.arange(len(at)))
        old = BytesColumn(sent.old, serde) if self._sends_old else None
        key, value = BytesColumn(keys, batch.key.serde), BytesColumn(sent.new, serde)
        parts = (key, value, stamps, order, sent.headers, batch.placed, old)
        return Changes(*parts, topic_bytes=sent.topic_bytes)


class _Work(NamedTuple):
    """A chunk of updates, and what was held for its keys before."""

    batch: Changes
    keys: Keys
    codes: IntArray
    chunk: Chunk
    new: Binary
    old: Binary
    sizes: IntArray
    """Of each update, without what was before its episode."""
    seen: IntArray
    """The stream time at each update."""
    topic_bytes: IntArray
    held: Updates
    """For each key; of size 0 where nothing was held."""

    def updates(self, plan: Plan) -> Updates:
        """The updates as they are held, each with the value before its episode."""
        prior = nulls(len(self.codes))
        sizes = self.sizes
        if self.old.null_count < len(self.old) or self.held.prior.null_count < len(self.held.prior):
            source = np.where(plan.begin == NOT_HELD, len(self.codes) + self.codes, plan.begin)
            prior = concat([self.old, self.held.prior]).take(pa.array(source))
            same = pc.equal(prior, self.old).fill_null(False).to_numpy(zero_copy_only=False)
            sizes = sizes + np.where(same, 0, _lengths(prior))
        return Updates(self.new, self.old, prior, self.batch.headers, sizes, self.seen, self.topic_bytes)

    def all_sizes(self, others: IntArray) -> Sizes:
        """The sizes of all updates, and of other entries from before."""
        values = concat([self.old, self.held.prior]).dictionary_encode()
        number = values.indices.fill_null(-1).to_numpy().astype(np.int64)
        old, prior = number[: len(self.codes)], number[len(self.codes) :]
        lengths = np.append(spans(values.dictionary).length, 0)
        return Sizes(self.sizes, old, prior, lengths, self.held.sizes, others)


class _Done(NamedTuple):
    """What was decided."""

    plan: Plan
    ledger: Ledger
    updates: Updates
    gone: Entries
    """Entries from before of which the plan speaks."""
    before: Updates
    """The same, unpacked."""


def held_before(buffer: TimeOrderedBuffer, keys: Keys, times: IntArray) -> Values:
    """For each key the value before the update that began its entry; ``HELD``, or ``FREE``, as timestamp.

    Args:
        times: the time of each key, where times follow from keys.
    """
    at, values = buffer.held(keys, times)
    is_held = at >= 0
    prior = unpack(values.data.drop_null()).prior if is_held.any() else nulls(0)
    return Values(prior.take(pa.array(np.cumsum(is_held) - 1, mask=~is_held)), np.where(is_held, HELD, FREE))


def _unpack_present(packed: Binary) -> Updates:
    """Unpack values of which some may be null; these have size 0."""
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
    numbers = np.zeros((3, len(packed)), np.int64)
    numbers[:, present] = found.sizes, found.seen, found.topic_bytes
    return Updates(found.new.take(chosen), found.old.take(chosen), found.prior.take(chosen), headers, *numbers)


def _context_bytes(batch: Changes) -> IntArray:
    """What updates count besides their data and their topic."""
    sizes = np.full(len(batch), _CONTEXT_BYTES)
    if batch.headers is None:
        return sizes
    every = pc.list_flatten(batch.headers)
    values = pc.binary_length(pc.struct_field(every, "value")).fill_null(0).to_numpy()
    lengths = pc.utf8_length(pc.struct_field(every, "key")).to_numpy() + values
    owner = pc.list_parent_indices(batch.headers).to_numpy()
    return sizes + np.bincount(owner, lengths, len(batch)).astype(np.int64)


def _lengths(data: Binary) -> IntArray:
    """The lengths of values; 0 for null."""
    length = spans(data).length if data.null_count < len(data) else np.zeros(len(data), np.int64)
    return length if not data.null_count else np.where(data.is_null().to_numpy(zero_copy_only=False), 0, length)
