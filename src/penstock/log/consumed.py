"""The result of ``consume``: records one by one, or columns, and how it is displayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import pyarrow as pa

from penstock.arrays import is_too_large
from penstock.columns.batch import HEADERS
from penstock.errors import ConfigError, SerdeError
from penstock.log.base import Log
from penstock.log.records import Records, gathered
from penstock.log.rows import BATCH_BYTES, BATCH_ROWS
from penstock.messages import nearest
from penstock.notebooks import html_rows
from penstock.serdes import Serde
from penstock.serdes.arrow_columns import TIME, column_of, column_type

FORMS = ("arrow", "pandas", "polars")
T = TypeVar("T")


class Consumed(Iterator[T], Generic[T]):
    """Iterates over the records, or batches of columns, of a topic. Displaying it consumes none.

    Args:
        where: the topic, and the number of requested records.
        first: reads from the beginning, for the display.
    """

    def __init__(self, found: Iterator[T], where: tuple[str, int], first: Callable[[], Iterator[dict[str, Any]]]):
        self._found = found
        self._topic, self._records = where
        self._first = first

    def __next__(self) -> T:
        return next(self._found)

    def __repr__(self) -> str:
        return f"<{self._records:,} records of topic {self._topic!r}>"

    def _repr_html_(self) -> str:
        return html_rows(f"{self._topic}: {self._records:,} records", self._first())


def check_form(form: str) -> None:
    """Raise ``ConfigError`` for an unknown form, or one whose library is not installed."""
    if form not in FORMS:
        told = f"as_ is one of {', '.join(FORMS)}, or left out for records"
        raise ConfigError(f"{told}; got {form!r}{nearest(form, FORMS) if isinstance(form, str) else ''}")
    if form != "arrow":
        try:
            __import__(form)
        except ImportError:
            raise ConfigError(f"as_={form!r} needs {form}: pip install {form}") from None


def columns_of(
    log: Log, topic: str, ranges: Mapping[int, tuple[int, int]], key: Serde, value: Serde, form: str
) -> Iterator[Any]:
    """Yield the records of some partitions as batches of columns, partition by partition."""
    for partition, range_ in ranges.items():
        parts = (part for piece in log.read(topic, partition, *range_) for part in _cut(piece))
        for records in gathered(parts, BATCH_ROWS, BATCH_BYTES):
            batch = _batch(records, topic, partition, key, value)
            yield batch if form == "arrow" else _as(batch, form)


def _cut(piece: Records) -> Iterator[Records]:
    return (piece.slice(start, start + BATCH_ROWS) for start in range(0, len(piece), BATCH_ROWS))


def _batch(records: Records, topic: str, partition: int, key: Serde, value: Serde) -> Any:
    count = len(records)
    columns = {
        "key": decoded(key, records.key, records, f"topic {topic!r}, partition {partition}"),
        "value": decoded(value, records.value, records, f"topic {topic!r}, partition {partition}"),
        "timestamp": pa.array(records.timestamp).cast(TIME),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": pa.array(records.offsets, pa.int64()),
        "headers": pa.nulls(count, HEADERS) if records.headers is None else records.headers,
    }
    return pa.record_batch(list(columns.values()), names=list(columns))


def decoded(serde: Serde, data: Any, records: Records, where: str) -> Any:
    """Return a decoded column. Raise ``SerdeError`` that names the record with another type."""
    try:
        return column_of(serde, data)
    except Exception as problem:
        if is_too_large(problem):
            raise
        for row in range(len(data)):
            try:
                column_of(serde, data.slice(row, 1))
            except Exception as error:
                kind, offset = column_type(serde), int(records.offsets[row])
                raise SerdeError(f"{where}, offset {offset}: it is no {kind}: {error}") from error
        raise


def _as(batch: Any, form: str) -> Any:
    if form == "pandas":
        return batch.to_pandas()
    import polars

    return polars.from_arrow(batch)
