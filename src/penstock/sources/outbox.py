"""The outbox of an application in PostgreSQL: rows that its transactions insert, in an order in which none is missed.

Numbers of rows say nothing about when they become visible: a transaction may commit after another one with higher
numbers. So each row has the number of its transaction, and rows are read from one snapshot to the next: those that the
later one shows and the earlier one does not. The two snapshots are the offset, so this set never changes.

Of two transactions that change the same thing, the second one waits for the first one's lock. So it inserts later, and
each snapshot that shows its row shows that of the first one, too. Rows of one reading are in the order of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa

from penstock.arrays import binary
from penstock.errors import ConfigError, SerdeError, SourceError
from penstock.messages import show
from penstock.serdes import BYTES, STR, Serde
from penstock.serdes.json import JsonSerde
from penstock.sinks import sql
from penstock.sinks.postgres.parameters import Parameters
from penstock.sources.protocol import Source, SourceBatch, SourceContext, SourceReader
from penstock.values.decoding import converted
from penstock.values.durations import Duration, to_ms

TABLE = "outbox"
TIMEOUT: Duration = "1 minute"
EVERY: Duration = "1 second"

_LONGEST_SNAPSHOT = 1_200
"""How many bytes of JSON a snapshot may have: two are in an offset, and each running transaction takes a few."""

_TEXTS = ("json", "jsonb", "uuid", "numeric")
"""Types of columns that are read as text."""


class PostgresOutbox(Source):
    """The rows of an outbox in PostgreSQL, each as a record with its key.

    Your application inserts rows into the outbox in its own transactions. Penstock reads committed rows, and
    deletes them when they are in the log. It makes the table when it does not exist::

        CREATE TABLE outbox (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
            key text,
            value jsonb,
            created_at timestamptz NOT NULL DEFAULT now()
        )

    A table of your own needs the columns ``id`` and ``transaction`` like these. This needs PostgreSQL 13 or newer, and
    ``penstock-streams[postgres]``.

    Args:
        conninfo: a connection string or URL of PostgreSQL, as for ``PostgresSink``.
        table: the table's name, perhaps with its schema: ``"shop.outbox"``.
        key: the column with the keys; None if records have no key.
        value: the column with the values: JSON, text, bytes or numbers.
        timestamp: the column with the times; None for the time at which Penstock reads the row.
        delete: whether Penstock deletes rows that are in the log.
        every: how often Penstock looks for rows.
        timeout: the longest time that the database may take for one answer.

    Raises:
        ConfigError: an argument is not valid, or psycopg is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sources import PostgresOutbox
    >>> outbox = PostgresOutbox("postgresql://me:secret@db.example/shop")
    >>> orders = StreamsBuilder().source(outbox, "orders", key=str, value=dict)
    >>> outbox
    <PostgreSQL outbox outbox in shop at db.example>
    """

    def __init__(
        self,
        conninfo: str,
        table: str = TABLE,
        *,
        key: str | None = "key",
        value: str = "value",
        timestamp: str | None = None,
        delete: bool = True,
        every: Duration = EVERY,
        timeout: Duration = TIMEOUT,
    ):
        self.parameters = Parameters(conninfo, "PostgresOutbox")
        self.table = sql.checked_name(table, "PostgresOutbox")
        for what, name in (("key", key), ("value", value), ("timestamp", timestamp)):
            if not (isinstance(name, str) and name.strip()) and (name is not None or what == "value"):
                raise ConfigError(f"PostgresOutbox: {what} is the name of a column; got {show(name)}")
        if type(delete) is not bool:
            raise ConfigError(f"PostgresOutbox: delete is True or False; got {show(delete)}")
        self.key, self.value, self.timestamp, self.delete = key, value, timestamp, delete
        self.poll_ms = to_ms(every, "PostgresOutbox: every")
        self.timeout = to_ms(timeout, "PostgresOutbox: timeout") / 1000
        self.said_timeout = timeout if isinstance(timeout, str) else f"{self.timeout:,} s"

    @property
    def shown(self) -> str:
        return f"PostgreSQL outbox {self.table}{self.parameters.shown}"

    @property
    def secrets(self) -> Iterable[str]:
        return self.parameters.secrets

    def open(self, context: SourceContext) -> SourceReader:
        return _Reader(self, context)


class _At(msgspec.Struct, frozen=True):
    """A place between two snapshots.

    A snapshot is its first number that may run, the first one that had not begun, and how far behind the first number
    the running ones are.

    Attributes:
        before: the snapshot whose rows are all read; none at the beginning.
        until: the snapshot whose rows are read now.
        after: the number of the last row that was read.
    """

    before: list[int] = []
    until: list[int] = []
    after: int | None = None


class _Reader(SourceReader):
    def __init__(self, outbox: PostgresOutbox, context: SourceContext):
        from penstock.sinks.postgres.connection import Connection

        self._outbox = outbox
        self._context = context
        self._table = sql.table_name(outbox.table)
        self._done: list[int] = []
        """The snapshot whose rows are all read."""
        self._ended = _At()
        """The place behind which no rows are left between its snapshots."""
        parameters, seconds = outbox.parameters.all, outbox.timeout
        self._connection = Connection(parameters, seconds, outbox.said_timeout, lasting=SourceError)
        self._connection.join()
        try:
            with self._connection.limited():
                kinds = self._kinds() or self._made()
                self._columns = self._selected(kinds)
        except BaseException:
            self.close()
            raise

    # --- the table ---------------------------------------------------------------------------------------------------

    def _kinds(self) -> dict[str, str]:
        """Return the types of the table's columns; none if it does not exist."""
        rows = self._connection.rows(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped",
            (self._table,),
        )
        return dict(rows)

    def _made(self) -> dict[str, str]:
        """Make the table."""
        if (self._outbox.key, self._outbox.value, self._outbox.timestamp) not in (
            ("key", "value", None),
            ("key", "value", "created_at"),
        ):
            raise SourceError(
                f"there is no table {self._outbox.table}, and Penstock creates it only with the columns key and value. "
                "Create it, or use these columns"
            )
        self._connection.run(
            f"CREATE TABLE IF NOT EXISTS {self._table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "transaction xid8 NOT NULL DEFAULT pg_current_xact_id(), key text, value jsonb, "
            "created_at timestamptz NOT NULL DEFAULT now())"
        )
        self._connection.run(f"CREATE INDEX ON {self._table} (transaction, id)")
        return self._kinds()

    def _selected(self, kinds: dict[str, str]) -> str:
        """Return the columns to read; raise ``SourceError`` if the table lacks one."""
        if kinds.get("transaction") != "xid8":
            raise SourceError(
                f"table {self._outbox.table} has no column transaction of type xid8, and without it rows would be "
                f"missed. Add it: ALTER TABLE {self._outbox.table} ADD COLUMN transaction xid8 NOT NULL DEFAULT "
                "pg_current_xact_id()"
            )
        named = ("id", self._outbox.key, self._outbox.value, self._outbox.timestamp)
        missing = [name for name in named if name is not None and name not in kinds]
        if missing:
            raise SourceError(
                f"table {self._outbox.table} has no column {missing[0]!r}; its columns are {', '.join(kinds)}"
            )
        if kinds["id"] not in ("smallint", "integer", "bigint"):
            raise SourceError(f"column id of table {self._outbox.table} is of type {kinds['id']}; make it a bigint")
        return ", ".join("NULL" if name is None else _read(name, kinds[name]) for name in named)

    # --- rows --------------------------------------------------------------------------------------------------------

    def read(self, offset: Any, most: int) -> SourceBatch | None:
        at = _At() if offset is None else converted(offset, _At)
        with self._connection.limited():
            now = self._snapshot(max(at.until[1:2], self._done[1:2]))
            if at.until and self._ended != at:
                batch = self._batch(at, most)
                if batch is not None:
                    return batch
                self._ended, self._done = at, at.until
            batch = None if now == self._done else self._batch(_At(self._done, now), most)
            self._done = now if batch is None else self._done
            return batch

    def _snapshot(self, least: list[int]) -> list[int]:
        """Return the present snapshot.

        Args:
            least: how far the database was before.
        """
        [(text,)] = self._connection.rows("SELECT pg_current_snapshot()::text")
        first, end, running = text.split(":")
        found = [int(first), int(end), *(int(one) - int(first) for one in running.split(",") if one)]
        if found[1:2] < least:
            raise SourceError(
                f"the database is at transaction {found[1]:,}, and was at {least[0]:,} before: it is another one, "
                "or was restored from an older copy. Start the program under another application id to read all of its "
                "outbox"
            )
        if len(msgspec.json.encode(found)) > _LONGEST_SNAPSHOT:
            raise TimeoutError(f"{len(found) - 2:,} transactions are writing, more than an offset can list")
        return found

    def _batch(self, at: _At, most: int) -> SourceBatch | None:
        """Return rows between two snapshots; None if there are no more."""
        begun, ended = ("", ()) if not at.before else (_NOT_IN, (str(at.before[0]), _text_of(at.before)))
        behind, last = ("", ()) if at.after is None else (" AND id > ?", (at.after,))
        rows = self._connection.rows(
            f"SELECT {self._columns} FROM {self._table} WHERE {_IN}{begun}{behind} ORDER BY id LIMIT ?",
            (str(at.until[1]), _text_of(at.until), *ended, *last, most),
        )
        if not rows:
            return None
        ids, keys, values, times = zip(*rows, strict=True)
        columns = {
            "key": _bytes_of(keys, self._context.key),
            "value": _bytes_of(values, self._context.value),
        }
        if self._outbox.timestamp is not None:
            columns["timestamp"] = pa.array(times, pa.timestamp("ms", "UTC"))
        return SourceBatch(pa.table(columns), msgspec.to_builtins(_At(at.before, at.until, ids[-1])))

    def committed(self, offset: Any) -> None:
        if not self._outbox.delete:
            return
        at = converted(offset, _At)
        with self._connection.limited():
            if at.before:
                self._delete("", at.before)
            self._delete(" AND id <= ?", at.until, at.after)

    def _delete(self, which: str, snapshot: list[int], *last: Any) -> None:
        statement = f"DELETE FROM {self._table} WHERE {_IN}{which}"
        self._connection.run(statement, (str(snapshot[1]), _text_of(snapshot), *last))

    def close(self) -> None:
        self._connection.leave()


_IN = "transaction < ?::text::xid8 AND pg_visible_in_snapshot(transaction, ?::text::pg_snapshot)"
_NOT_IN = " AND transaction >= ?::text::xid8 AND NOT pg_visible_in_snapshot(transaction, ?::text::pg_snapshot)"
"""Whether a snapshot shows a row, behind a condition for which there is an index."""


def _text_of(snapshot: list[int]) -> str:
    """Return a snapshot as PostgreSQL writes it.

    >>> _text_of([10, 20, 0, 4]), _text_of([10, 10])
    ('10:20:10,14', '10:10:')
    """
    first, end, *running = snapshot
    return f"{first}:{end}:{','.join(str(first + one) for one in running)}"


def _read(name: str, kind: str) -> str:
    return f"{sql.quoted(name)}::text" if kind in _TEXTS else sql.quoted(name)


def _bytes_of(values: Iterable[Any], serde: Serde) -> Any:
    """The bytes of a column. Text is JSON already, for values that are JSON."""
    is_text = isinstance(serde, JsonSerde) or serde in (STR, BYTES)
    try:
        return binary([_bytes(value, serde, is_text) for value in values])
    except SerdeError as error:
        raise SourceError(f"a row of the outbox does not fit: {error}") from None


def _bytes(value: Any, serde: Serde, is_text: bool) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if is_text and isinstance(value, str):
        return value.encode()
    return str(value).encode() if serde is STR else serde.encode(value)
