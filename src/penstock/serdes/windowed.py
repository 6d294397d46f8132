"""Windowed keys in Kafka's formats: the key's bytes, then the window's start (sessions: its end, then its start)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, last_numbers, without_last
from penstock.durations import MAX_MS
from penstock.errors import SerdeError
from penstock.record import Windowed
from penstock.serdes.base import Serde


class TimeWindowedSerde(Serde):
    """Keys of windows of one size: the key, then the start as 8 bytes; the end follows from the size.

    >>> from penstock.serdes.primitives import STR
    >>> serde = TimeWindowedSerde(STR, 10)
    >>> serde.decode(serde.encode(Windowed("a", 5, 15)))
    Windowed(key='a', start=5, end=15)
    """

    def __init__(self, inner: Serde, size: int):
        self.inner = inner
        self.size = size
        self.name = f"windowed[{inner.name}, {size}]"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, Windowed):
            raise self.refuse(value)
        try:
            start = value.start.to_bytes(8, "big", signed=True)
        except (AttributeError, OverflowError):
            raise SerdeError(f"{value!r}: the start of a window is an int of 8 bytes, got {value.start!r}") from None
        return self.inner.encode(value.key) + start

    def decode(self, data: bytes) -> Windowed:
        if len(data) < 8:
            raise SerdeError(f"a windowed key has at least 8 bytes, got {len(data)}: {data!r}")
        start = int.from_bytes(data[-8:], "big", signed=True)
        return Windowed(self.inner.decode(data[:-8]), start, min(start + self.size, MAX_MS))

    def arrow(self, data: Binary) -> Windowed:
        """The arrays ``key``, ``start`` and ``end``."""
        short = np.flatnonzero(pc.less(pc.binary_length(data), 8).fill_null(False))
        if short.size:
            self.decode(data[int(short[0])].as_py())
        starts = last_numbers(data)
        key = self.inner.arrow(without_last(data, 8))
        return Windowed(key, pa.array(starts), pa.array(np.minimum(starts, MAX_MS - self.size) + self.size))

    def routing(self, data: Binary) -> Binary:
        return without_last(data, 8)
