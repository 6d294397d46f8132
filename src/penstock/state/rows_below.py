"""The rows of a store as the layer below another one's: what is written above does not reach them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from penstock.arrays import binary
from penstock.state.transactional import TransactionalRows, pack_all


class RowsBelow:
    """Rows, committed or not, in the form in which a database has them.

    >>> from penstock.state.columns.rows import Keys, Values
    >>> import numpy as np
    >>> rows = TransactionalRows()
    >>> rows.put(rows.find(Keys(binary([b"a"]))), Values(binary([b"1"]), np.array([5])))
    >>> above = TransactionalRows(RowsBelow(rows))
    >>> above.put(above.find(Keys(binary([b"b"]))), Values(binary([b"2"]), np.array([6])))
    >>> list(above.scan()), list(rows.scan())
    ([(b'a', b'1', 5), (b'b', b'2', 6)], [(b'a', b'1', 5)])
    """

    is_empty = False

    def __init__(self, rows: TransactionalRows):
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        found = self._rows.look_up(self._rows.logical(binary(keys)))
        return pack_all(found).to_pylist()  # type: ignore[no-any-return]

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        rows = self._rows.scan(low, high, reverse)
        return ((key, timestamp.to_bytes(8, "big", signed=True) + value) for key, value, timestamp in rows)

    def blocks(self, low: bytes | None, high: bytes | None, count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        rows = self.scan(low, high)
        while block := list(islice(rows, count)):
            yield [key for key, _ in block], [value for _, value in block]

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        return [self._first(low, high) for low, high in ranges]

    def _first(self, low: bytes, high: bytes) -> bytes | None:
        return next((key for key, _ in self.scan(low, high) if len(key) == len(low)), None)

    def approximate_count(self) -> int:
        return self._rows.approximate_num_entries()

    def approximate_bytes(self) -> int:
        return self._rows.approximate_bytes()


def above(rows: TransactionalRows, committed: bool) -> TransactionalRows:
    """New rows of the same type above others; these show what the others have, or what they had committed."""
    made = type(rows)(RowsBelow(rows))
    if committed:
        keys, values = rows.replaced_values()
        made.put(made.place(keys), values)
    return made
