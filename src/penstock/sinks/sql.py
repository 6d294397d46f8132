"""The common part of all SQL sinks: names, statements, and a batch with its number in one transaction."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.faults import crash_point
from penstock.messages import show
from penstock.sinks.batch import SinkBatch
from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter

NUMBERS = "penstock_sinks"
"""The table with the number of each partition, in the schema of the rows."""


def quoted(name: str) -> str:
    """Return a name as SQL writes it.

    >>> quoted('an "x"-ray')
    '"an ""x""-ray"'
    """
    return '"{}"'.format(name.replace('"', '""'))


def checked_name(name: Any, what: str) -> str:
    """Return a table's name, perhaps with a schema before a dot.

    Raises:
        ConfigError: it is no such name.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[^.\s\"\0]+(\.[^.\s\"\0]+)?", name):
        raise ConfigError(f"{what}: table is a name, such as 'totals' or 'shop.totals'; got {show(name)}")
    return name


def table_name(name: str) -> str:
    """Return a table's name as SQL writes it.

    >>> table_name("shop.totals")
    '"shop"."totals"'
    """
    return ".".join(map(quoted, name.split(".")))


def listed(names: list[str]) -> str:
    """Return names as SQL lists them.

    >>> listed(["a", "b c"])
    '"a", "b c"'
    """
    return ", ".join(map(quoted, names))


def is_nested(type_: Any) -> bool:
    """Return whether an Arrow type is a list, a struct or a map, which SQL keeps as JSON."""
    return bool(pa.types.is_nested(type_))


def values_of(column: Any, convert: Callable[[Any], Any] | None = None) -> list[Any]:
    """Return the values of an Arrow column; nested ones are JSON text."""
    if pa.types.is_nested(column.type):
        encode = msgspec.json.Encoder().encode
        return [None if one is None else encode(one).decode() for one in column.to_pylist()]
    values = column.to_pylist()
    return values if convert is None else [None if one is None else convert(one) for one in values]


class FileSink(Sink):
    """A table in a database that is a file.

    Args:
        path: the file of the database.
        table: the table's name, perhaps with its schema.

    Raises:
        ConfigError: an argument is neither.
    """

    DATABASE: ClassVar[str]
    """The name of the database, for messages."""

    def __init__(self, path: Path | str, table: str):
        kind = type(self).__name__
        if not isinstance(path, Path | str) or not str(path):
            raise ConfigError(f"{kind}: path is a file; got {show(path)}")
        self.path = Path(path).absolute()
        self.table = checked_name(table, kind)

    @property
    def shown(self) -> str:
        return f"{self.DATABASE} table {self.table} in {self.path.name}"


class SqlWriter(SinkWriter):
    """Writes each batch and its number in one transaction. Databases differ in the methods that are left out here.

    Args:
        table: the name of the table, perhaps with its schema.
        shown: the sink's name, for messages.

    Raises:
        ConfigError: there is no key to find the rows of a table by.
    """

    BEGIN = "BEGIN"
    LOCK = ""
    """The end of a SELECT that keeps others from writing the same row."""

    def __init__(self, partition: SinkPartition, table: str, shown: str):
        partition.need_keys(shown)
        self.partition = partition
        self.table = table_name(table)
        *schema, _ = table.split(".")
        self.numbers = table_name(".".join([*schema, NUMBERS]))
        self.names = list(partition.schema.names)
        self.keys = list(partition.keys)

    @abstractmethod
    def run(self, statement: str, *values: Any) -> Any:
        """Run a statement, whose values are marked with ``?``; return the first row of what it gives, or None."""

    @abstractmethod
    def append(self, batch: SinkBatch) -> None:
        """Add the records to the table."""

    @abstractmethod
    def upsert(self, newest: SinkBatch) -> None:
        """Replace or remove the rows of some keys; each key comes once."""

    @staticmethod
    @abstractmethod
    def type_of(type_: Any) -> str:
        """Return the type of a column for an Arrow type."""

    @property
    def tables(self) -> dict[str, str]:
        """The statements that make the tables, by the tables' names."""
        columns = [f"{quoted(field.name)} {self.type_of(field.type)}" for field in self.partition.schema]
        if self.partition.is_table:
            columns.append(f"PRIMARY KEY ({listed(self.keys)})")
        numbers = "id TEXT PRIMARY KEY, topic TEXT NOT NULL, number BIGINT NOT NULL"
        return {
            self.table: f"CREATE TABLE IF NOT EXISTS {self.table} ({', '.join(columns)})",
            self.numbers: f"CREATE TABLE IF NOT EXISTS {self.numbers} ({numbers})",
        }

    @property
    def otherwise(self) -> str:
        """The end of an INSERT, for a row whose key is there."""
        others = [quoted(name) for name in self.names if name not in self.keys]
        does = f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
        return f"ON CONFLICT ({listed(self.keys)}) DO {does}"

    def start_number(self) -> None:
        """Make the row of the partition's number, unless it is there."""
        start = f"INSERT INTO {self.numbers} VALUES (?, ?, 0) ON CONFLICT (id) DO NOTHING"
        self.run(start, self.partition.id, self.partition.topic_id)

    def committed(self) -> int:
        return self._number("")

    def _number(self, lock: str) -> int:
        found = self.run(f"SELECT topic, number FROM {self.numbers} WHERE id = ?{lock}", self.partition.id)
        if found is None:
            return 0
        self.partition.check_topic(found[0])
        return int(found[1])

    def write(self, batch: SinkBatch, commit: int) -> None:
        self.run(self.BEGIN)
        try:
            if self._number(self.LOCK) != batch.before:
                raise OSError("another process has written into the sink meanwhile")
            if self.partition.is_table:
                self.upsert(batch.newest())
            else:
                self.append(batch)
            keep = (
                f"INSERT INTO {self.numbers} VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET number = excluded.number"
            )
            self.run(keep, self.partition.id, self.partition.topic_id, commit)
            crash_point("in-sink")
            self.run("COMMIT")
        except BaseException:
            with suppress(Exception):  # the connection may be what failed
                self.run("ROLLBACK")
            raise
