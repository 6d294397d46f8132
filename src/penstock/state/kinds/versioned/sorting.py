"""Sorts rows, whose bytes are a key followed by a time, by key and then by time.

If one key equals another one plus bytes that a time may begin with, such as NUL, their rows interleave.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

Row = tuple[bytes, bytes, int]
"""The bytes of the key, eight bytes of the time, and the row's content."""


def by_key(rows: Iterator[Row], before: int) -> Iterator[Row]:
    """Sort rows that come in byte order by key and then by time. A row is held back as long as an earlier one may
    follow.

    Args:
        before: all times are below this.

    >>> rows = [(b"a" + bytes(8) + b"z", b"", 0), (b"a" + bytes(7) + b"\\x82", b"", 0)]
    >>> [key[:-8] for key, *_ in by_key(iter(rows), 1000)]
    [b'a', b'a\\x00']
    """
    end, held = min(before, 2**64 - 1).to_bytes(8, "big"), list[tuple[bytes, bytes, Row]]()
    for row in rows:
        while held and not _may_be_overtaken(held[0][0], row[0], end):
            yield heappop(held)[2]
        heappush(held, (row[0][:-8], row[0][-8:], row))
    while held:
        yield heappop(held)[2]


def _may_be_overtaken(key: bytes, now: bytes, end: bytes) -> bool:
    """True if rows may follow, at or after the bytes ``now``, of a key that is a prefix of the held one."""
    return any(now[length : length + 8] < end and now.startswith(key[:length]) for length in range(len(key)))
