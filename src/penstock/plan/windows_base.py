"""The base class of windows that a class of the user's decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any


class Windows(ABC):
    """The base class of your own windows: it says which windows contain a time, how long they are, and how long they
    stay open.

    Windows may have different lengths, and may overlap. Penstock leaves out records at times without a window. A window
    includes its start, but not its end. The result of ``windows_for`` must depend on the time alone, and for the start
    of a window it must include this window.

    >>> from penstock import Window, Windows
    >>> from penstock.testing import pipe
    >>> class Meals(Windows):
    ...     size, grace_period = "5 hours", "10 minutes"
    ...     def windows_for(self, timestamp):
    ...         day, hour = timestamp // 86_400_000 * 86_400_000, timestamp // 3_600_000 % 24
    ...         for first, last in ((7, 10), (11, 14), (17, 22)):
    ...             if first <= hour < last:
    ...                 yield Window(day + first * 3_600_000, day + last * 3_600_000)
    >>> for row in pipe(lambda stream: stream.group_by_key().windowed_by(Meals()).count(),
    ...                 [("a", "tea", 7 * 3_600_000), ("a", "snack", 10 * 3_600_000), ("a", "jam", 8 * 3_600_000)]):
    ...     print(row)
    (Windowed(key='a', start=25200000, end=36000000), 1)
    (Windowed(key='a', start=25200000, end=36000000), 2)
    """

    grace_period: Any = 0
    """How long a window takes late records after its end: a duration."""

    @property
    @abstractmethod
    def size(self) -> Any:
        """The length of the longest window, a duration. Stores keep every window for this time plus the grace
        period."""

    @abstractmethod
    def windows_for(self, timestamp: int) -> Iterable[tuple[int, int]] | Mapping[int, tuple[int, int]]:
        """The windows that contain a time: pairs of start and end in milliseconds, such as ``Window``; or, as in Kafka
        Streams, a mapping of starts to them."""
