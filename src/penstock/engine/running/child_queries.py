"""The interface of the queries and sinks that belong to an application. This implementation has none;
``engine/children`` and ``engine/sinks``, above this folder, have the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.engine.shared.children import Child
from penstock.storage.base import Storage


class ChildQueries:
    """No queries."""

    on_failure: Callable[[], None] = staticmethod(lambda: None)
    """Called from another thread when a query has failed."""
    needs_session = False
    """Whether they run on Spark."""

    def now(self) -> tuple[Child, ...]:
        """Return the state of each query."""
        return ()

    def prepare(self) -> None:
        """Create their topics; raise ``ConfigError`` if one cannot be created."""

    def check(self, session: Any, slots: int) -> None:
        """Raise ``ConfigError`` for what cannot work on this session, before anything starts."""

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        """Start them."""

    def holds(self) -> bool:
        """Return whether the program makes no commit for now, because results are not taken."""
        return False

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


class SeveralChildren(ChildQueries):
    """Queries and sinks together."""

    def __init__(self, all_: Sequence[ChildQueries]):
        self._all = all_
        self.needs_session = any(one.needs_session for one in all_)

    def now(self) -> tuple[Child, ...]:
        return tuple(child for one in self._all for child in one.now())

    def prepare(self) -> None:
        for one in self._all:
            one.prepare()

    def check(self, session: Any, slots: int) -> None:
        for one in self._all:
            one.check(session, slots)

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        for one in self._all:
            one.on_failure = self.on_failure
            one.begin(session, storage, is_available_now)

    def holds(self) -> bool:
        return any(one.holds() for one in self._all)

    def bring_in(self) -> None:
        for one in self._all:
            one.bring_in()

    def take_out(self) -> None:
        for one in self._all:
            one.take_out()

    def check_running(self) -> None:
        for one in self._all:
            one.check_running()

    def process_sources(self) -> None:
        for one in self._all:
            one.process_sources()

    def process_sinks(self) -> None:
        for one in self._all:
            one.process_sinks()

    def stop_sources(self) -> None:
        for one in self._all:
            one.stop_sources()

    def stop(self) -> None:
        for one in self._all:
            one.stop()
