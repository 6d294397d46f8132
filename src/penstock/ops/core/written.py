"""The writes of a chunk into a table's store, in order: a look-up as of a record of the same chunk finds the value that
record-at-a-time processing would find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, concat, last_numbers, without_last
from penstock.columns.batch import Changes, Order, order_columns
from penstock.columns.rows import Rows
from penstock.state.columns.rows import Keys, Values
from penstock.state.transactional import physical_keys

R = TypeVar("R", bound=Rows)


class Written(NamedTuple, Generic[R]):
    """The writes of one chunk into one store."""

    keys: Keys
    """The distinct keys."""
    before: R
    """Their values before the chunk."""
    codes: IntArray
    """The number of the key of each write."""
    values: R
    order: Order
    """The place of each write in the task's processing order; ascending."""
    stream_times: IntArray | None = None
    """The store's stream time before the first write and after each write; None for stores without stream time."""

    def followed_by(self, more: Written[R]) -> Written[R]:
        """These writes, followed by others."""
        place = (
            pc.index_in(physical_keys(more.keys), physical_keys(self.keys)).fill_null(-1).to_numpy().astype(np.int64)
        )
        new = np.flatnonzero(place < 0)
        place[new] = len(self.keys) + np.arange(len(new))
        times = None
        if self.keys.times is not None and more.keys.times is not None:
            times = np.concatenate([self.keys.times, more.keys.times[new]])
        depth = max(len(self.order), len(more.order))
        columns = [order_columns(one.order, len(one.codes), depth) for one in (self, more)]
        stream_times = self.stream_times
        if stream_times is not None and more.stream_times is not None:
            stream_times = np.concatenate([stream_times, more.stream_times[1:]])
        return Written(
            Keys(concat([self.keys.data, more.keys.data.take(pa.array(new))]), times),
            self.before.join(more.before.take(new)),
            np.concatenate([self.codes, place[more.codes]]),
            self.values.join(more.values),
            tuple(np.concatenate(pair) for pair in zip(*columns, strict=True)),
            stream_times,
        )

    def as_of(self, current: R, keys: Keys, codes: IntArray, order: Order) -> R:
        """Return the values of keys at given places of the processing order.

        Args:
            current: the values of the keys after the chunk.
            keys: distinct keys.
            codes: the index of the key of each look-up.
            order: the place of each look-up; ascending. A write at the same place has happened already.
        """
        place = pc.index_in(physical_keys(keys), physical_keys(self.keys)).fill_null(-1).to_numpy().astype(np.int64)
        asked = np.flatnonzero(place[codes] >= 0)
        if not asked.size:
            return current.take(codes)
        group = place[codes[asked]]
        write = self._last_write(group, tuple(c if isinstance(c, int) else c[asked] for c in order))
        source = codes.copy()
        count = len(keys)
        source[asked] = np.where(write < 0, count + group, count + len(self.keys) + write)
        return current.join(self.before, self.values).take(source)

    def stream_time(self, order: Order, count: int) -> IntArray:
        """The store's stream time at given places of the processing order."""
        assert self.stream_times is not None
        written, asked = ranks(self.order, order, len(self.codes), count)
        return self.stream_times[np.searchsorted(written, asked, "right")]

    def _last_write(self, group: IntArray, order: Order) -> IntArray:
        """For each look-up, the last write of its key at or before its place; -1 for none."""
        written, asked = ranks(self.order, order, len(self.codes), len(group))
        span = max(int(written.max()), int(asked.max())) + 1
        places = self.codes * span + written
        by_key = np.argsort(places, kind="stable")
        found = np.searchsorted(places[by_key], group * span + asked, "right") - 1
        write = by_key[np.maximum(found, 0)]
        return np.where((found >= 0) & (self.codes[write] == group), write, -1)


@dataclass(frozen=True, slots=True)
class PriorValues(Rows):
    """Values of ``priorValueForBuffered``: the last emitted value before each key's entry; null if the buffer holds no
    entry."""

    values: Binary
    is_held: BoolArray


def written_windows(
    there: Binary, before: Values, changes: Changes, times: IntArray, by_start: bool
) -> Written[Values]:
    """Turn the changes of a windowed table into writes.

    Args:
        there: the windowed keys with values before the chunk.
        before: these values.
        changes: the writes.
        times: the store's stream time before the first write, and after each.
        by_start: True if the store's keys are pairs of key and window start, False if they are windowed keys.
    """
    encoded = concat([there, changes.key.encoded()]).dictionary_encode()
    codes, count = encoded.indices.to_numpy().astype(np.int64), len(there)
    place = np.full(len(encoded.dictionary), -1, np.int64)
    place[codes[:count]] = np.arange(count)
    old = Values(before.data.take(pa.array(place, mask=place < 0)), np.full(len(place), -1, np.int64))
    old.timestamps[codes[:count]] = before.timestamps
    names = encoded.dictionary
    keys = Keys(without_last(names, 8), last_numbers(names)) if by_start else Keys(names)
    return Written(keys, old, codes[count:], Values(changes.value.encoded(), changes.timestamp), changes.order, times)


def ranks(written: Order, asked: Order, writes: int, questions: int, before: bool = False) -> tuple[IntArray, IntArray]:
    """Number the places of writes and look-ups in processing order; a write comes before a look-up at the same place.

    Args:
        before: a write comes after the look-ups at its own place, and after all that these cause.
    """
    first, other = written[0], asked[0]
    assert isinstance(first, np.ndarray)
    assert isinstance(other, np.ndarray)
    low = min(int(first.min()), int(other.min()))
    if _never_meet(first, other):
        return first - low, other - low
    if before:
        asked = asked[: len(written)]
    depth = max(len(written), len(asked))
    columns = zip(order_columns(written, writes, depth), order_columns(asked, questions, depth), strict=True)
    every = [np.concatenate(pair) for pair in columns]
    is_question = np.arange(writes + questions) >= writes
    in_order = np.lexsort((~is_question if before else is_question, *every[::-1]))
    rank = np.empty(writes + questions, np.int64)
    rank[in_order] = np.arange(writes + questions)
    return rank[:writes], rank[writes:]


def _never_meet(one: IntArray, other: IntArray) -> bool:
    """True if two ascending columns share no number and the first has no duplicates."""
    at = np.searchsorted(one, other)
    inside = at < len(one)
    meets: BoolArray = one[at[inside]] == other[inside]
    return not meets.any() and bool((one[1:] > one[:-1]).all())
