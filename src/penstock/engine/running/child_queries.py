"""The interface of the queries that belong to an application. This implementation has none; ``engine/children``,
above this folder, has the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.shared.children import Child
from penstock.storage.base import Storage


class ChildQueries:
    """No queries."""

    on_failure: Callable[[], None] = staticmethod(lambda: None)
    """Called from another thread when a query has failed."""

    def now(self) -> tuple[Child, ...]:
        """Return the state of each query."""
        return ()

    def prepare(self) -> None:
        """Create their topics; raise ``ConfigError`` if one cannot be created."""

    def check(self, session: Any, slots: int) -> None:
        """Raise ``ConfigError`` for what cannot work on this session, before anything starts."""

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        """Start them."""

    def bring_in(self) -> None:
        """Bring all existing rows into the topics, in a program that ends with its input."""

    def take_out(self) -> None:
        """Write all existing results into the tables, in such a program."""

    def check_running(self) -> None:
        """Raise ``QueryError`` if one has failed."""

    def process_sources(self) -> None:
        """Wait until all existing rows are in their topics."""

    def process_sinks(self) -> None:
        """Wait until all existing results are in their tables."""

    def stop_sources(self) -> None:
        """Stop the queries that bring rows in."""

    def stop(self) -> None:
        """Stop all of them."""
