"""Batches of sources as records of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import nulls
from penstock.columns.batch import HEADERS
from penstock.columns.returned import from_arrow
from penstock.errors import ConfigError, PenstockError, SourceError
from penstock.log.records import Records
from penstock.log.rows import now, records_of
from penstock.log.tables import small
from penstock.messages import show
from penstock.serdes import FLOAT, INT, STR, Serde, json_columns
from penstock.serdes.json import JsonSerde
from penstock.sources.protocol import SourceBatch, SourceContext

_COLUMNS = ("key", "value", "timestamp", "headers")
_ARROW_TYPES = {INT: pa.int64(), FLOAT: pa.float64(), STR: pa.string()}


def encoded(batch: SourceBatch, context: SourceContext) -> Iterator[Records]:
    """Yield the records of a batch, some thousand at a time.

    Raises:
        SourceError: it has another form, or a key or a value does not fit its type.
    """
    where = f"source {context.name!r}"
    try:
        if hasattr(batch.records, "__arrow_c_stream__") or hasattr(batch.records, "__arrow_c_array__"):
            yield from _of_table(batch.records, context, where)
            return
        if isinstance(batch.records, str | bytes) or not isinstance(batch.records, Iterable):
            raise ConfigError(
                f"{where}: the records of a batch are rows such as [(key, value)], or an Arrow table; got "
                f"{show(batch.records)}"
            )
        yield from records_of(batch.records, context.name, context.key, context.value)
    except SourceError:
        raise
    except (PenstockError, pa.ArrowInvalid) as error:
        raise SourceError(f"{where} gave what is no record: {error}") from None


def _of_table(given: Any, context: SourceContext, where: str) -> Iterator[Records]:
    table = pa.table(given)
    unknown = [name for name in table.column_names if name not in _COLUMNS]
    if unknown or "value" not in table.column_names:
        raise ConfigError(
            f"{where}: the columns of a batch are key, value, timestamp and headers; got "
            f"{', '.join(table.column_names)}"
        )
    for large in table.to_batches():
        for batch in small(large):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            key = columns.get("key")
            yield Records(
                -1,
                nulls(batch.num_rows) if key is None else _bytes_of(key, context.key, "key", where),
                _bytes_of(columns["value"], context.value, "value", where),
                _times_of(columns.get("timestamp"), batch.num_rows, where),
                None if "headers" not in columns else columns["headers"].cast(HEADERS),
            )


def _bytes_of(column: Any, serde: Serde, name: str, where: str) -> Any:
    """The bytes of a column; those of Arrow's type binary are bytes already."""
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_large_binary(column.type):
        return column.cast(pa.binary())
    if isinstance(serde, JsonSerde):
        return json_columns.encode(column, name, where)
    if serde not in _ARROW_TYPES:
        return serde.encode_all(column.to_pylist())
    return from_arrow(column.cast(_ARROW_TYPES[serde]), serde).encoded()


def _times_of(column: Any, rows: int, where: str) -> Any:
    """Times in milliseconds; the present time where there are none."""
    if column is None:
        return np.full(rows, now())
    if not (pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)) or column.null_count:
        raise ConfigError(f"{where}: the column timestamp has whole milliseconds or timestamps, without nulls")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False)
    times = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if len(times) and times.min() < 0:
        raise ConfigError(f"{where}: a timestamp is not before 1970; got {times.min()}")
    return times
