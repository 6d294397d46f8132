"""Rows in a table of SQLite, with the number of their batch in the same transaction."""

from __future__ import annotations

import datetime
import sqlite3
from typing import Any

import pyarrow as pa

from penstock.sinks import sql
from penstock.sinks.batch import SinkBatch
from penstock.sinks.protocol import SinkPartition, SinkWriter

_WAIT_SECONDS = 10.0
"""How long to wait for another process that writes into the database."""


class SqliteSink(sql.FileSink):
    """A table in an SQLite database: each record of a stream is a row, each key of a table has one.

    The table is made when it does not exist, with a column for each field. ``to_sink`` names the other columns. Times
    are text of ISO 8601, lists and structs are JSON. The numbers are in the table ``penstock_sinks``.

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
            for statement in self.tables.values():
                self.run(statement)
            self.start_number()
        except BaseException:
            self.close()
            raise

    def run(self, statement: str, *values: Any) -> Any:
        return self._database.execute(statement, values).fetchone()

    def append(self, batch: SinkBatch) -> None:
        self._insert(batch, "")

    def upsert(self, newest: SinkBatch) -> None:
        gone = newest.is_deleted.to_numpy(zero_copy_only=False)
        same = " AND ".join(f"{sql.quoted(name)} IS ?" for name in self.keys)
        deleted = _rows(newest.take(gone).arrow().select(self.keys))
        self._database.executemany(f"DELETE FROM {self.table} WHERE {same}", deleted)
        self._insert(newest.take(~gone), self.otherwise)

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


def _rows(batch: Any) -> list[tuple[Any, ...]]:
    return list(zip(*(sql.values_of(column, _conversion(column.type)) for column in batch.columns), strict=True))


def _conversion(type_: Any) -> Any:
    """Return what makes a value of an Arrow type one that SQLite keeps; None if it is one."""
    if pa.types.is_temporal(type_):
        return _time_text
    return str if pa.types.is_decimal(type_) else None


def _time_text(value: Any) -> str:
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
