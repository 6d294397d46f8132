"""Work of a thread that goes on for as long as the program: sources and sinks, which fail and are tried again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.values.masking import masked_error

_log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
"""Seconds before failed work is tried again: twice as long each time."""


@dataclass(frozen=True)
class Retrying:
    """When failed work is tried again, and when no longer.

    Attributes:
        what: the name in warnings, such as ``sink 'orders'``.
        retry_ms: how long it is tried again without progress.
        lasting: errors that no retry mends.
        secrets: texts that are masked in errors.
    """

    what: str
    retry_ms: int
    lasting: tuple[type[Exception], ...]
    secrets: Sequence[str]

    def run(
        self,
        work: Callable[[], None],
        stop: threading.Event,
        progress: Callable[[], int],
        tell: Callable[[str, bool], None],
    ) -> str | None:
        """Do the work until it returns, it is stopped, or it has failed for good; return the error of the last case.

        Args:
            progress: gives a number that changes when the work gets on.
            tell: is told of each error, and whether it is the last one.
        """
        pause, failed_at = _FIRST_PAUSE, None
        while not stop.is_set():
            before = progress()
            try:
                work()
                return None
            except BaseException as error:  # a panic in Rust is no Exception, and the thread must not end
                now = time.monotonic()
                if failed_at is None or progress() != before:  # it got on meanwhile
                    pause, failed_at = _FIRST_PAUSE, now
                said = masked_error(error, self.secrets)
                has_ended = isinstance(error, self.lasting) or (now - failed_at) * 1000 >= self.retry_ms
                tell(said, has_ended)
                if has_ended:
                    return said
                _log.warning("%s failed and is tried again in %.1f s: %s", self.what, pause, said)
            stop.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return None
