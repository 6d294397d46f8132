"""Rows in a table of DuckDB, with the number of their batch in the same transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError, SinkError
from penstock.sinks import sql
from penstock.sinks.batch import SinkBatch
from penstock.sinks.protocol import SinkPartition, SinkWriter

_BATCH = "penstock_batch"
"""The name under which a connection knows the rows of a batch."""

_MAKING = threading.Lock()
"""Held while tables are made: DuckDB refuses two transactions that make the same one."""


class DuckDbSink(sql.FileSink):
    """A table in a DuckDB database: each record of a stream is a row, each key of a table has one.

    The table is made when it does not exist, with a column for each field. ``to_sink`` names the other columns. Lists
    and structs are DuckDB's own. The numbers are in the table ``penstock_sinks`` of the same schema. DuckDB lets one
    process at a time open a file. This needs ``penstock-streams[duckdb]``.

    Args:
        path: the file of the database.
        table: the table's name, perhaps with its schema.

    Raises:
        ConfigError: an argument is neither, or DuckDB is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sinks import DuckDbSink
    >>> builder = StreamsBuilder()
    >>> counts = builder.stream("words", key=str).group_by_key().count("counts")
    >>> counts.to_sink(DuckDbSink("shop.duckdb", "counts"), "counts", key="word", value="times")
    """

    DATABASE = "DuckDB"

    def __init__(self, path: Path | str, table: str):
        try:
            import duckdb  # noqa: F401
        except ImportError:
            raise ConfigError("DuckDbSink needs DuckDB: pip install 'penstock-streams[duckdb]'") from None
        super().__init__(path, table)

    def open(self, partition: SinkPartition) -> SinkWriter:
        return _Writer(self, partition)


class _Writer(sql.SqlWriter):
    def __init__(self, sink: DuckDbSink, partition: SinkPartition):
        import duckdb

        super().__init__(partition, sink.table, sink.shown)
        self._database = duckdb.connect(str(sink.path))
        try:
            with _MAKING:
                for statement in self.tables.values():
                    self.run(statement)
            self.start_number()
        except BaseException:
            self.close()
            raise

    def run(self, statement: str, *values: Any) -> Any:
        with _plainly():
            found = self._database.execute(statement, values).fetchall()  # to the end, or the connection stays in use
            return found[0] if found else None

    def append(self, batch: SinkBatch) -> None:
        self._insert(batch, "")

    def upsert(self, newest: SinkBatch) -> None:
        gone = newest.is_deleted.to_numpy(zero_copy_only=False)
        if gone.any():
            same = " AND ".join(f"{self.table}.{name} = new.{name}" for name in map(sql.quoted, self.keys))
            with self._rows(newest.take(gone)):
                self.run(f"DELETE FROM {self.table} USING {_BATCH} new WHERE {same}")
        self._insert(newest.take(~gone), self.otherwise)

    def _insert(self, batch: SinkBatch, otherwise: str) -> None:
        names = sql.listed(self.names)
        with self._rows(batch):
            self.run(f"INSERT INTO {self.table} ({names}) SELECT {names} FROM {_BATCH} {otherwise}")

    @contextmanager
    def _rows(self, batch: SinkBatch) -> Iterator[None]:
        """Have the rows of a batch under a name. After an error the connection is closed with it."""
        self._database.register(_BATCH, pa.Table.from_batches([batch.arrow()]))
        yield
        self._database.unregister(_BATCH)

    @staticmethod
    def type_of(type_: Any) -> str:
        import duckdb

        if pa.types.is_null(type_):
            return "VARCHAR"
        with duckdb.connect() as other:
            return str(other.from_arrow(pa.table({"column": pa.array([], type_)})).types[0])

    def close(self) -> None:
        self._database.close()


@contextmanager
def _plainly() -> Iterator[None]:
    """Raise ``SinkError`` for what no retry mends."""
    import duckdb

    try:
        yield
    except (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError, duckdb.IntegrityError) as error:
        raise SinkError(f"{type(error).__name__}: {error}") from None
