"""Kafka Streams' rules for sessions: how each record changes the sessions of its key (KIP-94).

The functions and their numbered rules follow ``KStreamSessionWindowAggregate.process``. A record at time t meets the
sessions that reach into the gap around it, and one session replaces them, here for a gap of 4:

    time      ..0...4...8...c...g..
    sessions     [-]     [--]   [-]
    record             t               at 6, looks from 2 to 10
    then         [----------]   [-]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.compiled import compiled, inlined

RECORD = np.dtype(
    [(name, "i8") for name in ("owner", "time", "closed_at", "visible_from", "stored_from", "start", "end", "is_late")],
    align=True,
)
"""A record of a chunk.

- owner: the number of its key.
- closed_at: the close time at the record; sessions that end before it are closed.
- visible_from: sessions that end before it are no longer visible when the record arrives.
- stored_from: sessions that end before it are no longer stored after the record.
- start, end: the session that it makes, or would make if it was not closed.
- is_late: true if that session is closed.
"""

SESSION = np.dtype([(name, "i8") for name in ("start", "end", "count", "number", "seed")], align=True)
"""A session in its place.

- count: the number of its records.
- number: its place among the stored sessions or, after these, the number of the put.
- seed: the number of the session that it began with; of merged sessions, the one that existed first.
"""

STRETCH = np.dtype([("first", "i8"), ("length", "i8")], align=True)
"""The places that the sessions of a key occupy: the first one, and their number."""

PUT = np.dtype(
    [(name, "i8") for name in ("record", "start", "end", "count", "seed", "found", "stop", "is_gone")], align=True
)
"""A session that a record puts.

found, stop: the range of the sessions that it replaces, among all found sessions.
is_gone: true if a user function returned None, so that no session remains.
"""

FOUND = np.dtype([(name, "i8") for name in ("put", "start", "end", "count", "number", "seed", "is_unseen")], align=True)
"""A session that is removed.

put: the number of the put that replaces it.
is_unseen: true if it was no longer visible and has the same bounds as the put.
"""


class Sessions(NamedTuple):
    """The sessions of some keys, as in a session store: those of a key by end and start, with room for new ones."""

    keys: Any
    """The stretch of each key."""
    places: Any
    stored: IntArray
    """A single number: how many sessions came from the store."""


@inlined
def _end(sessions: Sessions, owner: int) -> int:
    end: int = sessions.keys[owner].first + sessions.keys[owner].length
    return end


@inlined
def _first_from(sessions: Sessions, owner: int, end: int) -> int:
    """The place of a key's first session that ends at a time or later."""
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
    """Rule 1: a record meets the visible sessions within the gap, which are adjacent."""
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
    """Put a session in place of the found ones; return the total number of found sessions."""
    put, owner, places = puts[j], record.owner, sessions.places
    _remove(sessions, owner, first, stop)  # rule 4
    if put.end < record.stored_from or put.is_gone:  # rule 5: the store does not keep sessions that are too old
        return used
    place = min(first, _first_from(sessions, owner, put.end))
    while place < first and places[place].end == put.end and places[place].start < put.start:
        place += 1
    if place < first and places[place].end == put.end and places[place].start == put.start:
        _note(found, used, j, places[place], True)  # rule 6: an invisible session is overwritten
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
    """Run ``KStreamSessionWindowAggregate.process`` for the records from ``first`` on, appending to ``put`` puts and
    ``used`` found sessions. Without ``keeps``, process only the first record and leave the sessions unchanged.

    Returns:
        The number of puts and of found sessions afterwards.
    """
    for i in range(first, len(records)):
        record = records[i]
        low, high = _find_sessions(sessions, record, gap)
        start, end, count = record.time, record.time, 1
        for place in range(low, high):  # rule 2: mergeSessionWindow
            start, end = min(start, sessions.places[place].start), max(end, sessions.places[place].end)
            count += sessions.places[place].count
        record.start, record.end = start, end
        record.is_late = end < record.closed_at  # rule 3: the end of the merged session decides, not the record
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
    """Apply one put to the sessions; return the total number of found sessions."""
    record = records[puts[put].record]
    first, stop = _find_sessions(sessions, record, gap)
    return _keep(sessions, record, puts, put, found, used, first, stop)
