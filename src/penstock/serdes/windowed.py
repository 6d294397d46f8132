"""Windowed keys in Kafka's formats: the key's bytes, then the window's start (sessions: its end, then its start)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, IntArray, fixed_binary, last_numbers, without_last
from penstock.errors import SerdeError
from penstock.record import Windowed
from penstock.serdes.base import Serde
from penstock.values.window_ends import ends_of


class WindowedSerde(Serde):
    """Keys with a window, as whole columns and one at a time.

    >>> from penstock.serdes import STR, TimeWindowedSerde
    >>> isinstance(TimeWindowedSerde(STR, 60_000), WindowedSerde)
    True
    """

    inner: Serde
    _suffix: int
    """The number of bytes after the key."""

    @abstractmethod
    def encode_windows(self, keys: Binary, start: IntArray, end: IntArray) -> Binary:
        """The bytes of windowed keys, from the keys' bytes and the windows."""

    @abstractmethod
    def windows(self, data: Binary) -> tuple[IntArray, IntArray]:
        """The starts and ends of the windows of a column of bytes; arbitrary for nulls.

        Raises:
            SerdeError: a key is too short.
        """

    @property
    def gives_none(self) -> bool:
        return False  # a null key has no window

    def prepare(self, writes: bool) -> None:
        self.inner.prepare(writes)

    def routing(self, data: Binary) -> Binary:
        """The keys without their windows; all bytes of keys that are too short for a window."""
        short = pc.less(pc.binary_length(data), self._suffix)
        keys = without_last(data, self._suffix)
        return pc.if_else(short, data, keys) if pc.any(short).as_py() else keys

    def arrow(self, data: Binary) -> Windowed[Any]:
        """The arrays ``key``, ``start`` and ``end``."""
        start, end = self.windows(data)
        return Windowed(self.inner.arrow(self.routing(data)), pa.array(start), pa.array(end))

    def _check_all(self, data: Binary) -> None:
        short = np.flatnonzero(pc.less(pc.binary_length(data), self._suffix).fill_null(False))
        if short.size:
            self._check(data[int(short[0])].as_py())

    def _check(self, data: bytes) -> None:
        if len(data) < self._suffix:
            raise SerdeError(f"the serde {self.name!r} reads at least {self._suffix} bytes, got {len(data)}: {data!r}")


class TimeWindowedSerde(WindowedSerde):
    """Keys of windows of one size: the key, then the start as 8 bytes; the end follows from the size.

    In place of the size it takes ``CalendarWindows``, whose windows are of several.

    >>> from penstock.serdes.primitives import STR
    >>> serde = TimeWindowedSerde(STR, 10)
    >>> serde.decode(serde.encode(Windowed("a", 5, 15)))
    Windowed(key='a', start=5, end=15)
    """

    _suffix = 8

    def __init__(self, inner: Serde, size: Any):
        self.inner = inner
        self.ends = ends_of(size)
        self.size = self.ends.longest
        self.name = f"windowed[{inner.name}, {self.ends.name}]"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, Windowed):
            raise self.refuse(value)
        try:
            start = value.start.to_bytes(8, "big", signed=True)
        except (AttributeError, OverflowError):
            raise SerdeError(f"{value!r}: the start of a window is an int of 8 bytes, got {value.start!r}") from None
        return self.inner.encode_to_bytes(value.key) + start

    def decode(self, data: bytes) -> Windowed[Any]:
        self._check(data)
        start = int.from_bytes(data[-8:], "big", signed=True)
        return Windowed(self.inner.decode(data[:-8]), start, self.ends.of(start))

    def encode_windows(self, keys: Binary, start: IntArray, end: IntArray) -> Binary:
        return pc.binary_join_element_wise(keys, fixed_binary(start.astype(">i8")), b"")

    def windows(self, data: Binary) -> tuple[IntArray, IntArray]:
        self._check_all(data)
        start = last_numbers(data)
        return start, self.ends.all_of(start)


class SessionWindowedSerde(WindowedSerde):
    """Keys of sessions: the key, then the session's end and its start, 8 bytes each.

    >>> from penstock.serdes.primitives import STR
    >>> serde = SessionWindowedSerde(STR)
    >>> serde.encode(Windowed("a", 5, 15)).hex()
    '61000000000000000f0000000000000005'
    >>> serde.decode(serde.encode(Windowed("a", 5, 15)))
    Windowed(key='a', start=5, end=15)
    """

    _suffix = 16

    def __init__(self, inner: Serde):
        self.inner = inner
        self.name = f"session[{inner.name}]"

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, Windowed):
            raise self.refuse(value)
        window = value.end.to_bytes(8, "big", signed=True) + value.start.to_bytes(8, "big", signed=True)
        return self.inner.encode_to_bytes(value.key) + window

    def decode(self, data: bytes) -> Windowed[Any]:
        self._check(data)
        end, start = (int.from_bytes(part, "big", signed=True) for part in (data[-16:-8], data[-8:]))
        return Windowed(self.inner.decode(data[:-16]), start, end)

    def encode_windows(self, keys: Binary, start: IntArray, end: IntArray) -> Binary:
        window = np.stack([end, start], axis=1).astype(">i8")
        return pc.binary_join_element_wise(keys, fixed_binary(window), b"")

    def windows(self, data: Binary) -> tuple[IntArray, IntArray]:
        self._check_all(data)
        return last_numbers(data), last_numbers(without_last(data, 8))
