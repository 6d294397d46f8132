"""Converts a chunk's updates to arrays, runs the rules of a suppression on them, and converts the results back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, concat, spans
from penstock.columns.batch import Changes, Origins
from penstock.columns.compiled import column, table
from penstock.columns.rows import Rows
from penstock.ops.suppress.rules import (
    BUFFER_KEY,
    COUNTS,
    ENTRY,
    EVICTION,
    NONE,
    RECORDING,
    UPDATE,
    Buffer,
    Limits,
    process,
)
from penstock.state.columns.rows import Keys
from penstock.state.kinds.buffer import Entries
from penstock.state.kinds.held import Updates

TIME_AND_NO_HEADERS = 8 + 1
"""The bytes that a value counts beside its own where headers count, if it has none."""


@dataclass(frozen=True, slots=True)
class Work:
    """A chunk of updates, and the entries that their keys hold."""

    batch: Changes
    keys: Keys
    codes: IntArray
    """The number of the key of each update."""
    times: IntArray
    """The time of the entry that each update would make if its key is not held."""
    expiry: IntArray
    """Stream time at each update, minus the time to wait: entries up to then are due."""
    new: Binary
    old: Binary
    sizes: IntArray
    """The bytes that each update counts, without its prior value, and without the headers of its old one."""
    seen: IntArray
    """The stream time at each update."""
    origins: Origins
    held_times: IntArray
    """The time of each key's entry; -1 if it has none."""
    held: Updates
    """The entry of each key; of size 0 if it has none."""
    headers: IntArray
    """The bytes of each update's headers beside its new value; 0 if headers do not count."""
    held_headers: IntArray
    """The same for the entry of each key."""


class Before(NamedTuple):
    """Entries that were held before the chunk, in any order."""

    entries: Entries
    updates: Updates
    """The held updates, unpacked."""
    key: IntArray
    """The number of each entry's key among the chunk's keys; ``NONE`` for other keys."""
    known_until: int
    """All entries up to this time are included."""


@dataclass(frozen=True, slots=True)
class Gone(Rows):
    """Evicted entries, in order."""

    at: IntArray
    """The update at which the entry was evicted."""
    key: IntArray
    """The number of the key: first the chunk's keys, then those of entries from before the chunk."""
    update: IntArray
    """The emitted update: the number of an update of the chunk, or, numbered after these, of an entry from before."""
    time: IntArray
    """The time of the entry."""
    is_stored: BoolArray
    """True if the entry was in the buffer before the chunk, whether or not the chunk updated it."""


class Recorded(NamedTuple):
    """The held size at each point where Kafka Streams records it: at every update, and again after evictions by time
    and after evictions by limit. The last one is the current size."""

    records: IntArray
    nbytes: IntArray


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results for a chunk, and for the entries from before."""

    done: int
    """The number of updates processed before the buffer was full, or before an entry was needed that is not loaded."""
    updates: Updates
    """All updates, in the form in which they are held."""
    keys: Binary
    """The keys, by the numbers in ``Gone``."""
    gone: Gone
    kept: IntArray
    """The chunk's keys whose entries it wrote and that are still held."""
    row: IntArray
    """The update that each of these keys holds."""
    time: IntArray
    """The time of each of these entries."""
    recorded: Recorded
    before: Before


def process_updates(limits: Limits, work: Work, before: Before, held: Recorded) -> Outcome:
    """Process the updates of a chunk.

    Args:
        before: the loaded entries; at least all entries that are due.
        held: the total size of the buffer.
    """
    count = len(work.codes)
    values = concat([work.old, work.held.prior]).dictionary_encode()
    number = values.indices.fill_null(NONE).to_numpy().astype(np.int64)
    lengths = np.append(spans(values.dictionary).length + (TIME_AND_NO_HEADERS if limits.with_headers else 0), 0)
    updates = _updates_of(work, number[:count], lengths)
    keys = concat([work.keys.data, before.entries.keys])
    buffer = _buffer_of(work, before, number[count:], lengths, keys, held)
    evictions = table(int(buffer.counts["known"][0]) + count, EVICTION)
    recordings = table(3 * count, RECORDING)
    done, gone, recorded = process(limits, updates, buffer, evictions, recordings)
    prior = values.dictionary.take(_numbers(column(updates, "prior")))
    sizes = column(updates, "nbytes")
    entries = buffer.entries[: len(work.keys)]
    kept = np.flatnonzero((entries["is_held"] != 0) & (entries["update"] >= 0))
    return Outcome(
        done,
        Updates(work.new, work.old, prior, work.batch.headers, sizes, work.seen, work.origins),
        keys,
        _gone(evictions[:gone], work, before),
        kept,
        column(entries, "update")[kept],
        column(entries, "time")[kept],
        Recorded(column(recordings, "records")[:recorded], column(recordings, "nbytes")[:recorded]),
        before,
    )


def _updates_of(work: Work, old: IntArray, lengths: IntArray) -> Any:
    updates = table(len(work.codes), UPDATE)
    updates["key"], updates["time"], updates["expiry"] = work.codes, work.times, work.expiry
    updates["nbytes"], updates["old"], updates["old_bytes"] = work.sizes, old, lengths[old]
    updates["prior"] = NONE  # also of updates that are not processed now
    updates["headers"] = work.headers
    return updates


def _buffer_of(work: Work, before: Before, prior: IntArray, lengths: IntArray, keys: Binary, held: Recorded) -> Buffer:
    """Build the buffer for the rules, with room for an entry of each key; the held entries are in its line."""
    entries, count = table(len(keys), ENTRY), len(work.keys)
    chosen = _may_go(work, before)
    entries["rank"][chosen[pc.array_sort_indices(keys.take(pa.array(chosen))).to_numpy()]] = np.arange(len(chosen))
    entries["update"] = NONE
    known, others = entries[:count], entries[count:]
    known["time"], known["nbytes"], known["is_held"] = work.held_times, work.held.sizes, work.held_times != NONE
    known["prior"], known["prior_bytes"], known["headers"] = prior, lengths[prior], work.held_headers
    others["time"], others["nbytes"], others["is_held"] = before.entries.times, before.updates.sizes, before.key == NONE
    entries["is_stored"] = entries["is_held"]
    is_held = np.flatnonzero(entries["is_held"])
    in_line = is_held[np.lexsort((entries["rank"][is_held], entries["time"][is_held]))]
    line, counts = table(len(keys), BUFFER_KEY), table(1, COUNTS)
    first = line[: len(in_line)]
    first["time"], first["rank"], first["key"] = entries["time"][in_line], entries["rank"][in_line], in_line
    counts["records"], counts["nbytes"] = held.records[-1], held.nbytes[-1]
    counts["known"], counts["known_until"] = len(is_held), before.known_until
    return Buffer(entries, line, counts)


def _may_go(work: Work, before: Before) -> IntArray:
    """Keys whose entries may be evicted in this chunk; only these need a rank."""
    may_go = np.ones(len(work.keys) + len(before.key), np.bool_)
    may_go[: len(work.keys)] = (work.held_times >= 0) & (work.held_times <= before.known_until)
    may_go[work.codes[work.times <= before.known_until]] = True
    return np.flatnonzero(may_go)


def _gone(evictions: Any, work: Work, before: Before) -> Gone:
    at, key, update, time = (column(evictions, name) for name in ("at", "key", "update", "time"))
    count = len(work.keys)
    place = np.append(np.full(count, NONE), np.arange(len(before.key)))
    met = np.flatnonzero(before.key >= 0)
    place[before.key[met]] = met
    update = np.where(update == NONE, len(work.codes) + place[key], update)
    return Gone(at, key, update, time, evictions["is_stored"] != 0)


def _numbers(numbers: IntArray) -> pa.Array:
    """Indexes to take; null for ``NONE``."""
    return pa.array(numbers, mask=numbers == NONE)
