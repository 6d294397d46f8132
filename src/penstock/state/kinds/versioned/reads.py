"""Many look-ups in a versioned store at once, each as of a time, and each at its turn among the puts of a chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, binary, concat, is_present
from penstock.columns.rows import Rows
from penstock.state.columns.rows import Keys
from penstock.state.kinds.versioned.puts import VersionedPuts
from penstock.state.kinds.versioned.store import VersionedStore


@dataclass(frozen=True, slots=True)
class Questions(Rows):
    """Look-ups: the number of a key, a time, and a turn. Only puts of earlier turns have happened then."""

    codes: IntArray
    times: IntArray
    turns: IntArray


def versions_as_of(
    store: VersionedStore,
    keys: Keys,
    asked: Questions,
    puts: VersionedPuts | None = None,
    turns: IntArray | None = None,
) -> Binary:
    """The value of each question's key that is valid at its time, or null.

    Args:
        keys: the distinct keys of the questions.
        puts: the chunk's puts, which are not applied to the store yet.
        turns: the turns of the puts, in processing order.
    """
    earliest = earliest_of(store, asked, puts, turns)
    result = _stored(store, keys, asked, earliest)
    if puts is None or turns is None:
        return result
    known = pc.index_in(keys.data, puts.keys.data).fill_null(-1).to_numpy().astype(np.int64)
    put_codes = known[asked.codes]
    rows = np.flatnonzero(put_codes >= 0)
    if not rows.size:
        return result
    among = Questions(put_codes[rows], asked.times[rows], asked.turns[rows])
    has_deletions = puts.by_timeline[among.codes]
    straight, by_timeline = np.flatnonzero(~has_deletions), np.flatnonzero(has_deletions)
    answers = _Answers(result)
    found = _among_puts(puts, turns, among.take(straight), earliest[rows[straight]])
    answers.give(rows[straight], puts.data, found)
    if by_timeline.size:
        values = _by_timelines(puts, turns, among.take(by_timeline), earliest[rows[by_timeline]])
        answers.give(rows[by_timeline], values, np.arange(len(values)))
    return answers.values()


def earliest_of(
    store: VersionedStore, asked: Questions, puts: VersionedPuts | None, turns: IntArray | None
) -> IntArray:
    """The earliest time at which each question may find versions other than the latest: history is kept from then on.
    Arguments as above."""
    if puts is None or turns is None:
        return np.full(len(asked.codes), store.observed_stream_time - store.retention)
    last = np.searchsorted(turns, asked.turns, "left") - 1
    earliest: IntArray = np.append(puts.stream_time, puts.time_before)[last] - store.retention
    return earliest


_STAYS, _NOTHING = -1, -2
"""Places of an answer: unchanged, or no value. Other numbers are places in a column."""


class _Answers:
    """Answers to questions, from several columns; the last answer counts."""

    def __init__(self, answers: Binary):
        self._columns = [answers]
        self._size = len(answers)
        self._places = np.arange(len(answers))

    def give(self, questions: IntArray, values: Binary, places: IntArray) -> None:
        """Answer some questions with values at places of a column, or with no value, or leave the answer unchanged."""
        before = self._places[questions]
        given = np.where(places >= 0, self._size + places, np.where(places == _STAYS, before, _NOTHING))
        self._places[questions] = given
        self._columns.append(values)
        self._size += len(values)

    def values(self) -> Binary:
        return concat(self._columns).take(pa.array(self._places, mask=self._places < 0))


def _stored(store: VersionedStore, keys: Keys, asked: Questions, earliest: IntArray) -> Binary:
    """The answers from the store."""
    latest = store.latest(keys).get()
    begins = latest.timestamps[asked.codes]
    is_latest = is_present(latest.data)[asked.codes] & (begins <= asked.times)
    if is_latest.all():
        return latest.data.take(pa.array(asked.codes))
    places = np.where(is_latest, asked.codes, -1)
    rows = np.flatnonzero(~is_latest & (asked.times >= earliest))
    rows = rows[np.argsort(asked.times[rows])]  # one by one in memory, if a key has many versions
    found = store.older(keys, asked.codes[rows], asked.times[rows])
    there = (found.valid_from <= asked.times[rows]) & found.exists
    places[rows[there]] = len(keys) + np.flatnonzero(there)
    return concat([latest.data, found.data]).take(pa.array(places, mask=places < 0))


def _among_puts(puts: VersionedPuts, turns: IntArray, asked: Questions, earliest: IntArray) -> IntArray:
    """The put that answers each question; ``_STAYS`` if the store does, ``_NOTHING`` if no version is valid.

    A put is valid until the next one of its key, and within the version or the gap of the store that it falls into:

        store       |----- version -----|      gap      |--- latest ---
        puts              p1     p2           p3              p4
        valid             |-p1--||-p2---|      |---p3---|      |-p4----
    """
    rows = puts.order[~puts.by_timeline[puts.codes[puts.order]]]
    if not rows.size:
        return np.full(len(asked.codes), _STAYS)
    by_time = rows[np.lexsort((turns[rows], puts.times[rows], puts.codes[rows]))]
    put, time = _highest_put(puts, turns, rows[puts.is_highest[rows]], asked)
    older = np.flatnonzero((put >= 0) & (time > asked.times))
    place = _last_before(puts, turns, by_time, asked.take(older))
    put[older] = np.where(place < 0, -1, by_time[place])
    answers = np.where((put >= 0) & (asked.times < puts.bound[put]), put, _STAYS)
    expired = np.flatnonzero(asked.times < earliest)
    if expired.size:
        answers[expired] = _of_expired(puts, turns, rows, asked.take(expired), answers[expired])
    return answers


def _of_expired(puts: VersionedPuts, turns: IntArray, rows: IntArray, asked: Questions, answers: IntArray) -> IntArray:
    """Answers as of times before the store's history: only the latest value of a key can still be valid."""
    latest, time = _highest_put(puts, turns, rows[puts.is_latest[rows]], asked)
    is_put = latest >= 0
    stored = np.where(puts.has_latest, puts.latest.timestamps, -1)[asked.codes]
    by_store = np.where((stored >= 0) & (stored <= asked.times), answers, _NOTHING)
    return np.where(is_put, np.where(time <= asked.times, latest, _NOTHING), by_store)


def _last_before(puts: VersionedPuts, turns: IntArray, by_time: IntArray, asked: Questions) -> IntArray:
    """For each question, the place of the last put, by time, that is not after its time and before its turn."""
    codes, times = puts.codes[by_time], puts.times[by_time]
    known, ranks = np.unique(times, return_inverse=True)
    width = len(known) + 1
    wanted = asked.codes * width + np.searchsorted(known, asked.times, "right")
    place: IntArray = np.searchsorted(codes * width + ranks + 1, wanted, "right") - 1
    mine = _same_code(codes, place, asked.codes)
    place[~mine] = -1
    later = np.flatnonzero(mine)
    while later.size:  # back over puts whose turn has not come; few, since puts arrive roughly in order
        later = later[turns[by_time[place[later]]] > asked.turns[later]]
        place[later] -= 1
        mine = _same_code(codes, place[later], asked.codes[later])
        place[later[~mine]] = -1
        later = later[mine]
    return place


def _same_code(codes: IntArray, place: IntArray, wanted: IntArray) -> BoolArray:
    if not len(codes):
        return np.zeros(len(place), np.bool_)
    same: BoolArray = (place >= 0) & (codes[np.maximum(place, 0)] == wanted)
    return same


def _highest_put(puts: VersionedPuts, turns: IntArray, rows: IntArray, asked: Questions) -> tuple[IntArray, IntArray]:
    """For each question, the last of some puts of its key before its turn, and its time; -1 for none."""
    rows = rows[np.lexsort((turns[rows], puts.codes[rows]))]
    width = int(max(turns.max(initial=0), asked.turns.max(initial=0))) + 2
    place = np.searchsorted(puts.codes[rows] * width + turns[rows], asked.codes * width + asked.turns) - 1
    mine = _same_code(puts.codes[rows], place, asked.codes)
    if not len(rows):
        return np.full(len(place), -1, np.int64), np.zeros(len(place), np.int64)
    found = rows[np.maximum(place, 0)]
    return np.where(mine, found, -1), puts.times[found]


def _by_timelines(puts: VersionedPuts, turns: IntArray, asked: Questions, earliest: IntArray) -> Binary:
    """The answers for keys with deletions: replay their puts, with the questions in between."""
    distinct = np.unique(asked.codes)
    rows = puts.order[np.isin(puts.codes[puts.order], distinct)]
    codes = np.concatenate([puts.codes[rows], asked.codes])
    times = np.concatenate([puts.times[rows], asked.times])
    timelines = puts.timelines(distinct, codes, times)
    values = puts.data.take(pa.array(rows)).to_pylist() + [None] * len(asked.codes)
    events = np.argsort(np.concatenate([turns[rows], asked.turns]), kind="stable").tolist()
    oldest = [0] * len(rows) + earliest.tolist()
    listed = codes.tolist(), times.tolist()
    answers: list[bytes | None] = [None] * len(asked.codes)
    for event in events:
        timeline, time = timelines[listed[0][event]], listed[1][event]
        if event < len(rows):
            timeline.put(values[event], time)
        elif time >= oldest[event] or (timeline.latest is not None and timeline.latest.valid_from <= time):
            version = timeline.get(time)
            answers[event - len(rows)] = None if version is None else version.value
    return binary(answers)
