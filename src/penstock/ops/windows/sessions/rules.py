"""What records change in the sessions of their keys: the rules of Kafka Streams, record by record (KIP-94).

The functions and their numbered rules follow ``KStreamSessionWindowAggregate.process``. A record at time t meets the
sessions that reach into the gap around it, and one session takes their place, here for a gap of 4:

    time      ..0...4...8...c...g..
    sessions     [-]     [--]   [-]
    record             t               at 6, looks from 2 to 10
    then         [----------]   [-]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.compiled import compiled, inlined

RECORD = np.dtype(
    [(name, "i8") for name in ("owner", "time", "closed_at", "visible_from", "stored_from", "start", "end", "is_late")],
    align=True,
)
"""A record of a chunk.

owner: the number of its key.
closed_at: the close time at the record; sessions that end before are closed.
visible_from: sessions that end before cannot be seen any more when the record comes.
stored_from: the store does not keep sessions that end before, after the record.
start, end: the session that it makes, or would make if that were not closed.
is_late: whether that session is closed.
"""

SESSION = np.dtype([(name, "i8") for name in ("start", "end", "count", "number", "seed")], align=True)
"""A session in its place.

count: how many records went into it.
number: its place among those out of the store, or behind these the number of what was put.
seed: the number of the session that it began with; of sessions that merge, the one that was before the others.
"""

STRETCH = np.dtype([("first", "i8"), ("length", "i8")], align=True)
"""The places that the sessions of a key take: where they begin, and how many there are."""

PUT = np.dtype(
    [(name, "i8") for name in ("record", "start", "end", "count", "seed", "found", "stop", "is_gone")], align=True
)
"""A session that a record puts.

found, stop: from which on, and up to which, the sessions lie that it takes the place of, among all that were found.
is_gone: whether a user's function gave nothing, so that there is no session then.
"""

FOUND = np.dtype([(name, "i8") for name in ("put", "start", "end", "count", "number", "seed", "is_unseen")], align=True)
"""A session that goes away.

put: the number of what takes its place.
is_unseen: whether it could not be seen any more, and has just the bounds of that.
"""


class Sessions(NamedTuple):
    """The sessions of some keys, as in a session store: each key's by end and start, with room for as many as come."""

    keys: Any
    """The stretch of each key."""
    places: Any
    stored: IntArray
    """One number: how many came out of the store."""


@inlined
def _end(sessions: Sessions, owner: int) -> int:
    end: int = sessions.keys[owner].first + sessions.keys[owner].length
    return end


@inlined
def _first_from(sessions: Sessions, owner: int, end: int) -> int:
    """The place of the first session of a key that ends at a time or later."""
    low: int = sessions.keys[owner].first
    high = _end(sessions, owner)
    while low < high:
        middle = (low + high) >> 1
        if sessions.places[middle].end < end:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _find_sessions(sessions: Sessions, record: Any, gap: int) -> tuple[int, int]:
    """Rule 1: a record meets the sessions within the gap that can still be seen; they lie side by side."""
    first = _first_from(sessions, record.owner, max(record.time - gap, record.visible_from))
    stop = first
    while stop < _end(sessions, record.owner) and sessions.places[stop].start - gap <= record.time:
        stop += 1
    return first, stop


@inlined
def _note(found: Any, used: int, put: int, session: Any, is_unseen: bool) -> None:
    one = found[used]
    one.put, one.start, one.end, one.count = put, session.start, session.end, session.count
    one.number, one.seed, one.is_unseen = session.number, session.seed, is_unseen


@inlined
def _remove(sessions: Sessions, owner: int, first: int, stop: int) -> None:
    for place in range(stop, _end(sessions, owner)):
        sessions.places[place - (stop - first)] = sessions.places[place]
    sessions.keys[owner].length -= stop - first


@inlined
def _keep(sessions: Sessions, record: Any, puts: Any, j: int, found: Any, used: int, first: int, stop: int) -> int:
    """Put a session in place of those that were found; how many were found in all then."""
    put, owner, places = puts[j], record.owner, sessions.places
    _remove(sessions, owner, first, stop)  # rule 4
    if put.end < record.stored_from or put.is_gone:  # rule 5: the store does not keep what is too old for it
        return used
    place = min(first, _first_from(sessions, owner, put.end))
    while place < first and places[place].end == put.end and places[place].start < put.start:
        place += 1
    if place < first and places[place].end == put.end and places[place].start == put.start:
        _note(found, used, j, places[place], True)  # rule 6: a session that is out of sight is overwritten
        used += 1
        _remove(sessions, owner, place, place + 1)
    for i in range(_end(sessions, owner), place, -1):
        places[i] = places[i - 1]
    session = places[place]
    session.start, session.end, session.count = put.start, put.end, put.count
    session.number, session.seed = sessions.stored[0] + j, put.seed
    sessions.keys[owner].length += 1
    return used


_EXAMPLES = (
    np.zeros(1, RECORD),
    Sessions(np.zeros(1, STRETCH), np.zeros(1, SESSION), np.zeros(1, np.int64)),
    np.zeros(1, PUT),
    np.zeros(1, FOUND),
    1,
)


@compiled(*_EXAMPLES, 0, 0, 0, True)
def process(
    records: Any, sessions: Sessions, puts: Any, found: Any, gap: int, put: int, used: int, first: int, keeps: bool
) -> tuple[int, int]:
    """``KStreamSessionWindowAggregate.process`` for records from one on, behind so many puts and sessions found;
    without ``keeps`` only for the first one, and the sessions stay as they are.

    Returns:
        How many puts there are then, and how many sessions were found.
    """
    for i in range(first, len(records)):
        record = records[i]
        low, high = _find_sessions(sessions, record, gap)
        start, end, count = record.time, record.time, 1
        for place in range(low, high):  # rule 2: mergeSessionWindow
            start, end = min(start, sessions.places[place].start), max(end, sessions.places[place].end)
            count += sessions.places[place].count
        record.start, record.end = start, end
        record.is_late = end < record.closed_at  # rule 3: the merged session decides, and not the record
        if not record.is_late:
            one = puts[put]
            one.record, one.start, one.end, one.count, one.is_gone = i, start, end, count, False
            one.seed = sessions.places[low].seed if high > low else sessions.stored[0] + put
            one.found = used
            for place in range(low, high):
                _note(found, used, put, sessions.places[place], False)
                used += 1
            one.stop = used
            put += 1
            if keeps:
                used = _keep(sessions, record, puts, put - 1, found, used, low, high)
        if not keeps:
            break
    return put, used


@compiled(*_EXAMPLES, 0, 0)
def keep(records: Any, sessions: Sessions, puts: Any, found: Any, gap: int, put: int, used: int) -> int:
    """Keep one put; how many sessions were found in all then."""
    record = records[puts[put].record]
    first, stop = _find_sessions(sessions, record, gap)
    return _keep(sessions, record, puts, put, found, used, first, stop)
