"""Stores whose writes can be undone until they are committed (KIP-892).

Writes go to rows in memory, and the replaced values are remembered. A commit forgets the old values and begins the next
transaction; a rollback restores them. Below the rows is a column family of the task's database. It only receives
committed rows, when ``flush`` writes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import (
    Binary,
    BoolArray,
    IntArray,
    binary,
    distinct,
    fixed_binary,
    is_present,
    items_at,
    spans,
    without_first,
)
from penstock.state.columns.ordered import OrderedRows
from penstock.state.columns.replaced import Replaced
from penstock.state.columns.rows import Keys, RowTable, Values
from penstock.state.database import BLOCK_BYTES

Row = tuple[bytes, bytes, int]
"""A row of a scan: the key's bytes (in window stores followed by the window's start), its value, its timestamp."""

READ_AT_ONCE = 10_000
BYTES_OF_A_ROW = 48
"""The bytes that an uncommitted row counts, apart from those of its value."""
_FEW_ROWS = 64
_changes = count(1)
_COUNTED_ROWS = 10_000
"""So many rows are counted one by one where some are on disk only."""
_FLUSHED_AT_ONCE = 10_000  # rows take several times the memory as Python objects


class Base(Protocol):
    """The layer below the rows in memory: bytes on disk, sorted by key."""

    is_empty: bool

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]: ...

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]: ...

    def blocks(
        self, low: bytes | None, high: bytes | None, count: int
    ) -> Iterator[tuple[list[bytes], list[bytes]]]: ...

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]: ...

    def approximate_count(self) -> int: ...

    def approximate_bytes(self) -> int: ...


class ChangeSet(NamedTuple):
    """The rows that a transaction changed, each once, with their last values."""

    keys: Keys
    values: Values


class TransactionalRows:
    """Keys with values and timestamps, always inside a transaction; after each commit the next one begins.

    Look up keys once with ``find``, and then use row numbers:

    >>> store = TransactionalRows()
    >>> rows = store.find(Keys(pa.array([b"a", b"b"], pa.binary())))
    >>> store.put(rows, Values(pa.array([b"1", b"2"], pa.binary()), np.array([10, 20])))
    >>> store.commit()
    >>> store.put(rows[:1], Values(pa.array([None], pa.binary()), np.array([30])))
    >>> list(store.scan())
    [(b'b', b'2', 20)]
    >>> store.rollback()
    >>> list(store.scan(reverse=True))
    [(b'b', b'2', 20), (b'a', b'1', 10)]
    """

    def __init__(self, base: Base | None = None):
        self.base = base
        self.is_all_here = base is None or base.is_empty
        """True if all rows are in memory, so that the disk need not be read."""
        self.has_committed = not self.is_all_here
        """True if any row was ever committed."""
        self.replaced: Replaced | None = None
        """The values that the transaction replaced; None if no caller needs earlier values."""
        self._table = RowTable()
        self._ordered: OrderedRows | None = None
        """The rows in order, once a range has been scanned."""
        self._dirty: BoolArray = np.zeros(0, np.bool_)
        self._touched: BoolArray = np.zeros(0, np.bool_)
        self._undo: list[tuple[IntArray, tuple[IntArray, IntArray], BoolArray]] = []
        self.approximate_num_uncommitted_entries = 0
        self.approximate_num_uncommitted_bytes = 0
        self.changed_at = 0
        """Grows with each write, commit and rollback, beyond that of all other rows."""

    @property
    def nbytes(self) -> int:
        """Memory held by the rows."""
        ordered = self._ordered.nbytes if self._ordered is not None else 0
        return self._table.nbytes + self._dirty.nbytes + self._touched.nbytes + ordered

    @property
    def recent_nbytes(self) -> int:
        """The approximate memory that ``evict`` would leave: that of the rows used since its last call."""
        size = len(self._table)
        return self._table.used_nbytes * int(np.count_nonzero(self._touched[:size])) // max(size, 1)

    # --- reading and writing -------------------------------------------------------------------------------------

    def find(self, keys: Keys) -> IntArray:
        """The rows of distinct keys, created if missing; valid until the next commit."""
        return self._found(keys, self._load)

    def place(self, keys: Keys) -> IntArray:
        """The rows of distinct keys, each of which is put next: their values on disk are not read."""
        return self._found(keys, self._add)

    def _found(self, keys: Keys, make: Callable[[Keys], IntArray]) -> IntArray:
        rows = self._table.find(keys)
        unknown = np.flatnonzero(rows < 0)
        if unknown.size:
            rows[unknown] = make(keys.take(unknown) if unknown.size < len(keys) else keys)
        self._touched[rows] = True
        return rows

    def seek(self, keys: Keys) -> IntArray:
        """The rows of distinct keys, -1 for keys without one; creates none."""
        rows = self._table.find(keys)
        unknown = np.flatnonzero(rows < 0)
        if unknown.size and not self.is_all_here:
            rows[unknown] = self._load_known(keys.take(unknown))
        self._touched[rows[rows >= 0]] = True
        return rows

    def get(self, rows: IntArray) -> Values:
        """The values of rows."""
        return self._table.values(rows)

    def touch(self, rows: IntArray) -> None:
        """Mark rows as used, so that the next ``evict`` leaves them in memory."""
        self._touched[rows] = True

    def get_committed(self, rows: IntArray) -> Values:
        """The values of rows as they were when the transaction began."""
        assert self.replaced is not None
        return self._table.recall(*self.replaced.before(rows, self._table.remember(rows)))

    def look_up(self, keys: Keys, committed: bool = False) -> Values:
        """The values of distinct keys, or those from before the transaction; creates no rows."""
        rows, get = self.seek(keys), self.get_committed if committed else self.get
        known = rows >= 0
        if known.all():
            return get(rows)
        found = get(rows[known])
        timestamps = np.full(len(rows), -1, np.int64)
        timestamps[known] = found.timestamps
        return Values(found.data.take(pa.array(np.cumsum(known) - 1, mask=~known)), timestamps)

    def get_one(self, key: bytes, time: int | None = None) -> tuple[bytes, int] | None:
        """The value and timestamp of one key; None if it has none. Creates no row."""
        row = self._table.find_one(key, time)
        if row >= 0:
            self._touched[row] = True
            return self._table.value(row)
        if self.base is None or self.is_all_here:
            return None
        found = self.base.get(key if time is None else key + time.to_bytes(8, "big", signed=True))
        return None if found is None else unpack(found)

    def put(self, rows: IntArray, values: Values) -> None:
        """Write the values of rows, each row once; a null value deletes."""
        remembered = self._table.remember(rows)
        self._undo.append((rows, remembered, self._dirty[rows]))
        self.changed_at = next(_changes)
        if self.replaced is not None:
            self.replaced.note(rows, remembered)
        self._table.assign(rows, values)
        self._dirty[rows] = True
        self.approximate_num_uncommitted_entries += len(rows)
        self.approximate_num_uncommitted_bytes += BYTES_OF_A_ROW * len(rows) + int(spans(values.data).length.sum())

    def scan(self, low: bytes | None = None, high: bytes | None = None, reverse: bool = False) -> Iterator[Row]:
        """The rows with ``low <= key < high`` in the byte order of the keys, or backwards."""
        within = self._in_order(low, high)
        here = within[self._table.present()[within]]
        ours = iter(self._rows_at(here[::-1] if reverse else here))
        if self.base is None or self.is_all_here:
            return ours
        known = set(self._physical(within)) if len(within) else ()
        theirs = ((key, *unpack(row)) for key, row in self.base.scan(low, high, reverse) if key not in known)
        return heapq.merge(ours, theirs, key=itemgetter(0), reverse=reverse) if known else theirs

    def _in_order(self, low: bytes | None, high: bytes | None) -> IntArray:
        """The rows in memory with ``low <= key < high``, with or without a value, in the byte order of the keys."""
        size = len(self._table)
        if not size:
            return np.zeros(0, np.int64)
        if low is None and high is None:
            return pc.array_sort_indices(self._all_keys()).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
        self._ordered = self._ordered or OrderedRows(self._key_of, self._all_keys)
        self._ordered.grow(size)
        return self._ordered.between(low, high)

    def _all_keys(self) -> Binary:
        return self._layout(self._table.keys(np.arange(len(self._table))))

    def _rows_at(self, rows: IntArray) -> Iterable[Row]:
        """Rows in the form of scans; all of them must have values."""
        if len(rows) <= _FEW_ROWS:
            return [(self._key_of(row), *(self._table.value(row) or (b"", -1))) for row in rows.tolist()]
        values = self._table.values(rows)
        return zip(self._physical(rows), values.data.to_pylist(), values.timestamps.tolist(), strict=True)

    def prefix_scan(self, prefix: bytes, reverse: bool = False) -> Iterator[Row]:
        """The rows whose keys begin with these bytes."""
        return self.scan(prefix, after_prefix(prefix), reverse)

    def count_in_memory(self) -> int:
        """The number of rows in memory that have a value."""
        return int(np.count_nonzero(self._table.present()))

    def approximate_num_entries(self) -> int:
        """The number of rows with a value; approximate for rows that are only on disk."""
        here = self.count_in_memory()
        if self.base is None or self.is_all_here:
            return here
        few = self._few()
        return max(here, self.base.approximate_count(), _COUNTED_ROWS) if few is None else len(few)

    def _few(self) -> list[Row] | None:
        """All rows if some are only on disk, and they are few enough to be counted one by one: many rewrites lead
        RocksDB's count astray. None if not."""
        if self.base is None or self.is_all_here:
            return None
        if max(self.base.approximate_count(), len(self._table)) > _COUNTED_ROWS:
            return None
        rows = list(islice(self.scan(), _COUNTED_ROWS + 1))
        return None if len(rows) > _COUNTED_ROWS else rows

    def _approximate_on_disk(self) -> int:
        """The approximate number of rows that are only on disk."""
        if self.base is None or self.is_all_here:
            return 0
        return max(self.base.approximate_count() - self.count_in_memory(), 0)

    def approximate_since(self, earliest: int, share: float = 1.0) -> int:
        """The number of rows with a timestamp at or after a time: of the rows that are only on disk, ``share`` of
        them."""
        there = self._table.timestamps(np.flatnonzero(self._table.present()))
        return int(np.count_nonzero(there >= earliest)) + round(share * self._approximate_on_disk())

    def approximate_bytes(self) -> int:
        """The approximate bytes of the rows, in memory and on disk."""
        return self.nbytes + (0 if self.base is None or self.is_all_here else self.base.approximate_bytes())

    def _between(self, earliest: int, latest: int) -> tuple[Keys, Values]:
        """The rows in memory within a time range, both ends included."""
        times = self._table.times()
        rows = np.flatnonzero(self._table.present() & (times >= earliest) & (times <= latest))
        return self._table.keys(rows), self._table.values(rows)

    def _load(self, keys: Keys) -> IntArray:
        """Create rows for keys that are not in memory, with their values on disk."""
        rows = self._add(keys)
        if self.base is not None and not self.is_all_here:
            found = binary(self.base.get_many(self._physical(rows)))
            if found.null_count < len(found):
                self._table.assign(rows, unpack_all(found))
        return rows

    def _load_known(self, keys: Keys) -> IntArray:
        """Create rows for the keys that the disk has, and return -1 for the others; none of the keys is in memory."""
        assert self.base is not None
        rows = np.full(len(keys), -1, np.int64)
        found = binary(self.base.get_many(self._layout(keys).to_pylist()))
        known = np.flatnonzero(is_present(found))
        if known.size:
            rows[known] = self._add(keys.take(known))
            self._table.assign(rows[known], unpack_all(found.drop_null()))
        return rows

    def _take_in(self, keys: Keys, packed: Binary) -> None:
        """Load rows of the disk that are not in memory; this does not count as use."""
        unknown = np.flatnonzero(self._table.find(keys) < 0)
        if unknown.size:
            rows = self._add(keys.take(unknown))
            self._table.assign(rows, unpack_all(packed.take(pa.array(unknown))))

    def _add(self, keys: Keys) -> IntArray:
        """Create rows without values."""
        first = len(self._table)
        rows = self._table.add(keys)
        size = len(self._table)
        if size > len(self._dirty):
            self._dirty, self._touched = (_grown(flags, first, size) for flags in (self._dirty, self._touched))
        self._dirty[rows] = False
        return rows

    def present(self) -> BoolArray:
        """True for rows in memory with a value."""
        return self._table.present()

    def times(self) -> IntArray:
        """The times of the rows in memory."""
        return self._table.times()

    def keys(self, rows: IntArray) -> Keys:
        """The keys of rows."""
        return self._table.keys(rows)

    def load_all(self) -> None:
        """Load all rows of the disk into memory."""
        if self.base is not None and not self.is_all_here:
            for keys, packed in self.base.blocks(None, None, READ_AT_ONCE):
                self._take_in(self.logical(binary(keys)), binary(packed))
            self.is_all_here = True

    def logical(self, keys: Binary) -> Keys:
        """Turn keys as they are on disk into keys with times."""
        return Keys(keys)

    def _physical(self, rows: IntArray) -> list[bytes]:
        """The keys of rows in their form on disk."""
        return self._layout(self._table.keys(rows)).to_pylist()  # type: ignore[no-any-return]

    def _key_of(self, row: int) -> bytes:
        """The key of one row in its form on disk."""
        return self._table.physical_key(row)

    def _layout(self, keys: Keys) -> Binary:
        """Keys in their form on disk."""
        return physical_keys(keys)

    # --- transactions --------------------------------------------------------------------------------------------

    def changes(self) -> ChangeSet:
        """The changes of the transaction so far."""
        rows = self._changed()
        return ChangeSet(self._table.keys(rows), self._table.values(rows))

    def apply(self, changes: ChangeSet) -> None:
        """Write committed changes of another process."""
        self.put(self.place(changes.keys), changes.values)
        self.commit()

    def commit(self) -> None:
        """Keep the writes of the transaction, and begin the next one."""
        self.has_committed = self.has_committed or bool(self._undo)
        self._begin()
        self._table.compact()

    def rollback(self) -> None:
        """Undo the writes of the transaction, and begin the next one."""
        for rows, values, dirty in reversed(self._undo):
            self._table.restore(rows, values)
            self._dirty[rows] = dirty
        self._begin()

    def replaced_values(self) -> tuple[Keys, Values]:
        """The rows that the transaction has written, with the values from before it."""
        if not self._undo:
            return self._table.keys(self._changed()), self._table.values(self._changed())
        written, before, _ = zip(*self._undo, strict=True)
        rows, first = np.unique(np.concatenate(written), return_index=True)
        entries, timestamps = (np.concatenate(column)[first] for column in zip(*before, strict=True))
        return self._table.keys(rows), self._table.recall(entries, timestamps)

    def _begin(self) -> None:
        self._undo = []
        self.changed_at = next(_changes)
        if self.replaced is not None:
            self.replaced.clear()
        self.approximate_num_uncommitted_entries = self.approximate_num_uncommitted_bytes = 0

    def _changed(self) -> IntArray:
        if not self._undo:
            return np.zeros(0, np.int64)
        rows = [rows for rows, _, _ in self._undo]
        return rows[0] if len(rows) == 1 else _distinct(np.concatenate(rows), len(self._table))

    # --- to and from the disk ------------------------------------------------------------------------------------

    def dirty_count(self) -> int:
        """The number of committed rows that are not on disk yet."""
        return int(np.count_nonzero(self._dirty[: len(self._table)]))

    def dirty_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The committed rows that are not on disk yet, in their form on disk, sorted by key."""
        assert not self._undo, "only committed rows go to disk"
        rows = np.flatnonzero(self._dirty[: len(self._table)])
        rows = rows[pc.array_sort_indices(self._layout(self._table.keys(rows))).to_numpy()]
        for some in _in_pieces(rows, self._table.sizes(rows)):
            yield from zip(self._physical(some), pack_all(self._table.values(some)).to_pylist(), strict=True)

    def flushed(self) -> None:
        """Note that the dirty rows are on disk."""
        self._dirty[:] = False

    def evict(self, everything: bool = False) -> None:
        """Remove rows from memory that were not used since the last call; only after a flush."""
        size = len(self._table)
        rows = np.zeros(0, np.int64) if everything else np.flatnonzero(self._touched[:size])
        self.is_all_here = self.base is None or (self.is_all_here and len(rows) == size)
        self._table.keep(rows)
        self._ordered = None
        self._dirty = np.zeros(len(rows), np.bool_)
        self._touched = np.zeros(len(rows), np.bool_)


def physical_keys(keys: Keys) -> Binary:
    """Keys as bytes: the key, followed by the time in 8 bytes, big endian."""
    if keys.times is None:
        return keys.data
    return pc.binary_join_element_wise(keys.data, fixed_binary(keys.times.astype(">i8")), b"")


def pack_all(values: Values) -> Binary:
    """Values in their form on disk: the timestamp in 8 bytes, then the value; null stays null."""
    return pc.binary_join_element_wise(fixed_binary(values.timestamps.astype(">i8")), values.data, b"")


def unpack(row: bytes) -> tuple[bytes, int]:
    return row[8:], int.from_bytes(row[:8], "big", signed=True)


def unpack_all(packed: Binary) -> Values:
    """The inverse of ``pack_all``."""
    present = np.flatnonzero(is_present(packed))
    where = spans(packed)
    timestamps = np.full(len(packed), -1, np.int64)
    timestamps[present] = items_at(where.data, where.start[present], ">i8")
    return Values(without_first(packed, 8), timestamps)


def after_prefix(prefix: bytes) -> bytes | None:
    """The lowest key above all keys with the prefix, or None.

    >>> after_prefix(b"ab"), after_prefix(b"a\\xff"), after_prefix(b"\\xff")
    (b'ac', b'b', None)
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _distinct(rows: IntArray, size: int) -> IntArray:
    """The distinct row numbers, all below ``size``, ascending; many are marked in a table, few are sorted."""
    if 16 * len(rows) < size:
        return distinct(rows)
    changed = np.zeros(size, np.bool_)
    changed[rows] = True
    return np.flatnonzero(changed)


def _in_pieces(rows: IntArray, sizes: IntArray) -> Iterator[IntArray]:
    """Split rows into pieces that are small enough, in number and in bytes, to become Python objects."""
    first, ends = 0, np.cumsum(sizes)
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        end = min(int(np.searchsorted(ends, before + BLOCK_BYTES, "right")), first + _FLUSHED_AT_ONCE)
        yield rows[first : max(end, first + 1)]
        first = max(end, first + 1)


def _grown(flags: BoolArray, used: int, size: int) -> BoolArray:
    grown = np.zeros(size + size // 2 + 16, np.bool_)
    grown[:used] = flags[:used]
    return grown
