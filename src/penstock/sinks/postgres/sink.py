"""Rows in a table of PostgreSQL, with the number of their batch in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.sinks import sql
from penstock.sinks.batch import SinkBatch
from penstock.sinks.postgres.connection import BATCH, IS_DELETED, SAME_KEY, Connection
from penstock.sinks.postgres.parameters import Parameters
from penstock.sinks.postgres.types import postgres_type
from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter
from penstock.values.durations import Duration, to_ms

TIMEOUT: Duration = "1 minute"

_PIECE = 8_192
"""How many rows are made at once."""


_HALF = '"penstock half"'
"""The savepoint before some rows."""


class PostgresSink(Sink):
    """A table in PostgreSQL: each record of a stream is a row, each key of a table has one.

    The table is made when it does not exist, with a column for each field. ``to_sink`` names the other columns. Lists
    and structs are ``jsonb``. The numbers are in the table ``penstock_sinks`` of the same schema. All partitions of the
    sink share one connection. This needs ``penstock-streams[postgres]``.

    Args:
        conninfo: a connection string or URL of PostgreSQL. Parameters that it leaves out come from PostgreSQL's own
            variables and files, such as ``PGPASSWORD``.
        table: the table's name, perhaps with its schema: ``"shop.totals"``.
        timeout: how long the database may take for one batch. After that, Penstock gives the connection up and makes a
            new one.

    Raises:
        ConfigError: an argument is not valid, or psycopg is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sinks import PostgresSink
    >>> builder = StreamsBuilder()
    >>> counts = builder.stream("words", key=str).group_by_key().count("counts")
    >>> sink = PostgresSink("postgresql://me:secret@db.example/shop", "counts")
    >>> counts.to_sink(sink, "counts", key="word", value="times")
    >>> sink
    <PostgreSQL table counts in shop at db.example>
    """

    def __init__(self, conninfo: str, table: str, *, timeout: Duration = TIMEOUT):
        self._parameters = Parameters(conninfo, "PostgresSink")
        self.table = sql.checked_name(table, "PostgresSink")
        self._timeout = to_ms(timeout, "PostgresSink: timeout")
        self._said_timeout = timeout if isinstance(timeout, str) else f"{self._timeout:,} ms"
        self._connections: dict[str, Connection] = {}
        """Those in use, by the names of sinks: each sink has a thread."""

    @property
    def shown(self) -> str:
        return f"PostgreSQL table {self.table}{self._parameters.shown}"

    @property
    def secrets(self) -> Iterable[str]:
        return self._parameters.secrets

    def open(self, partition: SinkPartition) -> SinkWriter:
        connection = self._connections.get(partition.name)
        if connection is None or connection.is_closed:
            connection = Connection(self._parameters.all, self._timeout / 1000, self._said_timeout)
            self._connections[partition.name] = connection
        return _Writer(self, partition, connection)


class _Writer(sql.SqlWriter):
    LOCK = " FOR UPDATE"

    def __init__(self, sink: PostgresSink, partition: SinkPartition, connection: Connection):
        self._connection = connection
        connection.join()
        try:
            super().__init__(partition, sink.table, sink.shown)
            with connection.limited():
                self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        """Make what is missing: who has both tables need not be allowed to make any."""
        missing = [made for name, made in self.tables.items() if self.run("SELECT to_regclass(?)", name) == (None,)]
        if missing:
            self.run("BEGIN")
            self.run("SELECT pg_advisory_xact_lock(hashtext('penstock_sinks'))")  # others may make the same
            for statement in missing:
                self.run(statement)
            self.run("COMMIT")
        self.start_number()

    def run(self, statement: str, *values: Any) -> Any:
        return self._connection.run(statement, values)

    def committed(self) -> int:
        with self._connection.limited():
            return super().committed()

    def write(self, batch: SinkBatch, commit: int) -> None:
        with self._connection.limited():
            super().write(batch, commit)

    def append(self, batch: SinkBatch) -> None:
        pieces = (piece.arrow() for piece in batch.pieces(_PIECE))
        self._connection.copy(self.table, sql.listed(self.names), pieces)

    def upsert(self, newest: SinkBatch) -> None:
        self._connection.make_batch(self.table, sql.listed(self.names))
        self._upsert_in_parts(newest)

    def _upsert_in_parts(self, newest: SinkBatch) -> None:
        """Upsert a batch; if the database takes two of its keys for the same, such as 0.0 and -0.0, in halves."""
        self.run(f"SAVEPOINT {_HALF}")
        try:
            self._upsert(newest)
        except SAME_KEY:
            self.run(f"ROLLBACK TO SAVEPOINT {_HALF}")
            for part in newest.pieces((len(newest) + 1) // 2):
                self._upsert_in_parts(part)
                self.run(f"DELETE FROM {BATCH}")

    def _upsert(self, newest: SinkBatch) -> None:
        names = sql.listed(self.names)
        pieces = (one.arrow().append_column(IS_DELETED, one.is_deleted) for one in newest.pieces(_PIECE))
        self._connection.copy(BATCH, f"{names}, {IS_DELETED}", pieces)
        same = " AND ".join(f"old.{name} = new.{name}" for name in map(sql.quoted, self.keys))
        self.run(f"DELETE FROM {self.table} old USING {BATCH} new WHERE new.{IS_DELETED} AND {same}")
        some = f"SELECT {names} FROM {BATCH} WHERE NOT {IS_DELETED}"
        self.run(f"INSERT INTO {self.table} ({names}) {some} {self.otherwise}")

    @staticmethod
    def type_of(type_: Any) -> str:
        return postgres_type(type_)

    def close(self) -> None:
        self._connection.leave()
