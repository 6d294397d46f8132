"""The interface of the queries, sources and sinks that belong to an application. ``engine/children``,
``engine/sources`` and ``engine/sinks``, above this folder, are three parts of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.engine.shared.children import Child
from penstock.storage.base import Storage


class ChildQueries:
    """All queries, sources and sinks of an application.

    Args:
        parts: those of each kind; none, in an application that has none.
    """

    on_failure: Callable[[], None] = staticmethod(lambda: None)
    """Called from another thread when a query has failed."""
    committed: Callable[[], Mapping[str, Sequence[int]]] = staticmethod(dict)
    """Gives the offsets up to which the application has read its topics."""
    needs_session = False
    """Whether they run on Spark."""
    _parts: Sequence[ChildQueries] = ()

    def __init__(self, parts: Sequence[ChildQueries] = ()):
        self._parts = parts
        self.needs_session = any(part.needs_session for part in parts)

    def now(self) -> tuple[Child, ...]:
        """Return the state of each query."""
        return tuple(child for part in self._parts for child in part.now())

    def prepare(self) -> None:
        """Create their topics; raise ``ConfigError`` if one cannot be created."""
        for part in self._parts:
            part.prepare()

    def check(self, session: Any, slots: int) -> None:
        """Raise ``ConfigError`` for what cannot work on this session, before anything starts."""
        for part in self._parts:
            part.check(session, slots)

    def begin(self, session: Any, storage: Storage, is_available_now: bool) -> None:
        """Start them."""
        for part in self._parts:
            part.on_failure, part.committed = self.on_failure, self.committed
            part.begin(session, storage, is_available_now)

    def holds(self) -> bool:
        """Return whether the program makes no commit for now, because results are not taken."""
        return any(part.holds() for part in self._parts)

    def bring_in(self) -> None:
        """Bring all existing rows and records into the topics, in a program that ends with its input."""
        for part in self._parts:
            part.bring_in()

    def take_out(self) -> None:
        """Write all existing results into the tables, in such a program."""
        for part in self._parts:
            part.take_out()

    def check_running(self) -> None:
        """Raise ``QueryError`` if one has failed."""
        for part in self._parts:
            part.check_running()

    def process_sources(self) -> None:
        """Wait until all existing rows and records are in their topics."""
        for part in self._parts:
            part.process_sources()

    def process_sinks(self) -> None:
        """Wait until all existing results are in their tables."""
        for part in self._parts:
            part.process_sinks()

    def stop_sources(self) -> None:
        """Stop the queries and sources that bring rows and records in."""
        for part in self._parts:
            part.stop_sources()

    def stop(self) -> None:
        """Stop all of them."""
        for part in self._parts:
            part.stop()
