"""Rows of stores as dicts, with the names that JSON and the command line show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.serdes import Serde
from penstock.serdes.arrow_columns import NO_TIME


class KeyRange(NamedTuple):
    """Keys from one to another one, both belong to it; None for no bound."""

    low: Any = None
    high: Any = None


class Choice(NamedTuple):
    """Which rows of a store to show: those of a key, of a range of keys, or all."""

    key: Any = None
    within: KeyRange = KeyRange()
    prefix: bytes | None = None
    """With which the bytes of keys begin; only key-value stores are read so."""
    reverse: bool = False

    @property
    def bounds(self) -> KeyRange:
        """The first and the last key."""
        return self.within if self.key is None else KeyRange(self.key, self.key)

    def filtered(self, rows: Iterator[dict[str, Any]], serde: Serde) -> Iterator[dict[str, Any]]:
        """Of all rows those that are chosen, by the bytes of their keys."""
        encode = serde.encode_to_bytes
        low, high = (None if bound is None else encode(bound) for bound in self.bounds)
        if self.reverse:
            rows = reversed(list(rows))
        if low is None and high is None:
            return rows
        return (
            row
            for row in rows
            if (low is None or low <= encode(row["key"])) and (high is None or encode(row["key"]) <= high)
        )


ALL_ROWS = Choice()


def row(key: Any, value: Any, **times: int | None) -> dict[str, Any]:
    """A row as JSON and the command line show it."""
    return {"key": key, "value": value, **{name: time for name, time in times.items() if time != NO_TIME}}
