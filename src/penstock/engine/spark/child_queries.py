"""What a running application asks of the queries that belong to it; by default there are none.

``engine/children`` has those that are, above this folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.shared.children import Child
from penstock.storage import Storage


class ChildQueries:
    """No queries."""

    on_failure: Callable[[], None] = staticmethod(lambda: None)
    """Called when a query has failed, from another thread."""

    def now(self) -> tuple[Child, ...]:
        """How the queries are."""
        return ()

    def prepare(self) -> None:
        """Make what they need in the log; raises ``ConfigError`` for what stands in their way."""

    def check(self, session: Any, slots: int) -> None:
        """Raise ``ConfigError`` for what cannot work on this session, before anything is begun."""

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        """Begin them."""

    def bring_in(self) -> None:
        """Have all rows that are there brought into the topics, for a program that ends with its input."""

    def take_out(self) -> None:
        """Have all results that are there written into the tables, for such a program."""

    def check_running(self) -> None:
        """Raise ``QueryError`` when one has failed."""

    def process_sources(self) -> None:
        """Wait until the rows that are there are in their topics."""

    def process_sinks(self) -> None:
        """Wait until the results that are there are in their tables."""

    def stop_sources(self) -> None:
        """Bring in nothing more."""

    def stop(self) -> None:
        """Stop all of them."""
