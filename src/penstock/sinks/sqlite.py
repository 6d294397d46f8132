"""Rows in a table of SQLite, with the number of their batch in the same transaction."""

from __future__ import annotations

import datetime
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.faults import crash_point
from penstock.messages import show
from penstock.sinks import sql
from penstock.sinks.batch import SinkBatch
from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter

_WAIT_SECONDS = 10.0
"""How long to wait for another process that writes into the database."""


class SqliteSink(Sink):
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

    def __init__(self, path: Path | str, table: str):
        if not isinstance(path, Path | str) or not str(path):
            raise ConfigError(f"SqliteSink: path is a file; got {show(path)}")
        self.path = Path(path).absolute()
        self.table = sql.checked_name(table, "SqliteSink")

    @property
    def shown(self) -> str:
        return f"SQLite table {self.table} in {self.path.name}"

    def open(self, partition: SinkPartition) -> SinkWriter:
        return _Writer(self, partition)


class _Writer(SinkWriter):
    def __init__(self, sink: SqliteSink, partition: SinkPartition):
        self._partition = partition
        self._is_upsert = sql.mode_of(partition.is_table, partition.keys, sink.shown) == sql.UPSERT
        self._table = sql.table_name(sink.table)
        self._database = sqlite3.connect(sink.path, timeout=_WAIT_SECONDS, isolation_level=None)
        try:
            self._make_tables()
        except BaseException:
            self.close()
            raise

    def _make_tables(self) -> None:
        columns = [f"{sql.quoted(field.name)} {_type_of(field.type)}" for field in self._partition.schema]
        keys = ", ".join(map(sql.quoted, self._partition.keys))
        also = [f"PRIMARY KEY ({keys})"] if self._is_upsert else []
        self._database.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({', '.join([*columns, *also])})")
        self._database.execute(
            f"CREATE TABLE IF NOT EXISTS {sql.NUMBERS} (id TEXT PRIMARY KEY, topic TEXT NOT NULL, number INTEGER "
            "NOT NULL)"
        )

    def committed(self) -> int:
        found = self._database.execute(
            f"SELECT topic, number FROM {sql.NUMBERS} WHERE id = ?", [self._partition.id]
        ).fetchone()
        if found is None:
            return 0
        self._partition.check_topic(found[0])
        return int(found[1])

    def write(self, batch: SinkBatch, commit: int) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            if self.committed() != batch.before:
                raise OSError("another process has written into the sink meanwhile")
            self._put(batch)
            self._database.execute(
                f"INSERT INTO {sql.NUMBERS} VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET number = excluded.number",
                [self._partition.id, self._partition.topic_id, commit],
            )
            crash_point("in-sink")
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def _put(self, batch: SinkBatch) -> None:
        if not self._is_upsert:
            self._insert(batch, "")
            return
        keys = list(self._partition.keys)
        others = [name for name in self._partition.schema.names if name not in keys]
        newest = batch.newest()
        gone = newest.is_deleted.to_numpy(zero_copy_only=False)
        same = " AND ".join(f"{sql.quoted(name)} IS ?" for name in keys)
        deleted = _rows(newest.take(gone).arrow().select(keys))
        self._database.executemany(f"DELETE FROM {self._table} WHERE {same}", deleted)
        sets = ", ".join(f"{sql.quoted(name)} = excluded.{sql.quoted(name)}" for name in others)
        does = f"UPDATE SET {sets}" if others else "NOTHING"
        self._insert(newest.take(~gone), f" ON CONFLICT ({', '.join(map(sql.quoted, keys))}) DO {does}")

    def _insert(self, batch: SinkBatch, otherwise: str) -> None:
        names = self._partition.schema.names
        given = f"({', '.join(map(sql.quoted, names))}) VALUES ({', '.join('?' for _ in names)})"
        self._database.executemany(f"INSERT INTO {self._table} {given}{otherwise}", _rows(batch.arrow()))

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


def _type_of(type_: Any) -> str:
    """Return the type of a column in SQLite."""
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        return "INTEGER"
    if pa.types.is_floating(type_):
        return "REAL"
    return "BLOB" if pa.types.is_binary(type_) else "TEXT"
