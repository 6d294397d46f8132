"""Rows in a table of SQLite, with the number of their batch in the same transaction."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import BoolArray
from penstock.errors import SinkError
from penstock.sinks import sql
from penstock.sinks.batch import SinkBatch
from penstock.sinks.protocol import SinkPartition, SinkWriter

_WAIT_SECONDS = 10.0
"""How long to wait for another process that writes into the database."""


class SqliteSink(sql.FileSink):
    """A table in an SQLite database: each record of a stream is a row, each key of a table has one.

    The table is made when it does not exist, with a column for each field. ``to_sink`` names the other columns. Times
    are text of ISO 8601, lists and structs are JSON, NaN is null. The numbers are in the table ``penstock_sinks``.

    Args:
        path: the file of the database.
        table: the table's name.

    Raises:
        ConfigError: an argument is neither.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sinks import SqliteSink
    >>> builder = StreamsBuilder()
    >>> counts = builder.stream("words", key=str).group_by_key().count("counts")
    >>> counts.to_sink(SqliteSink("shop.db", "counts"), "counts", key="word", value="times")
    """

    DATABASE = "SQLite"

    def open(self, partition: SinkPartition) -> SinkWriter:
        return _Writer(self, partition)


class _Writer(sql.SqlWriter):
    BEGIN = "BEGIN IMMEDIATE"

    def __init__(self, sink: SqliteSink, partition: SinkPartition):
        super().__init__(partition, sink.table, sink.shown)
        self._database = sqlite3.connect(sink.path, timeout=_WAIT_SECONDS, isolation_level=None)
        try:
            with _plainly():
                for statement in self.tables.values():
                    self.run(statement)
                self.start_number()
        except BaseException:
            self.close()
            raise

    def run(self, statement: str, *values: Any) -> Any:
        return self._database.execute(statement, values).fetchone()

    def write(self, batch: SinkBatch, commit: int) -> None:
        with _plainly():
            super().write(batch, commit)

    def append(self, batch: SinkBatch) -> None:
        self._insert(batch, "")

    def upsert(self, newest: SinkBatch) -> None:
        gone = newest.is_deleted.to_numpy(zero_copy_only=False)
        deleted = _rows(newest.take(gone).arrow().select(self.keys))
        self._database.executemany(f"DELETE FROM {self.table} WHERE {self._same}", deleted)
        kept = newest.take(~gone)
        has_null = _has_null(kept.arrow().select(self.keys))
        self._insert(kept.take(~has_null), self.otherwise)
        if has_null.any():
            self._put(kept.take(has_null))

    @property
    def _same(self) -> str:
        return " AND ".join(f"{sql.quoted(name)} IS ?" for name in self.keys)

    def _put(self, batch: SinkBatch) -> None:
        """Insert or update rows with a null in their key, which SQLite's constraints take for a new key each time."""
        rows, keys = _rows(batch.arrow()), _rows(batch.arrow().select(self.keys))
        others = [name for name in self.names if name not in self.keys]
        if others:
            to = ", ".join(f"{sql.quoted(name)} = ?" for name in others)
            values = _rows(batch.arrow().select(others))
            both = [(*value, *key) for value, key in zip(values, keys, strict=True)]
            self._database.executemany(f"UPDATE {self.table} SET {to} WHERE {self._same}", both)
        marks = ", ".join("?" for _ in self.names)
        is_new = f"WHERE NOT EXISTS (SELECT 1 FROM {self.table} WHERE {self._same})"
        new = [(*row, *key) for row, key in zip(rows, keys, strict=True)]
        self._database.executemany(f"INSERT INTO {self.table} ({sql.listed(self.names)}) SELECT {marks} {is_new}", new)

    def _insert(self, batch: SinkBatch, otherwise: str) -> None:
        values = ", ".join("?" for _ in self.names)
        statement = f"INSERT INTO {self.table} ({sql.listed(self.names)}) VALUES ({values}) {otherwise}"
        self._database.executemany(statement, _rows(batch.arrow()))

    @staticmethod
    def type_of(type_: Any) -> str:
        if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
            return "INTEGER"
        if pa.types.is_floating(type_):
            return "REAL"
        return "BLOB" if pa.types.is_binary(type_) else "TEXT"

    def close(self) -> None:
        self._database.close()


@contextmanager
def _plainly() -> Iterator[None]:
    """Raise ``SinkError`` for what no retry mends."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError, OverflowError) as error:
        raise SinkError(f"{type(error).__name__}: {error}") from None
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # busy, full, or a disk that fails
            raise
        raise SinkError(f"{type(error).__name__}: {error}") from None


def _rows(batch: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(sql.values_of(column, _conversion(column.type)) for column in batch.columns), strict=True))


def _has_null(columns: Any) -> BoolArray:
    """Return which rows have a null, or NaN, which SQLite keeps as one."""
    found = np.zeros(columns.num_rows, np.bool_)
    for column in columns.columns:
        found |= column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return found


def _conversion(type_: Any) -> Any:
    """Return what makes a value of an Arrow type one that SQLite keeps; None if it is one."""
    if pa.types.is_temporal(type_):
        return _time_text
    return str if pa.types.is_decimal(type_) else None


def _time_text(value: Any) -> str:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
