"""Kafka Streams' rules for what a suppression holds and when it emits it, update by update (KIP-328).

The functions and their numbered rules follow ``KTableSuppressProcessor`` and
``InMemoryTimeOrderedKeyValueChangeBuffer``, and have their methods' names. An entry keeps the place in the line that
its first update gave it. Here with a time to wait of 6, for updates of a at 2 and 7, of b at 5 and of c at 9:

    stream time  0...4...8...c...
    a              [----a-|          emitted at 9, the first update that brings stream time to 8 or more
    b                 [-----         with room for one entry, evicted at 9 as well: it is the oldest then
    c                     [-----
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.columns.compiled import compiled, constant, inlined

NONE = constant(-1)
FOREVER = constant(2**63 - 1)
"""``Long.MAX_VALUE``: the earliest time of an empty buffer; also stands for no limit."""


class Limits(NamedTuple):
    """The limits of a buffer."""

    records: int = FOREVER
    nbytes: int = FOREVER
    shuts_down: bool = False
    """True if the suppression stops when it is full; otherwise it emits early."""
    with_headers: bool = False
    """True if held values count their timestamps and headers, too (``dsl.store.format=HEADERS``, KIP-1285)."""

    @property
    def are_any(self) -> bool:
        return min(self.records, self.nbytes) < FOREVER


UPDATE = np.dtype(
    [(name, "i8") for name in ("time", "expiry", "nbytes")]
    + [(name, "i4") for name in ("key", "old", "old_bytes", "prior", "headers")],
    align=True,
)
"""An update of a table.

- time: of the entry that it makes if its key is not held.
- expiry: stream time at the update, minus the time to wait.
- nbytes: the bytes that it counts; afterwards including its entry's prior value.
- key: the number of its key.
- old, old_bytes: the number of the previous value, ``NONE`` for none, and its length.
- prior: set by the rules: the number of the value before its entry.
- headers: the bytes of its headers beside its new value; 0 without one, or if headers do not count.
"""

BUFFER_KEY = np.dtype([("time", "i8"), ("rank", "i4"), ("key", "i4")], align=True)
"""The place of an entry in the line: by its time, then by the rank of its key in the byte order of all keys."""

ENTRY = np.dtype(
    [(name, "i8") for name in ("time", "nbytes")]
    + [(name, "i4") for name in ("rank", "prior", "prior_bytes", "update", "headers")]
    + [(name, "i1") for name in ("is_held", "is_stored")],
    align=True,
)
"""The entry of a key, if any: a ``BufferValue`` and its ``BufferKey``.

prior, prior_bytes: the value before the entry, as for updates.
update: the number of the last update. ``NONE`` if it precedes these updates.
headers: the bytes of the last update's headers.
is_stored: true if the entry existed before these updates.
"""

EVICTION = np.dtype(
    [("time", "i8")] + [(name, "i4") for name in ("at", "key", "update")] + [("is_stored", "i1")], align=True
)
"""An evicted entry, and the update at which it was evicted; other fields as in ``ENTRY``."""

RECORDING = np.dtype([("records", "i8"), ("nbytes", "i8")], align=True)
"""The size of the buffer when Kafka Streams records it."""

COUNTS = np.dtype([(name, "i8") for name in ("records", "nbytes", "known", "known_until")], align=True)
"""The size of the buffer, and how much of it is loaded.

known: the number of loaded entries.
known_until: all entries up to this time are loaded, which include all due ones, and all entries of the updates' keys;
    later entries may be missing.
"""


class Buffer(NamedTuple):
    """The entries of some keys, and the size of the whole buffer."""

    entries: Any
    """By the number of the key."""
    line: Any
    """``sortedMap``: the loaded entries as a heap of ``BUFFER_KEY``, the first one to evict in front; it has room for
    all."""
    counts: Any
    """A single row."""


# --- the line ----------------------------------------------------------------------------------------------------


@inlined
def _goes_before(one: Any, other: Any) -> bool:
    """``BufferKey.compareTo``, without branches: they would be mispredicted half of the time."""
    return bool((one.time < other.time) | ((one.time == other.time) & (one.rank < other.rank)))


@inlined
def _set(line: Any, place: int, one: Any) -> None:
    line[place].time, line[place].rank, line[place].key = one.time, one.rank, one.key


@inlined
def _raised(line: Any, place: int, one: Any) -> int:
    """Move an entry up from a free place of the heap; the entries that go after it move down. Return its new place."""
    while place > 0:
        above = (place - 1) >> 1
        if not _goes_before(one, line[above]):
            break
        _set(line, place, line[above])
        place = above
    return place


@inlined
def _add(buffer: Buffer, key: int) -> None:
    """Add a new entry to the line."""
    entry, line, count = buffer.entries[key], buffer.line, buffer.counts[0].known
    buffer.counts[0].known += 1
    place = _raised(line, count, entry)
    line[place].time, line[place].rank, line[place].key = entry.time, entry.rank, key


@inlined
def _take_first(buffer: Buffer) -> int:
    """Remove the first entry from the line."""
    line = buffer.line
    first: int = line[0].key
    buffer.counts[0].known -= 1
    count = buffer.counts[0].known
    last, place, below = line[count], 0, 1
    while below < count:  # move the gap down to the end, then the last entry up from there: it seldom moves far
        if below + 1 < count:
            below += _goes_before(line[below + 1], line[below])
        _set(line, place, line[below])
        place = below
        below = 2 * place + 1
    place = _raised(line, place, last)
    _set(line, place, last)
    return first


@inlined
def _min_timestamp(buffer: Buffer) -> int:
    if buffer.counts[0].known == 0:
        return FOREVER
    earliest: int = buffer.line[0].time
    return earliest


# --- what an update causes ---------------------------------------------------------------------------------------


@inlined
def _put(limits: Limits, updates: Any, buffer: Buffer, i: int) -> None:
    """``put`` and ``cleanPut``: hold an update."""
    update, counts = updates[i], buffer.counts[0]
    entry = buffer.entries[update.key]
    if entry.is_held:
        counts.nbytes -= entry.nbytes  # rule 1: it takes the place of the one before, whose time and prior value stay
    else:  # rule 2: it makes an entry; the value before it is the prior one, which was sent on last
        entry.time, entry.prior, entry.prior_bytes = update.time, update.old, update.old_bytes
        entry.is_held, entry.is_stored, entry.headers = True, False, 0
        _add(buffer, update.key)
        counts.records += 1
    if limits.with_headers and update.old != NONE:  # an old value has the headers of the update that is replaced
        update.nbytes += max(entry.headers, 1)
    update.prior = entry.prior
    if entry.prior != update.old or entry.headers > 0:  # rule 3: a prior value that equals the old one counts once
        update.nbytes += entry.prior_bytes
    entry.update, entry.nbytes, entry.headers = i, update.nbytes, update.headers
    counts.nbytes += update.nbytes


@inlined
def _over_capacity(limits: Limits, buffer: Buffer) -> bool:
    """Rule 4: a buffer exactly at its limit is not over capacity."""
    counts = buffer.counts[0]
    return bool(counts.records > limits.records or counts.nbytes > limits.nbytes)


@inlined
def _evict(buffer: Buffer, evictions: Any, gone: int, i: int) -> int:
    """Evict the first entry; return the number of entries evicted so far."""
    key = _take_first(buffer)
    entry, eviction, counts = buffer.entries[key], evictions[gone], buffer.counts[0]
    eviction.at, eviction.key, eviction.update = i, key, entry.update
    eviction.time, eviction.is_stored = entry.time, entry.is_stored
    entry.is_held = False
    counts.records -= 1
    counts.nbytes -= entry.nbytes
    return gone + 1


@inlined
def _update_buffer_metrics(buffer: Buffer, recordings: Any, recorded: int) -> int:
    recordings[recorded].records = buffer.counts[0].records
    recordings[recorded].nbytes = buffer.counts[0].nbytes
    return recorded + 1


@compiled(
    Limits(1, 1, False, False),
    np.zeros(1, UPDATE),
    Buffer(np.zeros(1, ENTRY), np.zeros(1, BUFFER_KEY), np.zeros(1, COUNTS)),
    np.zeros(1, EVICTION),
    np.zeros(1, RECORDING),
)
def process(limits: Limits, updates: Any, buffer: Buffer, evictions: Any, recordings: Any) -> tuple[int, int, int]:
    """``KTableSuppressProcessor.process`` for updates in order.

    Returns:
        The number of processed updates, of evicted entries, and of recordings. Processing ends before an update, which
        does not count, if the suppression shuts down there, or if an entry must be evicted that is not loaded.
    """
    gone = recorded = 0
    for i in range(len(updates)):
        _put(limits, updates, buffer, i)
        recorded = _update_buffer_metrics(buffer, recordings, recorded)
        before = gone
        # rule 5: due entries go first, even a new one; at the end of time an empty line is due, too, without the check
        while buffer.counts[0].known > 0 and _min_timestamp(buffer) <= updates[i].expiry:
            gone = _evict(buffer, evictions, gone, i)
        if gone > before:
            recorded = _update_buffer_metrics(buffer, recordings, recorded)
        if not _over_capacity(limits, buffer):
            continue
        if limits.shuts_down:  # rule 6: the capacity is checked only then
            return i, gone, recorded
        before = gone
        while buffer.counts[0].records > 0 and _over_capacity(limits, buffer):  # rule 7: oldest first, until it fits
            if buffer.counts[0].known == 0 or _min_timestamp(buffer) > buffer.counts[0].known_until:
                return i, gone, recorded
            gone = _evict(buffer, evictions, gone, i)
        if gone > before:
            recorded = _update_buffer_metrics(buffer, recordings, recorded)
    return len(updates), gone, recorded
