"""A store as a table: batches of Arrow columns, built as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa

from penstock.arrays import binary
from penstock.columns.batch import HEADERS, header_list
from penstock.serdes import BYTES, Serde
from penstock.serdes.arrow_columns import TIME, column_of, column_type, times_of
from penstock.state.columns.headers import headers_of

_BATCH_ROWS = 16_384
_BATCH_BYTES = 8 << 20
_ROWS_A_LOOK = 256
"""The number of rows after which a batch checks its size in bytes."""


@dataclass(frozen=True)
class TableShape:
    """The columns of a table, from rows with the key's bytes, times, and the value's bytes last."""

    before: tuple[str, ...]
    """The columns before the value's; the first one has the keys, the others have times."""
    after: tuple[str, ...]
    """The value's column, and the times after it."""
    key: Serde = BYTES
    value: Serde = BYTES
    with_headers: bool = False
    """True if a last column has the headers, which the value's bytes know."""

    def of(self, key: Serde, value: Serde, with_headers: bool = False) -> TableShape:
        """The columns for keys and values of given types."""
        return replace(self, key=key, value=value, with_headers=with_headers)

    @property
    def names(self) -> list[str]:
        """The names of all columns in the order of the rows, the value's last."""
        return [*self.before, *self.after[1:], self.after[0]]

    @property
    def schema(self) -> Any:
        """The table's columns and their types."""
        types = {"key": column_type(self.key), "value": column_type(self.value)}
        columns = [(name, types.get(name, TIME)) for name in (*self.before, *self.after)]
        return pa.schema([*columns, ("headers", HEADERS)] if self.with_headers else columns)

    def batch(self, rows: list[tuple[Any, ...]]) -> Any:
        """Turn rows into a batch."""
        columns = dict(zip(self.names, zip(*rows, strict=True), strict=True))
        found = {name: times_of(column) for name, column in columns.items() if name not in ("key", "value")}
        found["key"] = column_of(self.key, binary(list(columns["key"])))
        found["value"] = column_of(self.value, binary(list(columns["value"])))
        if self.with_headers:
            found["headers"] = pa.array([header_list(headers_of(data)) for data in columns["value"]], HEADERS)
        return pa.record_batch([found[name] for name in self.schema.names], schema=self.schema)


def stream_of(shape: TableShape, rows: Iterator[tuple[Any, ...]]) -> Any:
    """A reader of batches of rows."""
    return pa.RecordBatchReader.from_batches(shape.schema, batches(shape, rows))


def batches(shape: TableShape, rows: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield rows in batches of bounded size."""
    block: list[tuple[Any, ...]] = []
    nbytes = 0
    while some := list(islice(rows, _ROWS_A_LOOK)):
        block += some
        nbytes += sum(len(row[0]) + len(row[-1] or b"") for row in some)
        if len(block) >= _BATCH_ROWS or nbytes >= _BATCH_BYTES:
            yield shape.batch(block)
            block, nbytes = [], 0
    if block:
        yield shape.batch(block)
