"""The subscription store of a foreign-key join: which left rows name which right row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, fixed_binary, hash64, items_at, spans
from penstock.state.columns.group_index import GroupIndex
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.transactional import after_prefix

_LENGTH = 4


class Subscribers(NamedTuple):
    """The subscriptions to some foreign keys, sorted by foreign key and then by the bytes of the left key."""

    foreign: IntArray
    """The number of each subscription's foreign key."""
    left: Binary
    keys: Keys
    """The keys under which the subscriptions are stored."""
    values: Values


class SubscriptionStore(KeyValueStore):
    """The left values by foreign key and left key.

    An index of the rows in memory by foreign key is built at its first use, and updated at each later use.
    """

    content = "subscriptions of a foreign-key join"

    def __init__(self, name: str, in_memory: bool = False):
        super().__init__(name, in_memory)
        self._index = GroupIndex()
        self._indexed = 0

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._index.nbytes

    def subscribers(self, foreign: Keys, more: Keys | None = None) -> Subscribers:
        """The subscriptions to distinct foreign keys. Of the keys in ``more``, those to these foreign keys are
        included, stored or not."""
        piece = self._piece
        if piece.base is not None and not piece.is_all_here:
            self._bring(foreign.data)
        number, rows = self._fresh_index().rows_of(foreign.hashes)
        wanted = piece.present()[rows]
        if more is not None:
            wanted |= np.isin(rows, piece.seek(more))
        number, rows = number[wanted], rows[wanted]
        keys = piece.keys(rows)
        owner, left = split_keys(keys.data)
        same = pc.equal(owner, foreign.data.take(pa.array(number))).to_numpy(zero_copy_only=False)
        by_left = pc.array_sort_indices(left).to_numpy()
        by_left = by_left[same[by_left]]  # another foreign key may have the same hash
        chosen = by_left[np.argsort(number[by_left], kind="stable")]
        rows = rows[chosen]
        piece.touch(rows)
        return Subscribers(number[chosen], left.take(pa.array(chosen)), keys.take(chosen), piece.get(rows))

    def _fresh_index(self) -> GroupIndex:
        rows = np.arange(self._indexed, len(self._piece.present()))
        if rows.size:
            owner, _ = split_keys(self._piece.keys(rows).data)
            self._index.add(hash64(owner), rows)
            self._indexed += rows.size
        return self._index

    def open(self, database: Database | None) -> None:
        super().open(database)
        self._index, self._indexed = GroupIndex(), 0

    def evict(self, everything: bool = False) -> None:
        super().evict(everything)
        self._index, self._indexed = GroupIndex(), 0

    def _bring(self, foreign: Binary) -> None:
        """Load the rows of foreign keys from disk into memory."""
        assert self._piece.base is not None
        prefixes = [len(key).to_bytes(_LENGTH, "big") + key for key in foreign.to_pylist()]
        found = [key for prefix in prefixes for key, _ in self._piece.base.scan(prefix, after_prefix(prefix))]
        if found:
            self._piece.seek(Keys(pa.array(found, pa.binary())))


def combined_keys(foreign: Binary, left: Binary) -> Binary:
    """Combine foreign keys and left keys: the foreign key's length in 4 bytes, the foreign key, the left key.

    >>> keys = combined_keys(pa.array([b"f"], pa.binary()), pa.array([b"key"], pa.binary()))
    >>> [part.to_pylist() for part in split_keys(keys)]
    [[b'f'], [b'key']]
    """
    return pc.binary_join_element_wise(fixed_binary(spans(foreign).length.astype(">i4")), foreign, left, b"")


def split_keys(keys: Binary) -> tuple[Binary, Binary]:
    """The foreign keys and the left keys of combined keys."""
    where = spans(keys)
    lengths = items_at(where.data, where.start, ">i4")
    begin = where.start + _LENGTH
    end = where.start + where.length
    bounds = np.append(np.stack([where.start, begin, begin + lengths], axis=1).ravel(), end[-1:])
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), keys.buffers()[2]]
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 3 * len(keys), buffers)
    rows = 3 * np.arange(len(keys))
    return pieces.take(pa.array(rows + 1)), pieces.take(pa.array(rows + 2))
