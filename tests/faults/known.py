"""What the stores of ``every_kind.py`` hold after so many records of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from every_kind import KINDS, RECENT, RETENTION, SHAPES, USERS, is_taken_away, records_of, ten


class Known:
    """What a store holds in a partition, record by record."""

    def __init__(self, name: str):
        self._step = getattr(self, f"_{name.replace('-', '_')}", None) or getattr(
            self, f"_{KINDS[name].shape.replace('-', '_')}", self._written
        )
        self._shape = SHAPES[KINDS[name].shape] if name in KINDS else SHAPES["plain"]
        self.rows: dict[Any, Any] = {}

    def after(self, key: str, n: int) -> None:
        """Take another record."""
        self._step(key, n)

    def _written(self, key: str, n: int) -> None:
        for one, number in ((f"all {key}", n), (key, None if is_taken_away(n) else n)):
            place = self._shape.place(one, n)
            if number is None:
                self.rows.pop(place, None)
            else:
                self.rows[place] = self._shape.row(place, number, n)

    def _expiring(self, key: str, n: int) -> None:
        self._written(key, n)
        self.rows = {place: row for place, row in self.rows.items() if place[1] > ten(n) - RETENTION}

    _windows = _timed_windows = _headed_windows = _expiring

    def _sessions(self, key: str, n: int) -> None:
        self._written(key, n)
        self.rows = {place: row for place, row in self.rows.items() if place[1] + 9 > ten(n) + 9 - RETENTION}

    _headed_sessions = _sessions

    def _versions(self, key: str, n: int) -> None:
        for one, number in ((f"all {key}", n), (key, None if is_taken_away(n) else n)):
            for place, row in list(self.rows.items()):
                if row[0] == one and row[3] is None:
                    self.rows[place] = (*row[:3], n)
            if number is not None:
                self.rows[one, n] = (one, number, n, None)

    def _recent(self, key: str, n: int) -> None:
        """Put and read twice, in the order of use."""
        for one, number in ((f"all {key}", n), (key, None if is_taken_away(n) else n)):
            self.rows.pop((one,), None)
            if number is not None:
                self.rows[one,] = one, number
        for one in (f"all {key}", key):
            if (one,) in self.rows:
                self.rows[one,] = self.rows.pop((one,))
        self.rows = dict(list(self.rows.items())[-RECENT:])

    def _first(self, key: str, n: int) -> None:
        self.rows.setdefault(key, (key, n, n))

    def _met(self, key: str, n: int) -> None:
        self.rows[key, n] = key, n, n

    _met_this_join_store = _met_other_join_store = _met

    def _counts(self, key: str, n: int) -> None:
        self.rows[key] = key, self.rows.get(key, (key, 0))[1] + 1, n

    def _counts_own(self, key: str, n: int) -> None:
        self.rows[key] = key, self.rows.get(key, (key, 0))[1] + 1

    def _counted_windows(self, key: str, n: int) -> None:
        count = self.rows.get((key, ten(n)), (0,) * 3)[2] + 1
        self.rows[key, ten(n)] = key, ten(n), count, n

    def _counted_sessions(self, key: str, n: int) -> None:
        open_ = next((row for row in self.rows.values() if row[0] == key and row[2] >= n - USERS + 1), (key, n, n, 0))
        self.rows[key, open_[1]] = key, open_[1], n, open_[3] + 1

    def _held_store(self, key: str, n: int) -> None:
        self._counted_windows(key, n)
        self.rows = {place: row for place, row in self.rows.items() if row[1] + 10 + 20 > n}


def known(name: str, partition: int, count: int) -> set[Any]:
    """The rows of a store after so many records of a partition."""
    held = Known(name)
    for record in records_of(partition, count):
        held.after(*record)
    return set(held.rows.values())


def states(name: str, partition: int, at_least: int, count: int) -> Iterator[tuple[int, set[Any]]]:
    """The states after so many records or more, with how many."""
    held = Known(name)
    if at_least == 0:
        yield 0, set()
    for number, record in enumerate(records_of(partition, count), 1):
        held.after(*record)
        if number >= at_least:
            yield number, set(held.rows.values())
