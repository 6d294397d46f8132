"""The subscription store of a foreign-key join: which rows of the left table name which row of the right one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, concat, fixed_binary, slices, spans
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.rows import Keys, Values
from penstock.state.transactional import after_prefix

_LENGTH = 4


class Subscribers(NamedTuple):
    """The subscriptions to some foreign keys, by foreign key and then by the bytes of the left key."""

    foreign: IntArray
    """The number of each one's foreign key."""
    left: Binary
    keys: Keys
    """Under which they are kept."""
    values: Values


class SubscriptionStore(KeyValueStore):
    """The left values by foreign key and left key."""

    def subscribers(self, foreign: Binary, more: Keys | None = None) -> Subscribers:
        """The subscriptions to distinct foreign keys, and of the keys in ``more`` those to them, there or not."""
        piece = self._piece
        if piece.base is not None and not piece.is_all_here:
            self._bring(foreign)
        keys = piece.keys(np.flatnonzero(piece.present())).data
        if more is not None:
            keys = concat([keys, more.data]).unique()
        owner, left = split_keys(keys)
        number = pc.index_in(owner, foreign).fill_null(-1).to_numpy().astype(np.int64)
        chosen = np.flatnonzero(number >= 0)
        left = left.take(pa.array(chosen))
        rank = np.empty(len(chosen), np.int64)
        rank[pc.array_sort_indices(left).to_numpy()] = np.arange(len(chosen))
        in_order = np.lexsort((rank, number[chosen]))
        chosen = chosen[in_order]
        found = Keys(keys.take(pa.array(chosen)))
        return Subscribers(number[chosen], left.take(pa.array(in_order)), found, self.get(found))

    def _bring(self, foreign: Binary) -> None:
        """Bring what the disk has for foreign keys into memory."""
        assert self._piece.base is not None
        prefixes = [len(key).to_bytes(_LENGTH, "big") + key for key in foreign.to_pylist()]
        found = [key for prefix in prefixes for key, _ in self._piece.base.scan(prefix, after_prefix(prefix))]
        if found:
            self._piece.seek(Keys(pa.array(found, pa.binary())))


def combined_keys(foreign: Binary, left: Binary) -> Binary:
    """Foreign keys and left keys in one: the foreign key's length in 4 bytes, the foreign key, the left key.

    >>> keys = combined_keys(pa.array([b"f"], pa.binary()), pa.array([b"key"], pa.binary()))
    >>> [part.to_pylist() for part in split_keys(keys)]
    [[b'f'], [b'key']]
    """
    return pc.binary_join_element_wise(fixed_binary(spans(foreign).length.astype(">i4")), foreign, left, b"")


def split_keys(keys: Binary) -> tuple[Binary, Binary]:
    """The foreign keys and the left keys of combined keys."""
    where = spans(keys)
    lengths = np.ascontiguousarray(where.data[where.start[:, None] + np.arange(_LENGTH)]).view(">i4").ravel()
    size = lengths.astype(np.int64)
    begin = where.start + _LENGTH
    return (
        slices(where.data, begin, size),
        slices(where.data, begin + size, where.length - _LENGTH - size),
    )
