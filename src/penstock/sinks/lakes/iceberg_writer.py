"""Writes the batches of one partition into a table of Iceberg."""

from __future__ import annotations

from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from penstock.faults import crash_point
from penstock.sinks.batch import SinkBatch
from penstock.sinks.lakes.iceberg_files import Replacing
from penstock.sinks.lakes.iceberg_numbers import Kept, as_property, kept_of, name_of
from penstock.sinks.lakes.kept_columns import fitted, rows_of
from penstock.sinks.protocol import SinkPartition, SinkWriter

_ATTEMPTS = 5
"""How often a batch is written while others write into the table, before people hear of it."""

_OWN_RETRIES = "commit.retry.num-retries"
"""A property of a table: pyiceberg would commit again behind other commits, also behind one with the same batch."""


class IcebergWriter(SinkWriter):
    """Appends batches to a table, or replaces the rows of their keys.

    Args:
        catalog: where the table is; it is closed with the writer.
        shown: the sink's name, for messages.
    """

    def __init__(self, table: Table, catalog: Any, shown: str, partition: SinkPartition):
        self._table = table
        self._catalog = catalog
        self._shown = shown
        self._partition = partition

    def committed(self) -> int:
        kept = kept_of(self._table.metadata, self._partition)
        if kept is None:
            return 0
        self._partition.check_topic(kept.topic_id, f"Drop the {self._shown}")
        return kept.number

    def write(self, batch: SinkBatch, commit: int) -> None:
        chosen = batch.newest() if self._partition.is_table else batch
        rows = rows_of(chosen)
        gone = chosen.is_deleted if self._partition.is_table else None
        for attempt in range(1, _ATTEMPTS + 1):
            self._table.refresh()
            if self.committed() != batch.before:
                raise OSError("another process has written into the sink meanwhile")
            try:
                self._commit(rows, gone, Kept(commit, self._partition.topic_id))
                return
            except CommitFailedException:
                if attempt == _ATTEMPTS:
                    raise

    def _commit(self, rows: Any, gone: Any, kept: Kept) -> None:
        """Make one commit of rows and number. It fails if there was another commit since the table was read."""
        self._table.metadata.properties[_OWN_RETRIES] = "0"  # of this object alone
        fitting = fitted(rows, self._table.schema().as_arrow())
        name = name_of(self._partition)
        with self._table.transaction() as transaction:
            if gone is None:
                transaction.append(fitting, snapshot_properties={name: kept.text})
            else:
                own = [one for one in fitting.schema.names if one not in self._partition.schema.names]
                Replacing(transaction, self._partition.keys, own).replace(fitting, gone, {name: kept.text})
            transaction.set_properties({name: as_property(kept, transaction.table_metadata)})
            crash_point("in-sink")

    def close(self) -> None:
        self._catalog.close()
