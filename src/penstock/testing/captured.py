"""The records of a ``MockProcessorContext`` about a processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.processor import PunctuationType
from penstock.record import Record
from penstock.usage.java_names import KafkaNames


class CapturedForward(NamedTuple):
    """A record that a processor forwarded, and the step that it named; see :class:`MockProcessorContext`.

    >>> CapturedForward(Record("a", 1, 0), "large").child_name
    'large'
    """

    record: Record
    child_name: str | None = None


class CapturedPunctuator(KafkaNames):
    """A punctuation that a processor scheduled; a test calls it by ``punctuator(time)``.

    >>> scheduled = CapturedPunctuator(1000, PunctuationType.STREAM_TIME, print)
    >>> scheduled.punctuator(5)
    5
    """

    def __init__(self, interval_ms: int, type: PunctuationType, punctuator: Callable[[int], object]):
        self.interval_ms = interval_ms
        self.type = type
        self.punctuator = punctuator
        self.cancelled = False

    def cancel(self) -> None:
        """Note that it was cancelled."""
        self.cancelled = True
