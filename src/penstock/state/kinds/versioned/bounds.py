"""The times at which versions of a versioned store begin and end: for many questions at once, each at its turn of a
chunk."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

import numpy as np
import pyarrow.compute as pc

from penstock.arrays import IntArray, is_present
from penstock.state.columns.rows import Keys
from penstock.state.columns.sorted_index import FOREVER
from penstock.state.kinds.versioned.puts import VersionedPuts
from penstock.state.kinds.versioned.reads import Questions
from penstock.state.kinds.versioned.store import VersionedStore


def bounds_between(
    store: VersionedStore,
    keys: Keys,
    asked: Questions,
    until: IntArray,
    puts: VersionedPuts | None = None,
    turns: IntArray | None = None,
    only_first: bool = False,
) -> tuple[IntArray, IntArray]:
    """All times after each question's time and before its limit at which a version of its key begins or ends.

    The result is pairs of a question's number and a time, in no particular order; a time may occur twice.

    Args:
        keys: the distinct keys of the questions.
        until: the limits.
        puts: the chunk's puts, which are not applied to the store yet.
        turns: the turns of the puts, in processing order.
        only_first: return only the first such time of each question in the store, and the first among the puts.
    """
    parts = _stored(store, keys, asked, until, only_first)
    if puts is not None and turns is not None:
        parts += _put(keys, asked, until, puts, turns, only_first)
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([times for _, times in parts])


Pairs = list[tuple[IntArray, IntArray]]


def _stored(store: VersionedStore, keys: Keys, asked: Questions, until: IntArray, only_first: bool) -> Pairs:
    """The validity bounds of the store's versions, from each version to the next, for all questions together."""
    latest = store.latest(keys).get()
    begins = np.where(is_present(latest.data), latest.timestamps, FOREVER)[asked.codes]
    rows = np.flatnonzero(begins > asked.times)  # older versions end at or before the start of the latest value
    times = asked.times[rows]
    pairs: Pairs = [(rows[:0], times[:0])]
    while rows.size:
        found = store.older(keys, asked.codes[rows], times)
        inside = np.where(found.valid_from > times, found.valid_from, found.valid_to)
        behind = np.where(begins[rows] > times, begins[rows], FOREVER)
        times = np.where(found.exists, inside, behind)
        there = times < until[rows]
        rows, times = rows[there], times[there]
        pairs.append((rows, times))
        if only_first:
            break
    return pairs


def _put(
    keys: Keys, asked: Questions, until: IntArray, puts: VersionedPuts, turns: IntArray, only_first: bool
) -> Pairs:
    """The validity bounds of the versions that the chunk has put before each question's turn."""
    known = pc.index_in(keys.data, puts.keys.data).fill_null(-1).to_numpy().astype(np.int64)
    codes = known[asked.codes]
    rows = np.flatnonzero((codes >= 0) & (_highest_put(puts, turns, codes, asked.turns) > asked.times))
    if not rows.size:
        return []
    of_these = np.isin(puts.codes[puts.order], codes[rows])
    put = puts.order[of_these]
    times: dict[int, list[int]] = {code: [] for code in np.unique(codes[rows]).tolist()}
    numbers, found = [], []
    events = np.argsort(np.concatenate([turns[put], asked.turns[rows]]), kind="stable")
    code_of = np.concatenate([puts.codes[put], codes[rows]]).tolist()
    time_of = np.concatenate([puts.times[put], asked.times[rows]]).tolist()
    until_of = [0] * len(put) + until[rows].tolist()
    row_of = [0] * len(put) + rows.tolist()
    for event in events.tolist():
        before = times[code_of[event]]
        if event < len(put):
            insort(before, time_of[event])
            continue
        first, end = bisect_right(before, time_of[event]), bisect_left(before, until_of[event])
        some = before[first : min(end, first + 1) if only_first else end]
        numbers += [row_of[event]] * len(some)
        found += some
    return [(np.array(numbers, np.int64), np.array(found, np.int64))]


def _highest_put(puts: VersionedPuts, turns: IntArray, codes: IntArray, asked: IntArray) -> IntArray:
    """The highest time of the puts of each key (by its number) before each turn; -1 if there are none."""
    order = puts.order
    if not len(order):
        return np.full(len(codes), -1, np.int64)
    known, ranks = np.unique(puts.times[order], return_inverse=True)
    width = len(known) + 1
    highest = known[np.maximum.accumulate(puts.codes[order] * width + ranks) % width]
    span = int(max(turns.max(), asked.max(initial=0))) + 2
    place = np.searchsorted(puts.codes[order] * span + turns[order], codes * span + asked) - 1
    mine = (place >= 0) & (puts.codes[order[np.maximum(place, 0)]] == codes)
    return np.where(mine, highest[np.maximum(place, 0)], -1)
