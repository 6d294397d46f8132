"""A connection to PostgreSQL that does not wait forever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from os import dup
from typing import Any

from penstock.errors import ConfigError, PenstockError, SinkError
from penstock.sinks.postgres.copy_text import copy_text

try:
    import psycopg
    from psycopg.errors import CardinalityViolation, CheckViolation, NotNullViolation
except ModuleNotFoundError:
    raise ConfigError("PostgresSink needs psycopg: pip install 'penstock-streams[postgres]'") from None

BATCH, IS_DELETED = '"penstock_batch"', '"penstock deleted"'
"""The temporary table with the newest record of each key, and its column that marks deletions."""

SAME_KEY = CardinalityViolation
"""The error about two rows of one statement that have the same key."""

_LASTING = (
    psycopg.DataError,
    psycopg.ProgrammingError,
    psycopg.NotSupportedError,
    CheckViolation,
    NotNullViolation,
)
"""Errors that no retry mends."""


class Connection:
    """A connection that writers of several partitions use, one after the other, in one thread.

    Args:
        parameters: those of the connection.
        seconds: how long the server may take until the connection is cut.
        said: that time, for messages.
        lasting: the error for what no retry mends.
    """

    def __init__(self, parameters: dict[str, Any], seconds: float, said: str, lasting: type[PenstockError] = SinkError):
        self._lasting = lasting
        self._seconds, self._said = seconds, said
        self._users = 0
        self._has_batch = False
        with self._plainly():
            self._connection = psycopg.connect(
                **parameters, client_encoding="UTF8", autocommit=True, prepare_threshold=None
            )

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, or broken."""
        return bool(self._connection.closed)

    def join(self) -> None:
        """Have one more user."""
        self._users += 1

    def leave(self) -> None:
        """Have one user less; the last one closes it."""
        self._users -= 1
        if self._users == 0:
            self._connection.close()

    def run(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        """Return the first row of what a statement gives, or None."""
        rows = self.rows(statement, values)
        return rows[0] if rows else None

    def rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return the rows that a statement gives."""
        with self._plainly():
            marked = statement.replace("%", "%%").replace("?", "%s") if values else statement
            found = self._connection.execute(marked, values or None)
            return found.fetchall() if found.description else []

    def copy(self, table: str, names: str, pieces: Iterable[Any]) -> None:
        """Add rows to a table. The database takes one piece while the next one is made."""
        statement = f"COPY {table} ({names}) FROM STDIN"
        with self._plainly(), self._connection.cursor() as cursor, cursor.copy(statement) as to:
            for piece in pieces:
                to.write(copy_text(piece))

    def make_batch(self, table: str, names: str) -> None:
        """Make the temporary table for a batch, unless it is there."""
        if not self._has_batch:
            columns = f"SELECT {names}, false AS {IS_DELETED} FROM {table}"
            self.run(f"CREATE TEMPORARY TABLE {BATCH} ON COMMIT DELETE ROWS AS {columns} WITH NO DATA")
            self._has_batch = True

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Cut the connection if the database takes too long; whatever waits for it fails then."""
        late = threading.Event()

        def cut() -> None:
            late.set()
            with suppress(OSError), socket.socket(fileno=dup(self._connection.fileno())) as own:
                own.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(self._seconds, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception:
            if late.is_set():
                raise TimeoutError(f"the database did not answer within {self._said}") from None
            raise
        finally:
            timer.cancel()
            timer.join()

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Raise the lasting error for what no retry mends."""
        try:
            yield
        except SAME_KEY:  # the sink writes fewer rows at once
            raise
        except _LASTING as error:
            raise self._lasting(f"{type(error).__name__}: {error}") from None
