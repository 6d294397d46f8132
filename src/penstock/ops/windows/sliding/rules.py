"""Kafka Streams' rules for sliding windows: how each record changes the windows of its key (KIP-450).

The functions and their numbered rules follow ``KStreamSlidingWindowAggregate``, and have its methods' names. A window
that begins at s holds the records from s to s + d, both included; a record at time t concerns these, for d = 4:

    time    ..0...4...8...c..
    record          t             at 6, after records at 3 and at 8
    left        [---]             ends at t; there is one for each record
    around         [---]          begin in t-d+1 .. t: the record is added to all of them
    right            [---]        begins behind t; there as soon as a later record falls into it
    previous     [---]            right window of the latest record before t, at 3; there as soon as t falls into it

No window exists without a record in it. So each window either ends at a record or begins right after one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import BoolArray, IntArray
from penstock.columns.compiled import compiled, constant, inlined

UPDATE = constant(0)
"""The record is added to an existing window."""
BEGIN = constant(1)
"""A window begins with the record."""
GO_ON = constant(2)
"""A window begins with the aggregate of the previous window, and the record is added."""
COPY = constant(3)
"""A window after the record begins with the aggregate that another window had before the record."""

EPOCH, LATEST = constant(0), constant(2**63 - 1)
"""No window begins before ``EPOCH``."""
NONE = constant(-1)


class Rules(NamedTuple):
    """The settings of an operator's windows."""

    difference: int
    retention: int
    """Retention of the store: windows that begin before stream time minus the retention are no longer visible."""
    keeps_all: bool
    """True if the store keeps invisible windows, too."""


RECORD = np.dtype([("owner", "i8"), ("time", "i8"), ("closed_at", "i8"), ("closed", "i8")], align=True)
"""A record that is in time for at least one of its windows.

owner: the number of its key.
closed_at: the close time at the record; windows that end before it are closed.
closed: the number of its windows that were closed.
"""

PLACE = np.dtype([("start", "i8"), ("latest", "i8"), ("count", "i8"), ("number", "i4"), ("is_put", "i1")], align=True)
"""A window in its place.

- latest: the time of its latest record, which is its timestamp.
- count: the number of its records.
- number: its permanent number; stored windows have the first ones.
- is_put: true if a record was put into it.
"""

STRETCH = np.dtype([("first", "i8"), ("length", "i8")], align=True)
"""The places that the windows of a key occupy: the first one, and their number."""

PUT = np.dtype(
    [(name, "i8") for name in ("start", "latest", "count")]
    + [(name, "i4") for name in ("record", "place", "window", "source")]
    + [(name, "i1") for name in ("kind", "is_there", "is_gone")],
    align=True,
)
"""A record's put into a window.

- latest, count: of the window, after the put.
- place: of the window, if it existed.
- window: its number; ``NONE`` if it is too old for the store.
- source: for ``GO_ON`` the number of the other window. For ``COPY`` the number of the record's put into the other
  window. If that put does not come first, ``-1 -`` the number of the window.
- is_there: true if the window existed before.
- is_gone: true if a user function returned None, so that the window is removed.
"""


class Windows(NamedTuple):
    """The windows of some keys, as in a window store: those of a key by start, with room for new ones."""

    keys: Any
    """The stretch of each key."""
    places: Any
    is_gone: BoolArray
    """By window number: true if the window existed and was removed."""
    stream_time: IntArray
    """A single number: the latest start of all puts so far."""
    made: IntArray
    """A single number: how many windows have been created so far."""
    expired: IntArray
    """A single number: how many puts went into windows that were no longer visible."""


# --- the store ---------------------------------------------------------------------------------------------------


@inlined
def _end(windows: Windows, owner: int) -> int:
    end: int = windows.keys[owner].first + windows.keys[owner].length
    return end


@inlined
def _first_from(windows: Windows, owner: int, start: int) -> int:
    """The place of a key's first window that begins at a time or later."""
    low: int = windows.keys[owner].first
    high = _end(windows, owner)
    while low < high:
        middle = (low + high) >> 1
        if windows.places[middle].start < start:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _is_at(windows: Windows, owner: int, place: int, start: int) -> bool:
    """True if a window of a key begins at a time, given the first place from there on."""
    return place < _end(windows, owner) and windows.places[place].start == start


@inlined
def _has(windows: Windows, owner: int, start: int) -> bool:
    return _is_at(windows, owner, _first_from(windows, owner, start), start)


@inlined
def _insert(windows: Windows, owner: int, place: int, start: int) -> None:
    """Insert a new window into its key's stretch."""
    places = windows.places
    for i in range(_end(windows, owner), place, -1):
        places[i] = places[i - 1]
    places[place].start = start
    places[place].number = windows.made[0]
    windows.made[0] += 1
    windows.keys[owner].length += 1


@inlined
def _remove(windows: Windows, owner: int, place: int) -> None:
    windows.is_gone[windows.places[place].number] = True
    windows.keys[owner].length -= 1
    for i in range(place, _end(windows, owner)):
        windows.places[i] = windows.places[i + 1]


# --- what a record puts ------------------------------------------------------------------------------------------


@inlined
def _seen_from(rules: Rules, windows: Windows, earliest: int) -> int:
    """The start of the first window that a record checks, at which windows are still visible."""
    seen_from: int = max(EPOCH, earliest, windows.stream_time[0] - rules.retention + 1)
    return seen_from


@inlined
def _update_window_and_forward(
    rules: Rules, records: Any, windows: Windows, puts: Any, used: int, i: int, start: int, kind: int, other: int
) -> int:
    """Add a record to a window, or to a new one, unless it has closed; return the number of puts afterwards.

    Args:
        other: the place of the window itself, or, for ``GO_ON``, of the window whose aggregate it continues.
    """
    if start < records[i].closed_at - rules.difference:
        records[i].closed += 1
        return used
    put, places = puts[used], windows.places
    put.record, put.start, put.kind = i, start, kind
    put.place = other if kind == UPDATE else NONE
    put.source = places[other].number if kind == GO_ON else NONE
    put.window = places[other].number if kind == UPDATE else NONE
    put.count = 1 if kind == BEGIN else places[other].count + 1
    put.latest = records[i].time if kind == BEGIN else max(records[i].time, places[other].latest)
    return used + 1


@inlined
def _create_current_record_right_window(
    records: Any, windows: Windows, puts: Any, used: int, i: int, right: int, right_put: int
) -> int:
    put, source = puts[used], windows.places[right]
    put.record, put.start, put.kind, put.place, put.window = i, records[i].time + 1, COPY, NONE, NONE
    put.source = right_put if right_put >= 0 else -1 - source.number
    put.count, put.latest = source.count, source.latest
    return used + 1


@inlined
def _process_reverse(rules: Rules, records: Any, windows: Windows, puts: Any, used: int, i: int) -> int:
    """Process a record at or after the time difference: it checks windows from its right one down to its left one, and
    on to the first window that ends before it."""
    owner, time, difference = records[i].owner, records[i].time, rules.difference
    places, seen_from = windows.places, _seen_from(rules, windows, time - 2 * difference)
    left, right, right_put, previous = NONE, NONE, NONE, NONE
    has_left, has_right = False, False
    at = (_first_from(windows, owner, time + 2) if time < LATEST - 1 else _end(windows, owner)) - 1
    while at >= windows.keys[owner].first and places[at].start >= seen_from:
        start, latest = places[at].start, places[at].latest
        if start > time:  # rule 1: its right window exists
            has_right = True
        elif start > time - difference:  # rule 2: around it; the last one shows if any are to the right
            before = used
            used = _update_window_and_forward(rules, records, windows, puts, used, i, start, UPDATE, at)
            if right == NONE:
                right, right_put = at, before if used > before else NONE
        elif start == time - difference:  # rule 3: its left window exists
            has_left = True
            used = _update_window_and_forward(rules, records, windows, puts, used, i, start, UPDATE, at)
            if latest >= time:  # rule 4: an earlier record had the same time and created all its windows
                return used
            previous = latest
        else:  # rule 5: the window before the left one knows the previous record
            left, previous = at, latest
            break
        at -= 1

    # rule 6: this record begins the previous record's right window, if it falls into it
    if previous >= 0 and previous + 1 >= time - difference and not _has(windows, owner, previous + 1):
        used = _update_window_and_forward(rules, records, windows, puts, used, i, previous + 1, BEGIN, NONE)
    # rule 7: its left window continues the one before, if the previous record falls into it
    if not has_left:
        goes_on = left >= 0 and time - difference <= previous
        kind, source = (GO_ON, left) if goes_on else (BEGIN, NONE)
        used = _update_window_and_forward(rules, records, windows, puts, used, i, time - difference, kind, source)
    # rule 8: its right window copies one around it, if that has later records; even if it closes
    if not has_right and right >= 0 and places[right].latest > time:
        used = _create_current_record_right_window(records, windows, puts, used, i, right, right_put)
    return used


@inlined
def _process_early(rules: Rules, records: Any, windows: Windows, puts: Any, used: int, i: int) -> int:
    """Process a record earlier than the time difference. No window begins before 0, so such records share the window
    from 0 on, the *combined* window of all their left windows. The record checks windows from the first one on."""
    owner, time, places = records[i].owner, records[i].time, windows.places
    combined, right, right_put, previous = NONE, NONE, NONE, NONE
    has_right = False
    at = _first_from(windows, owner, _seen_from(rules, windows, EPOCH))
    while at < _end(windows, owner) and places[at].start <= time + 1:
        start = places[at].start
        if start == EPOCH:  # rule 9: the combined window knows the previous record, unless it has later ones
            combined = at
            previous = places[at].latest if places[at].latest < time else NONE
        elif start <= time:  # rule 10: a window around it; the last one shows whether there are records to the right
            before = used
            used = _update_window_and_forward(rules, records, windows, puts, used, i, start, UPDATE, at)
            right, right_put = at, before if used > before else NONE
        else:  # as rule 1
            has_right = True
        at += 1
    if right == NONE and combined >= 0 and places[combined].latest > time:  # rule 11: all its records are later
        right = combined
    if not has_right and right >= 0 and places[right].latest > time:  # as rule 8
        used = _create_current_record_right_window(records, windows, puts, used, i, right, right_put)
    if previous >= 0 and not _has(windows, owner, previous + 1):  # as rule 6
        used = _update_window_and_forward(rules, records, windows, puts, used, i, previous + 1, BEGIN, NONE)
    kind = UPDATE if combined >= 0 else BEGIN  # rule 12: the combined window comes last
    return _update_window_and_forward(rules, records, windows, puts, used, i, EPOCH, kind, combined)


@inlined
def _keep(rules: Rules, windows: Windows, owner: int, put: Any) -> None:
    """``WindowStore.put``: the store does not take windows that are too old, by the latest start of all puts."""
    start, place = put.start, put.place
    windows.stream_time[0] = max(windows.stream_time[0], start)
    if place == NONE or put.is_gone or windows.places[place].start != start:  # new, or earlier windows were removed
        place = _first_from(windows, owner, start)
    put.is_there = _is_at(windows, owner, place, start)
    put.window = NONE
    if start < windows.stream_time[0] - rules.retention + 1:
        windows.expired[0] += 1
        if not rules.keeps_all:
            return
    if put.is_gone:
        if put.is_there:
            _remove(windows, owner, place)
        return
    if not put.is_there:
        _insert(windows, owner, place, start)
    window = windows.places[place]
    window.latest, window.count, window.is_put = put.latest, put.count, True
    put.window = window.number


_EXAMPLES = (
    Rules(1, 1, False),
    np.zeros(1, RECORD),
    Windows(np.zeros(1, STRETCH), np.zeros(1, PLACE), np.zeros(1, np.bool_), *np.zeros((3, 1), np.int64)),
    np.zeros(1, PUT),
)


_ROOM = 3
"""The most windows, apart from those it checks, that a record may put into."""


@compiled(*_EXAMPLES, 0, 0, True)
def process(
    rules: Rules, records: Any, windows: Windows, puts: Any, used: int, first: int, keeps: bool
) -> tuple[int, int]:
    """Run ``KStreamSlidingWindowAggregate.process`` for the records from ``first`` on, as long as there is room after
    the earlier puts. Without ``keeps``, process only the first record and leave the windows unchanged.

    Returns:
        The index after the last processed record, and the number of puts.
    """
    for i in range(first, len(records)):
        owner, before = records[i].owner, used
        if used + windows.keys[owner].length + _ROOM > len(puts):
            return i, used
        if records[i].time < rules.difference:
            used = _process_early(rules, records, windows, puts, used, i)
        else:
            used = _process_reverse(rules, records, windows, puts, used, i)
        if not keeps:
            return i + 1, used
        for j in range(before, used):
            _keep(rules, windows, owner, puts[j])
    return len(records), used


@compiled(*_EXAMPLES, 0, 0)
def keep(rules: Rules, records: Any, windows: Windows, puts: Any, first: int, stop: int) -> None:
    """Apply some puts to the windows."""
    for j in range(first, stop):
        _keep(rules, windows, records[puts[j].record].owner, puts[j])


_NUMBERS, _FLAGS = np.zeros(1, np.int64), np.zeros(1, np.bool_)


@compiled(_EXAMPLES[3], 0, 0, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS, _FLAGS, _FLAGS)
def spread(
    puts: Any,
    used: int,
    to: int,
    record: IntArray,
    start: IntArray,
    latest: IntArray,
    count: IntArray,
    is_there: BoolArray,
    has_old: BoolArray,
) -> None:
    """Write the first puts into columns, from place ``to`` on: each put is read once, while it is in the CPU cache."""
    for j in range(used):
        put = puts[j]
        record[to + j], start[to + j], latest[to + j], count[to + j] = put.record, put.start, put.latest, put.count
        is_there[to + j], has_old[to + j] = put.is_there != 0, put.kind != COPY
