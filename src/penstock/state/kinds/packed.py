"""Stores in which a row holds all entries of a key in a stretch of time: sessions, or windows that begin at any
time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, distinct, fixed_binary, is_present, numbered
from penstock.state.columns.packed import Entries, pack, unpack, unpack_one
from penstock.state.columns.rows import Keys, Values
from penstock.state.kinds.segments import KeyedRow
from penstock.state.kinds.slots import SlottedStore
from penstock.values.durations import MAX_MS

_MOST_SLOTS = 1000

KeyedEntry = tuple[bytes, tuple[int, int, bytes]]
"""A key, and both numbers and the data of one of its entries."""


class Loaded(NamedTuple):
    """The loaded entries of some keys, sorted by key and then by both numbers."""

    keys: Keys
    entries: Entries
    """``row`` is the number of the key."""


class PackedStore(SlottedStore):
    """Several entries in a row: those of a key whose first number, a time, is in the same stretch of time, a slot.

    So one or two look-ups find the entries around a record, without a scan. A segment consists of several slots.

    Args:
        name: the store's name.
        retention: milliseconds for which entries are kept, by their first number.
        in_memory: keep all rows in memory.
        segment_interval: milliseconds that one segment covers.
        slot: milliseconds that one slot covers, unless the retention is so long that there would be too many of them.
    """

    def __init__(
        self,
        name: str,
        retention: int,
        in_memory: bool = False,
        segment_interval: int | None = None,
        slot: int | None = None,
    ):
        super().__init__(name, retention, in_memory, segment_interval)
        self.slot = slot
        width = self.segment_interval
        if slot is not None:
            width = min(width, max(slot, retention // _MOST_SLOTS, 1))
        self._slot_width = width
        self._slots_a_segment = -(-self.segment_interval // width)

    def load_range(
        self, keys: Keys, earliest: IntArray, latest: IntArray, unseen_from: int | None = None, to_write: bool = True
    ) -> Loaded:
        """Load the entries of distinct keys, each in its own time range, and the other entries of the same rows.

        Args:
            keys: the keys.
            earliest: the start of each key's range.
            latest: the end of each key's range, included.
            unseen_from: the earliest first number that matters although it is no longer visible.
            to_write: True if writes follow, so that missing rows are created.
        """
        low = self._slots(np.maximum(earliest, max(self._kept_from(unseen_from), 0)))
        high = self._slots(np.clip(latest, 0, max(self.observed_stream_time, 0)))
        counts = np.maximum(high - low + 1, 0)
        owner = np.repeat(np.arange(len(keys)), counts)
        slot = low[owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        places = keys.at(owner, slot)
        entries = unpack((self.locate(places).get() if to_write else super().look_up(places)).data)
        return Loaded(keys, Entries(owner[entries.row], entries.first, entries.second, entries.data))

    def of_times(self, earliest: int, latest: int) -> Loaded | None:
        """All entries in a time range, both ends included, also invisible ones; None if there are none."""
        if latest < earliest:
            return None
        first, last = self._slots(np.array([earliest, latest])).tolist()
        found = self.between(first, last)
        if found is None:
            return None
        keys, values = found
        entries = unpack(values.data)
        inside = np.flatnonzero((entries.first >= earliest) & (entries.first <= latest))
        return Loaded(Keys(keys.data), entries.take(inside))

    def write(self, loaded: Loaded, removed: BoolArray, new: Entries, unseen_from: int | None = None) -> None:
        """Remove loaded entries and put new ones; invisible entries are discarded."""
        old = loaded.entries
        slot_of_old, slot_of_new = self._slots(old.first), self._slots(new.first)
        slots = np.concatenate([slot_of_old, slot_of_new])
        if not len(slots):
            return
        numbers, named = numbered(slots, len(loaded.keys))
        span = int(numbers.max()) + 1
        code_of_old = old.row * span + numbers[: len(slot_of_old)]
        code_of_new = new.row * span + numbers[len(slot_of_old) :]
        codes = distinct(np.concatenate([code_of_old[removed], code_of_new]))
        if not len(codes):
            return
        kept = np.flatnonzero(~removed & (old.first >= self._kept_from(unseen_from)) & np.isin(code_of_old, codes))
        stays = old.take(kept)
        stays = Entries(np.searchsorted(codes, code_of_old[kept]), stays.first, stays.second, stays.data)
        joins = Entries(np.searchsorted(codes, code_of_new), new.first, new.second, new.data)
        entries = stays.merge(joins)
        last = np.full(len(codes), -1, np.int64)
        last[entries.row] = entries.first
        located = self.locate(loaded.keys.at(codes // span, named(codes % span)))
        self.put(located, Values(pack(entries, len(codes)), last))

    def put_entries(self, names: Binary, new: Entries, by_both: bool) -> None:
        """Write entries by key and first number, or by both numbers; null removes an entry.

        Args:
            names: the keys, each with its entry.
            new: the entries; their rows are ignored.
            by_both: True if entries of one key may have equal first numbers.
        """
        self.advance(int(new.first.max()))
        rows = names.dictionary_encode()
        row = rows.indices.to_numpy().astype(np.int64)
        earliest, latest = np.full(len(rows.dictionary), MAX_MS), np.zeros(len(rows.dictionary), np.int64)
        np.minimum.at(earliest, row, new.first)
        np.maximum.at(latest, row, new.first)
        loaded = self.load_range(Keys(rows.dictionary), earliest, latest)
        numbers = [loaded.entries.row, loaded.entries.first, loaded.entries.second]
        written = [row, new.first, new.second]
        there, put = (fixed_binary(np.stack(some[: 2 + by_both], axis=1)) for some in (numbers, written))
        kept = np.flatnonzero(is_present(new.data) & self.visible(new.first))
        kept = kept[np.lexsort((new.second[kept], new.first[kept], row[kept]))]
        entries = Entries(row[kept], new.first[kept], new.second[kept], new.data.take(pa.array(kept)))
        self.write(loaded, pc.is_in(there, put).to_numpy(zero_copy_only=False), entries)

    # --- one entry after the other -------------------------------------------------------------------------------

    def entries_of(self, key: bytes, earliest: int, latest: int, reverse: bool = False) -> Iterator[KeyedEntry]:
        """The entries of one key whose first numbers are in a range, both ends included, in order or backwards.

        Loads nothing into memory, and ignores visibility.
        """
        first, last = self._slots_between(earliest, latest)
        return _taken_apart(self.scan_key(key, first, last, reverse), earliest, latest, reverse)

    def entries_between(
        self, low: bytes | None, high: bytes | None, earliest: int, latest: int, reverse: bool = False
    ) -> Iterator[KeyedEntry]:
        """The entries of a range of keys (None: no bound) whose first numbers are in a range, sorted by segment and
        key."""
        first, last = self._slots_between(earliest, latest)
        return _taken_apart(self.scan_keys(low, high, first, last, reverse), earliest, latest, reverse)

    def _kept_from(self, unseen_from: int | None) -> int:
        return self.earliest_visible if unseen_from is None else min(self.earliest_visible, unseen_from)


def _taken_apart(rows: Iterator[KeyedRow], earliest: int, latest: int, reverse: bool) -> Iterator[KeyedEntry]:
    for key, _, packed, _ in rows:
        entries = unpack_one(packed)
        for entry in reversed(entries) if reverse else entries:
            if earliest <= entry[0] <= latest:
                yield key, entry
