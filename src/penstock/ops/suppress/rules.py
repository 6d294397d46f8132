"""What a suppression holds, and when it lets go of it: the rules of Kafka Streams, update by update (KIP-328).

The functions and their numbered rules follow ``KTableSuppressProcessor`` and
``InMemoryTimeOrderedKeyValueChangeBuffer``, and have their methods' names. An entry stays where its first update has
put it in the line. Here with a time to wait of 6, for updates of a at 2 and 7, of b at 5 and of c at 9:

    stream time  0...4...8...c...
    a              [----a-|          let go of at 9, the first update with which stream time has come to 8
    b                 [-----         with room for one entry, evicted at 9 as well: it is the oldest then
    c                     [-----
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.compiled import compiled, constant, inlined

NONE = constant(-1)
FOREVER = constant(2**63 - 1)
"""``Long.MAX_VALUE``: the earliest time of an empty buffer, and as good as no limit."""


class Limits(NamedTuple):
    """How much a buffer may hold."""

    records: int = FOREVER
    nbytes: int = FOREVER
    shuts_down: bool = False
    """Whether the suppression stops when it is full; otherwise it emits early."""

    @property
    def are_any(self) -> bool:
        return min(self.records, self.nbytes) < FOREVER


UPDATE = np.dtype(
    [(name, "i8") for name in ("time", "expiry", "nbytes")]
    + [(name, "i4") for name in ("key", "old", "old_bytes", "prior")],
    align=True,
)
"""An update of a table.

time: that of the entry which it makes if its key is not held.
expiry: stream time at the update, less the time to wait.
nbytes: how much it counts as; afterwards with its entry's prior value.
key: the number of its key.
old, old_bytes: the number of the value before it, ``NONE`` for none, and its length.
prior: afterwards: the number of the value before its entry.
"""

BUFFER_KEY = np.dtype([("time", "i8"), ("rank", "i4"), ("key", "i4")], align=True)
"""Where an entry stands in line: by its time, then by the rank of its key among all keys, by their bytes."""

ENTRY = np.dtype(
    [(name, "i8") for name in ("time", "nbytes")]
    + [(name, "i4") for name in ("rank", "prior", "prior_bytes", "update")]
    + [(name, "i1") for name in ("is_held", "is_stored")],
    align=True,
)
"""What may be held for a key, a ``BufferValue``; and its ``BufferKey``.

prior, prior_bytes: the value before the entry, as for updates.
update: the last one; ``NONE`` if it came before.
is_stored: whether the entry was there before these updates.
"""

EVICTION = np.dtype(
    [("time", "i8")] + [(name, "i4") for name in ("at", "key", "update")] + [("is_stored", "i1")], align=True
)
"""An entry that is let go of, and at which update; the rest as in ``ENTRY``."""

RECORDING = np.dtype([("records", "i8"), ("nbytes", "i8")], align=True)
"""How much is held, whenever Kafka Streams records it."""

COUNTS = np.dtype([(name, "i8") for name in ("records", "nbytes", "known", "known_until")], align=True)
"""How much is held, and how much of that is known.

known: how many entries.
known_until: all with at most this time, which is not before what is due, and those of the updates' keys; there may be
    others.
"""


class Buffer(NamedTuple):
    """What is held for some keys, and how much for all."""

    entries: Any
    """By the numbers of their keys."""
    line: Any
    """``sortedMap``: the known entries as a heap of ``BUFFER_KEY``, the first one to go in front; with room for all."""
    counts: Any
    """One row."""


# --- the line ----------------------------------------------------------------------------------------------------


@inlined
def _goes_before(one: Any, other: Any) -> bool:
    """``BufferKey.compareTo``; without branches, which would be guessed wrong every other time."""
    return bool((one.time < other.time) | ((one.time == other.time) & (one.rank < other.rank)))


@inlined
def _set(line: Any, place: int, one: Any) -> None:
    line[place].time, line[place].rank, line[place].key = one.time, one.rank, one.key


@inlined
def _raised(line: Any, place: int, one: Any) -> int:
    """The place that an entry takes instead of one that is free, those that go after it moved down."""
    while place > 0:
        above = (place - 1) >> 1
        if not _goes_before(one, line[above]):
            break
        _set(line, place, line[above])
        place = above
    return place


@inlined
def _add(buffer: Buffer, key: int) -> None:
    """A new entry joins the line."""
    entry, line, count = buffer.entries[key], buffer.line, buffer.counts[0].known
    buffer.counts[0].known += 1
    place = _raised(line, count, entry)
    line[place].time, line[place].rank, line[place].key = entry.time, entry.rank, key


@inlined
def _take_first(buffer: Buffer) -> int:
    """The entry in front leaves the line."""
    line = buffer.line
    first: int = line[0].key
    buffer.counts[0].known -= 1
    count = buffer.counts[0].known
    last, place, below = line[count], 0, 1
    while below < count:  # the gap goes down to the end, and up again to where the last one fits, which is near
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
def _put(updates: Any, buffer: Buffer, i: int) -> None:
    """``put`` and ``cleanPut``: hold an update."""
    update, counts = updates[i], buffer.counts[0]
    entry = buffer.entries[update.key]
    if entry.is_held:
        counts.nbytes -= entry.nbytes  # rule 1: it takes the place of the one before, whose time and prior value stay
    else:  # rule 2: it makes an entry; the value before it is the prior one, which was sent on last
        entry.time, entry.prior, entry.prior_bytes = update.time, update.old, update.old_bytes
        entry.is_held, entry.is_stored = True, False
        _add(buffer, update.key)
        counts.records += 1
    update.prior = entry.prior
    if entry.prior != update.old:  # rule 3: a prior value that is the old one as well counts once
        update.nbytes += entry.prior_bytes
    entry.update, entry.nbytes = i, update.nbytes
    counts.nbytes += update.nbytes


@inlined
def _over_capacity(limits: Limits, buffer: Buffer) -> bool:
    """Rule 4: just as much as a limit says is not too much."""
    counts = buffer.counts[0]
    return bool(counts.records > limits.records or counts.nbytes > limits.nbytes)


@inlined
def _evict(buffer: Buffer, evictions: Any, gone: int, i: int) -> int:
    """Let go of the entry in front; how many have gone then."""
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
    Limits(1, 1, False),
    np.zeros(1, UPDATE),
    Buffer(np.zeros(1, ENTRY), np.zeros(1, BUFFER_KEY), np.zeros(1, COUNTS)),
    np.zeros(1, EVICTION),
    np.zeros(1, RECORDING),
)
def process(limits: Limits, updates: Any, buffer: Buffer, evictions: Any, recordings: Any) -> tuple[int, int, int]:
    """``KTableSuppressProcessor.process`` for updates in order.

    Returns:
        How many updates were processed, how many entries have gone, how much was recorded. An update is the last one,
        and does not count as processed, if the suppression stops there; or if more has to go than what is known.
    """
    gone = recorded = 0
    for i in range(len(updates)):
        _put(updates, buffer, i)
        recorded = _update_buffer_metrics(buffer, recordings, recorded)
        before = gone
        while _min_timestamp(buffer) <= updates[i].expiry:  # rule 5: what is due goes first, also what has just come
            gone = _evict(buffer, evictions, gone, i)
        if gone > before:
            recorded = _update_buffer_metrics(buffer, recordings, recorded)
        if not _over_capacity(limits, buffer):
            continue
        if limits.shuts_down:  # rule 6: only then it counts whether there is too much
            return i, gone, recorded
        before = gone
        while buffer.counts[0].records > 0 and _over_capacity(limits, buffer):  # rule 7: the oldest go until it fits
            if _min_timestamp(buffer) > buffer.counts[0].known_until:
                return i, gone, recorded
            gone = _evict(buffer, evictions, gone, i)
        if gone > before:
            recorded = _update_buffer_metrics(buffer, recordings, recorded)
    return len(updates), gone, recorded
