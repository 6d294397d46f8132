"""What a chunk has written into a table's store, write by write: so that whoever looks a key up as of a record of the
same chunk finds what record-at-a-time processing would have found there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, concat, last_numbers, without_last
from penstock.batch import Changes, Order, order_columns
from penstock.rows import Rows
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
    """For each write the number of its key."""
    values: R
    order: Order
    """Where each write stands in the task's processing order; ascending."""
    stream_times: IntArray | None = None
    """The store's stream time before the first write, and after each; None for stores that have none."""

    def followed_by(self, more: Written[R]) -> Written[R]:
        """These writes, and others behind them."""
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
        """The values of keys at several places of the processing order.

        Args:
            current: the values of the keys after the chunk.
            keys: distinct keys.
            codes: which of the keys is asked for.
            order: when; ascending. A write at that very place has happened already.
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
        """The store's stream time at several places of the processing order."""
        assert self.stream_times is not None
        written, asked = ranks(self.order, order, len(self.codes), count)
        return self.stream_times[np.searchsorted(written, asked, "right")]

    def _last_write(self, group: IntArray, order: Order) -> IntArray:
        """For each look-up the last write of its key that is not behind it; -1 for none."""
        written, asked = ranks(self.order, order, len(self.codes), len(group))
        span = max(int(written.max()), int(asked.max())) + 1
        places = self.codes * span + written
        by_key = np.argsort(places, kind="stable")
        found = np.searchsorted(places[by_key], group * span + asked, "right") - 1
        write = by_key[np.maximum(found, 0)]
        return np.where((found >= 0) & (self.codes[write] == group), write, -1)


@dataclass(frozen=True, slots=True)
class PriorValues(Rows):
    """``priorValueForBuffered``: the value before each key's entry, which was sent on last; null where none is held."""

    values: Binary
    is_held: BoolArray


def written_windows(
    there: Binary, before: Values, changes: Changes, times: IntArray, by_start: bool
) -> Written[Values]:
    """The writes that changes of a table of windows are.

    Args:
        there: the windowed keys that had values before the chunk.
        before: these values.
        changes: the writes.
        times: the store's stream time before the first write, and after each.
        by_start: whether the store's keys are keys and window starts, and not windowed keys as they are.
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
    """Numbers that are in the order of the places of writes and questions; a write is not behind a question at its
    own place.

    Args:
        before: a write is behind the questions at its own place, and behind all that come of it.
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
    """Whether two ascending columns have no number in common, and the first has none twice."""
    at = np.searchsorted(one, other)
    inside = at < len(one)
    meets: BoolArray = one[at[inside]] == other[inside]
    return not meets.any() and bool((one[1:] > one[:-1]).all())
