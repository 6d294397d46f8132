"""A store as a table: batches of Arrow columns, made as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, binary
from penstock.durations import MAX_MS
from penstock.serdes import BYTES, FLOAT, INT, STR, JsonSerde, Serde, WindowedSerde
from penstock.serdes.arrow_types import arrow_type

_BATCH_ROWS = 16_384
_BATCH_BYTES = 8 << 20
_ROWS_A_LOOK = 256
"""After so many rows a batch looks at its bytes."""
NO_TIME = -1
"""The timestamp of rows whose store keeps none."""
_TIME = pa.timestamp("ms", tz="UTC")
_PLAIN: dict[Serde, Any] = {STR: pa.string(), INT: pa.int64(), FLOAT: pa.float64(), BYTES: pa.binary()}


@dataclass(frozen=True)
class TableShape:
    """The columns of a table: of rows that are the key's bytes, times, and the value's bytes last."""

    before: tuple[str, ...]
    """The columns in front of the value's; the first has the keys, the others are times."""
    after: tuple[str, ...]
    """The value's column, and times behind it."""
    key: Serde = BYTES
    value: Serde = BYTES

    def of(self, key: Serde, value: Serde) -> TableShape:
        """The same for keys and values of these types."""
        return replace(self, key=key, value=value)

    @property
    def names(self) -> list[str]:
        """The names of all columns, the value's last, as rows have them."""
        return [*self.before, *self.after[1:], self.after[0]]

    @property
    def schema(self) -> Any:
        """The table's columns and their types."""
        types = {"key": column_type(self.key), "value": column_type(self.value)}
        return pa.schema([(name, types.get(name, _TIME)) for name in (*self.before, *self.after)])

    def batch(self, rows: list[tuple[Any, ...]]) -> Any:
        """Some rows as a batch."""
        columns = dict(zip(self.names, zip(*rows, strict=True), strict=True))
        found = {name: _times(column) for name, column in columns.items() if name not in ("key", "value")}
        found["key"] = column_of(self.key, binary(list(columns["key"])))
        found["value"] = column_of(self.value, binary(list(columns["value"])))
        return pa.record_batch([found[name] for name in self.schema.names], schema=self.schema)


def stream_of(shape: TableShape, rows: Iterator[tuple[Any, ...]]) -> Any:
    """A reader of batches of some rows."""
    return pa.RecordBatchReader.from_batches(shape.schema, batches(shape, rows))


def batches(shape: TableShape, rows: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    """Some rows in batches of bounded size."""
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


def column_type(serde: Serde) -> Any:
    """The Arrow type of a column of keys or values: text for JSON of any form, bytes for what only a program knows."""
    if serde in _PLAIN:
        return _PLAIN[serde]
    if isinstance(serde, WindowedSerde):
        return pa.struct([("key", column_type(serde.inner)), ("start", _TIME), ("end", _TIME)])
    if isinstance(serde, JsonSerde):
        return arrow_type(serde.type) or pa.string()
    return pa.binary()


def column_of(serde: Serde, data: Binary) -> Any:
    """A column of keys or values from their bytes."""
    type_ = column_type(serde)
    if isinstance(serde, WindowedSerde):
        return _windowed(serde, data)
    if type_ == pa.binary():
        return data
    if isinstance(serde, JsonSerde) and type_ == pa.string() and arrow_type(serde.type) is None:
        return data.cast(pa.string())
    return serde.arrow(data).cast(type_)


def _windowed(serde: WindowedSerde, data: Binary) -> Any:
    keys = serde.decode_all(data)
    inner = column_of(serde.inner, serde.inner.encode_all([key.key for key in keys]))
    times = [_times([key.start for key in keys]), _times([key.end for key in keys])]
    return pa.StructArray.from_arrays([inner, *times], fields=list(column_type(serde)))


def _times(column: Any) -> Any:
    """A column of times; one that never comes is null, and so is that of a row in a store that keeps none."""
    times = pa.array(column, pa.int64())
    is_none = pc.or_(pc.equal(times, MAX_MS), pc.equal(times, NO_TIME))
    return pc.if_else(is_none, pa.scalar(None, pa.int64()), times).cast(_TIME)
