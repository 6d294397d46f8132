"""Writes the batches of one partition into a table of Iceberg."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysFalse, In, IsNull, Or
from pyiceberg.table import Table, Transaction

from penstock.faults import crash_point
from penstock.sinks.batch import SinkBatch
from penstock.sinks.lakes.columns import fitted, rows_of
from penstock.sinks.lakes.iceberg_numbers import Kept, as_property, kept_of, name_of
from penstock.sinks.lakes.matching import matching
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
                self._replace(transaction, fitting, gone, {name: kept.text})
            transaction.set_properties({name: as_property(kept, transaction.table_metadata)})
            crash_point("in-sink")

    def _replace(self, transaction: Transaction, rows: Any, gone: Any, summary: dict[str, str]) -> None:
        """Put rows in the place of those with their keys, without the rows of deleted keys.

        The rows in question are those with a value of one column of the key. Those with another key stay.
        """
        keys = self._partition.keys
        wanted = _filter(rows, max(keys, key=lambda name: len(rows[name].unique())))
        old = self._table.scan(row_filter=wanted).to_arrow()
        found = matching(old, rows, keys)
        new = self._with_others(rows, old, found).filter(pa.compute.invert(gone))
        if len(old) == 0:
            transaction.append(new, snapshot_properties=summary)
            return
        stay = old.filter(pa.array(found < 0)).cast(new.schema)
        transaction.overwrite(pa.concat_tables([stay, new]), overwrite_filter=wanted, snapshot_properties=summary)

    def _with_others(self, rows: Any, old: Any, found: Any) -> Any:
        """Return rows with those columns of the old rows that are the user's own."""
        source = np.full(len(rows), -1)
        source[found[found >= 0]] = np.flatnonzero(found >= 0)
        taken = pa.array(source, mask=source < 0)
        for at, field in enumerate(rows.schema):
            if field.name not in self._partition.schema.names:
                rows = rows.set_column(at, field, old[field.name].take(taken).cast(field.type))
        return rows

    def close(self) -> None:
        self._catalog.close()


def _filter(rows: Any, name: str) -> Any:
    """Return an expression for all rows that have one of the values of a column."""
    values = rows[name].unique()
    some = In(name, values.drop_null().to_pylist()) if len(values) > values.null_count else AlwaysFalse()
    return Or(some, IsNull(name)) if values.null_count else some
