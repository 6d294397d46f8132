"""A batch of records on its way into a sink."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from penstock.errors import SinkError
from penstock.log.records import Records
from penstock.messages import show
from penstock.serdes.arrow_columns import is_whole, values_of_text
from penstock.serdes.record_columns import RecordColumns


class SinkBatch:
    """Consecutive records of one partition.

    Attributes:
        before: the number of the batch before this one; 0 for the first.

    >>> def totals_of(batch):
    ...     newest = batch.newest()
    ...     return newest.arrow().to_pylist(), newest.is_deleted.to_pylist()
    """

    def __init__(self, records: Records, columns: RecordColumns, before: int):
        self._records = records
        self._columns = columns
        self.before = before

    def __len__(self) -> int:
        return len(self._records)

    @property
    def offsets(self) -> list[int]:
        """The offset of each record, which tells it apart from all others of its partition."""
        return list(self._records.offsets.tolist())

    @cached_property
    def is_deleted(self) -> Any:
        """For each record whether its value is null, which deletes the row of its key in a table; an Arrow array."""
        return self._records.value.is_null()

    def arrow(self) -> Any:
        """Return the records as a ``pyarrow.RecordBatch``: the columns of keys, of values, and the time.

        Fields of typed values are columns. JSON of no type is one column of text.
        """
        return self._arrow

    @cached_property
    def _arrow(self) -> Any:
        return self._columns.batch(self._records.key, self._records.value, self._records.timestamp)

    def rows(self) -> list[dict[str, Any]]:
        """Return the records as dicts: of the columns, or the fields of a JSON object of no type.

        Raises:
            SinkError: a field of such an object has the name of a column, and another value.
        """
        batch = self.arrow()
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        for serde, data, fields in (
            (self._columns.key, self._records.key, self._columns.keys),
            (self._columns.value, self._records.value, self._columns.values),
        ):
            if len(fields) and is_whole(serde):
                columns[fields[0].name] = serde.decode_all(data)
            elif len(fields):
                columns |= values_of_text(serde, data)
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return [self._with_fields(row) for row in rows]

    def _with_fields(self, row: dict[str, Any]) -> dict[str, Any]:
        name = self._columns.values.names[0]
        if not isinstance(row[name], dict) or not is_whole(self._columns.value):
            return row
        value: dict[str, Any] = row.pop(name)
        for name in row.keys() & value.keys():
            if row[name] != value[name]:
                raise SinkError(
                    f"a value has a field {name!r}, and another column of its row is called so, too: one of them would "
                    f"be lost. Give the column another name: to_sink(..., key=...) or to_sink(..., timestamp=...). "
                    f"The field is {show(value[name])}, the column {show(row[name])}"
                )
        return row | value

    def pieces(self, rows: int) -> Iterator[SinkBatch]:
        """Yield the records some at a time, so that the sink works on some while others are decoded."""
        for start in range(0, len(self), rows):
            yield SinkBatch(self._records.slice(start, start + rows), self._columns, self.before)

    def newest(self) -> SinkBatch:
        """Return the last record of each key alone, in order: what a table has behind this batch."""
        codes = self._records.key.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1
        last = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
        last[codes] = np.arange(len(codes))
        return self.take(last[codes] == np.arange(len(codes)))

    def take(self, chosen: Any) -> SinkBatch:
        """Return some of the records.

        Args:
            chosen: a boolean for each record.
        """
        return SinkBatch(self._records.keep(np.asarray(chosen, bool)), self._columns, self.before)
