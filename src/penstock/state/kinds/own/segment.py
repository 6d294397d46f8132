"""A stretch of time of a user's store, as the layer below the rows that the engine has in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from penstock.state.kinds.own.places import Place, Places
from penstock.state.transactional import Base


class OwnSegment:
    """The rows of a stretch of time, read from the user's store; how many there are is known of the copy.

    Args:
        places: the user's store.
        copy: the same rows in the task's database.
        first: the lowest number of a row in it.
        last: the highest number.
    """

    is_empty = False

    def __init__(self, places: Places, copy: Base, first: int, last: int):
        self._places = places
        self.copy = copy
        self._range = first, last

    def get(self, key: bytes) -> bytes | None:
        return self._places.row(_place(key))

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The rows whose form on disk is at least ``low`` and below ``high``."""
        same = low is not None and high is not None and low[:-8] == high[:-8]
        keys = (low[:-8], low[:-8]) if same and low is not None else (None, None)
        found = {place.physical: place for place in self._places.between(keys[0], keys[1], *self._range)}
        for key in sorted(found, reverse=reverse):
            if (low is None or key >= low) and (high is None or key < high):
                row = self._places.row(found[key])
                if row is not None:
                    yield key, row

    def blocks(self, low: bytes | None, high: bytes | None, count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        rows = self.scan(low, high)
        while some := list(islice(rows, count)):
            yield [key for key, _ in some], [row for _, row in some]

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        return [next((key for key, _ in self.scan(low, high)), None) for low, high in ranges]

    def approximate_count(self) -> int:
        return self.copy.approximate_count()

    def approximate_bytes(self) -> int:
        return self.copy.approximate_bytes()


def _place(key: bytes) -> Place:
    return Place(key[:-8], int.from_bytes(key[-8:], "big"))
