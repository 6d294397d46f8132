"""A topic into a table of a database: the rows of a micro-batch and its number in one transaction.

Spark's tasks write the rows into a table beside the target; that may happen twice, since each batch empties this table
first. Then one connection of the driver takes over: in one transaction it notes the batch's number under the query's
id in ``penstock_batches``, and moves the rows over. The number is noted first, by an update that locks the note's row,
so of two that do the same batch one waits and then finds it done. So each batch is in the table once and whole,
whatever is killed; readers that see committed rows only see all of a batch or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from penstock.engine.children.sink import BatchedSink, quoted
from penstock.engine.children.table_columns import DELETED
from penstock.engine.spark import private
from penstock.values.connections import options_found
from penstock.values.masking import masked

BATCHES = "penstock_batches"
"""The table of the queries and their last batches."""

_LONGEST_KEY = 1_024
"""How many characters a text has at most that is a key, in tables that are made here."""

_NAME = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)*")


class DatabaseSink(BatchedSink):
    """Appends or merges into a table of a database."""

    def check(self, session: Any) -> None:
        """Raise ``ConfigError`` when the database is out of reach, or the table lacks columns; make what is missing."""
        table = str(self._target.table)
        if not _NAME.fullmatch(table):
            raise self._refused("name a table of a database by plain names, such as totals or public.totals")
        try:
            empty = session.createDataFrame([], self._columns.schema).drop(DELETED)
            self._spark(empty.write.mode("ignore").options(**self._kinds), table).save()
            numbers = session.createDataFrame([], "query_id string, batch bigint")
            kinds = {"createTableColumnTypes": "query_id VARCHAR(64)"}
            self._spark(numbers.write.mode("ignore").options(**kinds), self._beside(BATCHES)).save()
        except Exception as error:
            raise self._refused(f"{masked(_first_line(error))} ({masked(self._target.options['url'])})") from error
        super().check(session)

    def _spark(self, what: Any, table: str) -> Any:
        """A reader or writer of a table of the database."""
        return what.format("jdbc").options(**{**self._options, "dbtable": table})

    @property
    def _options(self) -> dict[str, str]:
        """Spark's options of the database; secrets are looked up where they stand."""
        return options_found(self._target.options, "PENSTOCK_JDBC_", "JDBC")

    def _table(self, session: Any) -> Any:
        return self._spark(session.read, str(self._target.table)).load()

    @property
    def _kinds(self) -> dict[str, str]:
        """The types of columns in tables that are made here: texts that are keys can be compared in every database."""
        texts = [field.name for field in self._columns.keys if pa.types.is_string(field.type)]
        kinds = ", ".join(f"{quoted(name)} VARCHAR({_LONGEST_KEY})" for name in texts)
        return {"createTableColumnTypes": kinds} if kinds else {}

    def _beside(self, name: str) -> str:
        """Another table in the schema of the target."""
        schema, dot, _ = str(self._target.table).rpartition(".")
        return f"{schema}{dot}{name}"

    def _put(self, rows: Any, query: str, number: int) -> None:
        session = rows.sparkSession
        staged = self._beside(f"penstock_{query.replace('-', '')[:12]}")
        rows = rows.withColumn(DELETED, rows[DELETED].cast("int")) if self._columns.is_upsert else rows
        self._spark(rows.write.mode("overwrite").options(truncate="true", **self._kinds), staged).save()
        named = {name.lower(): name for name in self._table(session).columns}
        columns = [(name, named[name.lower()]) for name in self._columns.names]
        with closing(private.Database(session, {**self._options, "dbtable": staged})) as database:
            if self._noted(database, query, number):
                for statement in self._moves(database, staged, columns):
                    database.execute(statement)
            database.commit()

    def _noted(self, database: private.Database, query: str, number: int) -> bool:
        """Note a batch as done; False where it was."""
        batches = self._beside(BATCHES)
        id_, batch = (database.quoted(name) for name in ("query_id", "batch"))
        where = f"WHERE {id_} = '{query}'"
        if not database.has_rows(f"SELECT {batch} FROM {batches} {where}"):
            database.execute(f"INSERT INTO {batches} ({id_}, {batch}) VALUES ('{query}', -1)")
            database.commit()
        return database.execute(f"UPDATE {batches} SET {batch} = {number} {where} AND {batch} < {number}") > 0

    def _moves(self, database: private.Database, staged: str, columns: Sequence[tuple[str, str]]) -> list[str]:
        """The statements that bring the rows of a batch into the table."""
        table, named = str(self._target.table), database.quoted
        names = ", ".join(named(name) for _, name in columns)
        insert = f"INSERT INTO {table} ({names}) SELECT {', '.join(named(own) for own, _ in columns)} FROM {staged}"
        if not self._columns.is_upsert:
            return [insert]
        keys = [(own, name) for own, name in columns if own in self._columns.keys.names]
        pairs = [(f"{staged}.{named(own)}", f"{table}.{named(name)}") for own, name in keys]
        same = " AND ".join(f"({one} = {other} OR ({one} IS NULL AND {other} IS NULL))" for one, other in pairs)
        delete = f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {staged} WHERE {same})"
        return [delete, f"{insert} WHERE {named(DELETED)} = 0"]


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    own = next((line for line in lines if line.startswith(": ")), lines[0] if lines else type(error).__name__)
    return own.lstrip(": ")
