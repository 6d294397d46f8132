"""Rows of stores as dicts, with the names shown by JSON and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.serdes import Serde
from penstock.serdes.arrow_columns import NO_TIME


class KeyRange(NamedTuple):
    """A range of keys, both ends included; None for no bound."""

    low: Any = None
    high: Any = None


class Choice(NamedTuple):
    """The rows of a store to show: those of a key, of a range of keys, or all."""

    key: Any = None
    within: KeyRange = KeyRange()
    prefix: bytes | None = None
    """A prefix of the keys' bytes; only for key-value stores."""
    reverse: bool = False

    @property
    def bounds(self) -> KeyRange:
        """The first and the last key."""
        return self.within if self.key is None else KeyRange(self.key, self.key)

    def filtered(self, rows: Iterator[dict[str, Any]], serde: Serde) -> Iterator[dict[str, Any]]:
        """The chosen ones among all rows, by the bytes of their keys."""
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
    """A row in the form of JSON and the command line."""
    return {"key": key, "value": value, **{name: time for name, time in times.items() if time != NO_TIME}}
