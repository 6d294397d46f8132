"""Replaces rows of a table of Iceberg by key: files that have some of the keys are written again.

pyiceberg's own ``overwrite`` takes an expression with all keys, and asks it once for each file, several times over.
Here files are chosen by the range of the keys, and rows are matched as columns.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThanOrEqual,
    Or,
)
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.table import Transaction

from penstock.sinks.lakes.matching import matching

_FEW = 200
"""Up to how many keys pyiceberg holds each one against the bounds of a file."""

_GATHERED = 128 << 20
"""How many bytes of rows that stay are gathered, so that small files become large ones."""


class Replacing:
    """One commit that replaces rows by key.

    Args:
        transaction: of the table as it was read last.
        keys: the columns of the key.
        own: the columns that only the user's rows have, whose values stay.
    """

    def __init__(self, transaction: Transaction, keys: Sequence[str], own: Sequence[str]):
        self._transaction = transaction
        self._metadata = transaction.table_metadata
        self._io = transaction._table.io
        self._keys = keys
        self._own = own
        self._replaced: list[Any] = []
        self._written: list[Any] = []
        self._id = uuid.uuid4()
        self._numbers = count()

    def replace(self, rows: Any, gone: Any, summary: dict[str, str]) -> None:
        """Put rows in the place of those with their keys, without the rows of deleted keys."""
        former: list[Any] = []
        places: list[Any] = []
        stay: list[Any] = []
        for old in self._files_near(rows):
            found = matching(old, rows, self._keys)
            if not (found >= 0).any():
                self._replaced.pop()  # it has none of the keys
                continue
            former.append(old.filter(pa.array(found >= 0)).select(self._own))
            places.append(found[found >= 0])
            stay.append(old.filter(pa.array(found < 0)).cast(rows.schema))
            if sum(one.nbytes for one in stay) > _GATHERED:
                self._write(stay)
        new = self._with_own(rows, former, places).filter(pc.invert(gone))
        if not self._replaced:
            self._transaction.append(new, snapshot_properties=summary)
            return
        self._write([*stay, new])
        with self._transaction.update_snapshot(snapshot_properties=summary).overwrite() as update:
            update.commit_uuid = self._id
            for file in self._replaced:
                update.delete_data_file(file)
            for file in self._written:
                update.append_data_file(file)

    def _files_near(self, rows: Any) -> Iterator[Any]:
        """Yield the rows of each file that may have some of the keys, as it is added to those to replace."""
        name = max(self._keys, key=lambda one: len(rows[one].unique()))
        schema = self._metadata.schema()
        for task in self._transaction._table.scan(row_filter=near(rows[name], name)).plan_files():
            self._replaced.append(task.file)
            yield ArrowScan(self._metadata, self._io, schema, AlwaysTrue()).to_table([task])

    def _write(self, pieces: list[Any]) -> None:
        """Write rows into files, and forget them."""
        rows = pa.concat_tables(pieces)
        pieces.clear()
        if len(rows):
            given = {"write_uuid": self._id, "df": rows, "io": self._io, "counter": self._numbers}
            self._written += _dataframe_to_data_files(table_metadata=self._metadata, **given)

    def _with_own(self, rows: Any, former: list[Any], places: list[Any]) -> Any:
        """Return rows with those columns of the rows in their place that are the user's own."""
        if not former or not self._own:
            return rows
        old, found = pa.concat_tables(former), np.concatenate(places)
        source = np.full(len(rows), -1)
        source[found] = np.arange(len(found))
        taken = pa.array(source, mask=source < 0)
        for name in self._own:
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), old[name].take(taken).cast(rows.schema.field(at).type))
        return rows


def near(column: Any, name: str) -> Any:
    """Return an expression for rows whose key may be in a column: it has few values, or a smallest and a largest one.

    >>> near(pa.chunked_array([range(1_000)]), "n")
    And(left=GreaterThanOrEqual(term=Reference(name='n'), literal=LongLiteral(0)), \
right=LessThanOrEqual(term=Reference(name='n'), literal=LongLiteral(999)))
    """
    values = column.unique()
    some = values.drop_null()
    is_null = IsNull(name) if values.null_count else AlwaysFalse()
    if len(some) <= _FEW:
        return Or(In(name, some.to_pylist()) if len(some) else AlwaysFalse(), is_null)
    kind = column.type
    has_range = pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
    if not (has_range or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return AlwaysTrue()
    ends = pc.min_max(some)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    return Or(And(GreaterThanOrEqual(name, least), LessThanOrEqual(name, most)), is_null)
