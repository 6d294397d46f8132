"""Many puts into a versioned store at once, with the outcome of putting them one after the other.

Keys that are only put values in a chunk are processed together: the place of each put among the store's versions
decides what is written. The order of the puts only decides which value wins at equal times. Deletions leave traces that
depend on their order, so a key with a deletion goes through its ``Timeline``.

The store itself is written in ``apply``, so that look-ups as of a record of the chunk find it unchanged until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, BoolArray, IntArray, binary, concat, is_missing, is_present
from penstock.state.columns.rows import Keys, Values
from penstock.state.columns.sorted_index import FOREVER
from penstock.state.kinds.versioned.store import Found, VersionedStore
from penstock.state.kinds.versioned.timeline import VALID_TO_UNDEFINED, Timeline, Version


@dataclass
class Writes:
    """Rows to write, by the number of their key."""

    codes: list[IntArray] = field(default_factory=list)
    ends: list[IntArray] = field(default_factory=list)
    begins: list[IntArray] = field(default_factory=list)
    data: list[Binary] = field(default_factory=list)

    def add(self, codes: IntArray, ends: IntArray, begins: IntArray, data: Binary) -> None:
        if len(codes):
            self.codes.append(codes)
            self.ends.append(ends)
            self.begins.append(begins)
            self.data.append(data)

    def columns(self) -> tuple[IntArray, IntArray, IntArray, Binary]:
        columns = np.concatenate(self.codes), np.concatenate(self.ends), np.concatenate(self.begins)
        return *columns, concat(self.data)


class VersionedPuts:
    """The puts of one chunk, in processing order.

    Attributes:
        accepted: true for puts that take place; the others are older than the history retention.
        is_latest: true for puts that are the latest version of their key when they are put.
        previous: for each put, the number of the put that set the key's latest value before it; -1 if it is the
            store's.
        latest: the latest values before the chunk, by key.
        found: the store's next older version after each put's time, where it was looked up.
        stream_time: the store's stream time at each put.

    Args:
        keys: the distinct keys.
        codes: the number of each put's key.
        times: the timestamps, none of them negative.
        data: the values; null deletes.
    """

    def __init__(self, store: VersionedStore, keys: Keys, codes: IntArray, times: IntArray, data: Binary):
        self.store = store
        self.keys = keys
        self.codes = codes
        self.times = times
        self.data = data
        self.time_before = store.observed_stream_time
        self.stream_time = np.maximum(np.maximum.accumulate(times), self.time_before)
        self.accepted: BoolArray = times >= self.stream_time - store.retention
        self.latest: Values = store.latest(keys).get()
        self.has_latest = is_present(self.latest.data)
        self.by_timeline = np.zeros(len(keys), np.bool_)
        if data.null_count:
            self.by_timeline[codes[is_missing(data) & self.accepted]] = True
        self.valid_to = np.full(len(codes), FOREVER, np.int64)
        self.is_latest = np.zeros(len(codes), np.bool_)
        self.is_highest = np.zeros(len(codes), np.bool_)
        """True for puts with the highest time of their key so far in the chunk."""
        self.previous = np.full(len(codes), -1, np.int64)
        self._older = Writes()
        self._latest = Writes()
        self._put_all()

    def _put_all(self) -> None:
        """Decide the outcome of every put."""
        order = np.lexsort((np.arange(len(self.codes)), self.codes))
        order = order[self.accepted[order]]
        self.order = order
        """The accepted puts by key and then in processing order."""
        self.found = self._look_up(order)
        self._find_latest(order)
        straight = order[~self.by_timeline[self.codes[order]]]
        self._put_values(straight)
        self._put_by_timeline(order[self.by_timeline[self.codes[order]]])
        self._find_previous(order)

    def _look_up(self, order: IntArray) -> Found:
        """Look up the store's next older version after the time of each put that is not the last one."""
        begins = np.where(self.has_latest, self.latest.timestamps, FOREVER)[self.codes]
        asked = order[self.times[order] < begins[order]]
        found = self.store.older(self.keys, self.codes[asked], self.times[asked])
        valid_to = np.full(len(self.codes), FOREVER, np.int64)
        valid_from = np.full(len(self.codes), -1, np.int64)
        entries = np.full(len(self.codes), -1, np.int64)
        valid_to[asked], valid_from[asked], entries[asked] = found.valid_to, found.valid_from, np.arange(len(asked))
        return Found(valid_to, valid_from, found.data.take(pa.array(entries, mask=entries < 0)))

    def _find_latest(self, order: IntArray) -> None:
        """Find the time until which each put is valid next to the store's versions, and the puts that are the latest of
        their key."""
        found, times = self.found, self.times
        inside = found.valid_from <= times
        begins = np.where(self.has_latest, self.latest.timestamps, -1)[self.codes]
        self.bound = np.where(found.exists, np.where(inside, found.valid_to, found.valid_from), FOREVER)
        """The end of the version or gap that a put falls into."""
        self.bound = np.where(~found.exists & (begins > times), begins, self.bound)
        if not len(order):
            return
        codes, ordered = self.codes[order], times[order]
        _, ranks = np.unique(ordered, return_inverse=True)
        highest = np.maximum.accumulate(codes * (len(order) + 1) + ranks) - codes * (len(order) + 1)
        self.is_highest[order] = ranks >= highest
        self.is_latest[order] = (self.bound[order] == FOREVER) & self.is_highest[order]

    def _put_values(self, rows: IntArray) -> None:
        """Process the puts of keys without deletions: each version reaches to the next one, of the chunk or the
        store."""
        if not len(rows):
            return
        rows = rows[np.lexsort((self.times[rows], self.codes[rows]))]
        codes, times = self.codes[rows], self.times[rows]
        last = np.ones(len(rows), np.bool_)
        last[:-1] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
        rows, codes, times = rows[last], codes[last], times[last]
        bound = self.bound[rows]
        following = np.full(len(rows), FOREVER, np.int64)
        following[:-1] = np.where(codes[1:] == codes[:-1], times[1:], FOREVER)
        ends = np.minimum(bound, following)
        preceded = np.zeros(len(rows), np.bool_)  # by a put into the same version or gap
        preceded[1:] = (codes[1:] == codes[:-1]) & (times[1:] < bound[:-1])
        older = np.flatnonzero(ends < FOREVER)
        self._older.add(codes[older], ends[older], times[older], self.data.take(pa.array(rows[older])))
        latest = np.flatnonzero(ends == FOREVER)
        self._latest.add(codes[latest], ends[latest], times[latest], self.data.take(pa.array(rows[latest])))
        self._shorten(rows[~preceded], codes[~preceded], times[~preceded])

    def _shorten(self, rows: IntArray, codes: IntArray, times: IntArray) -> None:
        """Shorten the store's versions, each at the first put into it."""
        found = self.found
        cut = np.flatnonzero(found.exists[rows] & (found.valid_from[rows] < times))
        self._older.add(codes[cut], times[cut], found.valid_from[rows[cut]], found.data.take(pa.array(rows[cut])))
        begins = self.latest.timestamps[codes]
        cut = np.flatnonzero(~found.exists[rows] & self.has_latest[codes] & (begins < times))
        self._older.add(codes[cut], times[cut], begins[cut], self.latest.data.take(pa.array(codes[cut])))

    def _put_by_timeline(self, rows: IntArray) -> None:
        """Process the puts of keys with deletions, one after the other."""
        if not len(rows):
            return
        timelines = self.timelines(np.unique(self.codes[rows]), self.codes[rows], self.times[rows])
        values = self.data.take(pa.array(rows)).to_pylist()
        for row, code, time, value in zip(
            rows.tolist(), self.codes[rows].tolist(), self.times[rows].tolist(), values, strict=True
        ):
            self.is_latest[row] = timelines[code].put(value, time) == VALID_TO_UNDEFINED
        for code, timeline in timelines.items():
            ends = sorted(timeline.changed)
            versions = [timeline.older[end] for end in ends]
            self._older.add(
                np.full(len(ends), code),
                np.array(ends, np.int64),
                np.array([version.valid_from for version in versions], np.int64),
                binary([version.value for version in versions]),
            )
            latest = timeline.latest or Version(None, -1)
            value = binary([latest.value])
            self._latest.add(np.array([code]), np.array([FOREVER]), np.array([latest.valid_from]), value)

    def timelines(self, distinct: IntArray, codes: IntArray, times: IntArray) -> dict[int, Timeline]:
        """The timelines of keys from the store, as far as they are needed for some times."""
        latest = self.latest.data.take(pa.array(distinct)).to_pylist()
        begins = self.latest.timestamps[distinct].tolist()
        made = {
            code: Timeline(None if value is None else Version(value, begin), self.store.remembers_deletions)
            for code, value, begin in zip(distinct.tolist(), latest, begins, strict=True)
        }
        both = np.concatenate([times, times - 1])  # a deletion also needs the version that ends at its time
        codes = np.concatenate([codes, codes])
        found = self.store.older(self.keys, codes, both)
        rows = np.flatnonzero(found.exists)
        for code, end, begin, value in zip(
            codes[rows].tolist(),
            found.valid_to[rows].tolist(),
            found.valid_from[rows].tolist(),
            found.data.take(pa.array(rows)).to_pylist(),
            strict=True,
        ):
            made[code].load(end, Version(value, begin))
        return made

    def _find_previous(self, order: IntArray) -> None:
        """For each put, find the last earlier one of its key that was the latest then."""
        if len(order) < 2:
            return
        codes = self.codes[order]
        own = np.where(self.is_latest[order], np.arange(len(order)), -1)
        start = np.zeros(len(order), np.int64)
        start[1:] = np.where(codes[1:] != codes[:-1], np.arange(1, len(order)), 0)
        start = np.maximum.accumulate(start)
        before = np.full(len(order), -1, np.int64)
        before[1:] = np.maximum.accumulate(own)[:-1]
        self.previous[order] = np.where(before >= start, order[before], -1)

    def latest_before(self) -> tuple[Binary, IntArray]:
        """The latest value of its key before each put, and its time; null and -1 if there was none."""
        values = concat([self.latest.data, self.data])
        places = np.where(self.previous < 0, self.codes, len(self.keys) + self.previous)
        times = np.concatenate([np.where(self.has_latest, self.latest.timestamps, -1), self.times])
        return values.take(pa.array(places)), times[places]

    def apply(self) -> None:
        """Write the results of the puts."""
        if len(self.stream_time):
            self.store.advance(int(self.stream_time[-1]))
        if self._older.codes:
            codes, ends, begins, data = self._older.columns()
            self.store.put_older(self.keys.at(codes, ends), begins, data)
        if self._latest.codes:
            codes, _, begins, data = self._latest.columns()
            self.store.put_latest(self.keys.take(codes), Values(data, begins))


def repeated_deletions(store: VersionedStore, keys: Keys, codes: IntArray, times: IntArray, data: Binary) -> BoolArray:
    """True for deletions of keys that have no value at their turn, if all such deletions are left out.

    Leaving out a put affects the next ones, so the puts are checked one after the other.
    """
    puts = VersionedPuts(store, keys, codes[:0], times[:0], data[:0])
    timelines = puts.timelines(np.arange(len(keys)), codes, times)
    skipped = np.zeros(len(codes), np.bool_)
    now = store.observed_stream_time
    rows = zip(codes.tolist(), times.tolist(), data.to_pylist(), strict=True)
    for row, (code, time, value) in enumerate(rows):
        timeline = timelines[code]
        if value is None and timeline.latest is None:
            skipped[row] = True
        elif time >= now - store.retention:
            now = max(now, time)
            timeline.put(value, time)
    return skipped
