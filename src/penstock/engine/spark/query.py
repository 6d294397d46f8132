"""The streaming query that triggers commits. It is cheap to lose, so it is started again when it fails by itself.

Spark asks a helper process of its own, in Python, how far the topics go; when that is killed, the query ends. Nothing
depends on it: what is processed stands in the manifests.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)

_PAUSES = (0.0, 0.5, 2.0, 5.0)
"""How long to wait before the next start, in seconds, when the ones before had no micro-batch."""


class SteadyQuery:
    """A streaming query, and those that take its place when it fails.

    Args:
        start: starts a query.
        is_wanted: whether one that failed is to be started again.
    """

    def __init__(self, start: Callable[[], Any], is_wanted: Callable[[], bool], application_id: str):
        self._start = start
        self._is_wanted = is_wanted
        self._failures = 0
        self._ended = threading.Event()
        self.failure: Exception | None = None
        """Why the last one ended; None while it runs, and when it ended well."""
        self.now: Any = None
        self._thread = threading.Thread(target=self._keep, name=f"penstock {application_id} query", daemon=True)

    def start(self) -> None:
        """Start it; raises what Spark raises when that fails again and again."""
        while (error := self._begin()) is not None:
            if not self._may_try_again(error):
                raise error
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether it ended, and will not be started again."""
        return self._ended.is_set()

    def had_a_batch(self) -> None:
        """It works: the next failure is the first again."""
        self._failures = 0

    def process_all_available(self) -> None:
        """Wait until all that is there now is processed; raises what Spark does when the query has ended."""
        while True:
            query = self.now
            try:
                query.processAllAvailable()
                return
            except Exception:
                while query is self.now and not self._ended.wait(0.05):
                    pass
                if query is self.now:
                    raise

    def stop(self) -> None:
        """Stop it, unless Spark is gone."""
        self.now.stop()
        self._ended.wait(10)

    def _keep(self) -> None:
        error = self._end()
        while error is not None:
            self.failure = error
            if not self._may_try_again(error):
                break
            error = self._begin() or self._end()
        self._ended.set()

    def _may_try_again(self, error: Exception) -> bool:
        """Whether it is to be started again; waits until it is time."""
        if not self._is_wanted() or self._failures == len(_PAUSES):
            return False
        _log.warning("Spark's query failed and is started again: %s", str(error).partition("\n")[0])
        time.sleep(_PAUSES[self._failures])
        self._failures += 1
        return self._is_wanted()

    def _begin(self) -> Exception | None:
        try:
            self.now, self.failure = self._start(), None
        except Exception as error:  # what py4j raises is of many kinds
            return error
        return None

    def _end(self) -> Exception | None:
        """Wait for the end; why it came, unless it is a good one."""
        try:
            self.now.awaitTermination()
        except Exception as error:
            return error
        self.failure = None
        return None
