"""Writes the batches of one partition into a table of Delta Lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import xxhash
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, DeltaProtocolError, SchemaMismatchError

from penstock.errors import SinkError
from penstock.faults import crash_point
from penstock.sinks.batch import SinkBatch
from penstock.sinks.lakes.delta_numbers import NUMBERS, number_of
from penstock.sinks.lakes.kept_columns import fitted, rows_of
from penstock.sinks.protocol import SinkPartition, SinkWriter

_GONE = "penstock_is_deleted"
"""The column of a batch that says which rows to delete; the table does not get it."""

_FORGETS = "delta.setTransactionRetentionDuration"
"""A property of a table, after which readers forget numbers."""


class DeltaWriter(SinkWriter):
    """Appends batches to a table, or merges them into it.

    Args:
        shown: the sink's name, for messages.
    """

    def __init__(self, table: DeltaTable, shown: str, partition: SinkPartition):
        if _FORGETS in table.metadata().configuration:
            raise SinkError(
                f"the table forgets the numbers of batches, so rows could come twice: remove its property {_FORGETS}"
            )
        self._table = table
        self._shown = shown
        self._partition = partition
        self._known: tuple[int, int] | None = None
        """A version of the table and the number that it has."""

    def committed(self) -> int:
        topic = self._table.transaction_version(f"{self._partition.id}/topic")
        if topic not in (None, self._topic):
            self._partition.check_topic("another", f"Remove the folder of the {self._shown}")
        version = self._table.version()
        if self._known is None or self._known[0] != version:
            self._known = version, number_of(self._table, self._partition.id)
        return self._known[1]

    @property
    def _topic(self) -> int:
        """A number that tells the topic apart from others, as Delta keeps whole numbers alone."""
        return xxhash.xxh3_64_intdigest(self._partition.topic_id.encode()) >> 1

    def write(self, batch: SinkBatch, commit: int) -> None:
        self._table.update_incremental()
        if self.committed() != batch.before:
            raise OSError("another process has written into the sink meanwhile")
        chosen = batch.newest() if self._partition.is_table else batch
        rows = fitted(rows_of(chosen), pa.schema(self._table.schema().to_arrow()))
        crash_point("in-sink")
        with _plainly():
            if self._partition.is_table:
                self._upsert(rows.append_column(_GONE, chosen.is_deleted), commit)
            else:
                write_deltalake(self._table, rows, mode="append", commit_properties=self._with(commit))
        self._known = self._table.version(), commit

    def _with(self, number: int) -> Any:
        """Return what makes a commit keep the number. Delta refuses it if another commit has written one meanwhile."""
        mine = self._partition.id
        kept = [Transaction(mine, number), Transaction(f"{mine}/topic", self._topic)]
        return CommitProperties(custom_metadata={NUMBERS: {mine: number}}, app_transactions=kept)

    def _upsert(self, rows: Any, number: int) -> None:
        keys, names, version = self._partition.keys, self._partition.schema.names, self._table.version()
        same = " AND ".join(f"{_of('old', name)} {_equal(rows[name])} {_of('new', name)}" for name in keys)
        merger = self._table.merge(
            rows, same, source_alias="new", target_alias="old", commit_properties=self._with(number)
        ).when_matched_delete(f"new.{_GONE}")
        others = {_quoted(name): _of("new", name) for name in names if name not in keys}
        if others:
            merger = merger.when_matched_update(others)
        inserted = {_quoted(name): _of("new", name) for name in names}
        merger.when_not_matched_insert(inserted, predicate=f"NOT new.{_GONE}").execute()
        if self._table.version() == version:  # no row was touched, so there was no commit
            schema = self._table.schema()
            self._table.create_write_transaction([], "append", schema, commit_properties=self._with(number))


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def _of(alias: str, name: str) -> str:
    return f"{alias}.{_quoted(name)}"


def _equal(column: Any) -> str:
    """Return the operator that compares keys: the fast one, unless a field of a key is null."""
    return "IS NOT DISTINCT FROM" if column.null_count else "="


@contextmanager
def _plainly() -> Iterator[None]:
    """Raise ``SinkError`` for what no retry mends."""
    try:
        yield
    except (DeltaProtocolError, SchemaMismatchError) as error:
        raise SinkError(f"{type(error).__name__}: {error}") from None
    except DeltaError as error:
        if "Invalid data found" not in str(error):
            raise
        raise SinkError(f"rows break a rule of the table: {error}; leave such rows out, or change the rule") from None
