"""Parquet files by date, in a folder or an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.files.locations import checkpoint_place, folder, scheme_of
from penstock.messages import show
from penstock.sinks.gathering import EVERY, ROWS, gathering
from penstock.sinks.parquet.dates import is_date
from penstock.sinks.parquet.writer import ParquetWriter
from penstock.sinks.protocol import Sink, SinkPartition, SinkWriter
from penstock.storage.base import LocalStorage, Storage
from penstock.values.durations import Duration
from penstock.values.masking import masked

_DATE = "date"
"""The name in the folders' names, which readers take for a column."""

_PATIENCE = 10.0
"""Seconds for which one request is repeated. After that the batch is given again, and people see why."""


class ParquetSink(Sink):
    """Parquet files in a folder or an object store: each record of a stream is a row.

    Files are under ``date=YYYY-MM-DD/``, by UTC. None of them changes. Penstock gathers the records of each partition,
    so that files are large. A manifest under ``_penstock`` names the files of each batch, and makes it count. Tables
    are refused, as rows are only added. An object store needs ``penstock-streams[obstore]``.

    Args:
        place: a folder, or a URL such as ``"s3://lake/orders"``. Penstock finds the store's keys where the store's own
            tools find them.
        date: the column of times or dates that rows are split by; None for no folders.
        rows: how many records a batch has at most. It has at most 64 MB of them, too.
        every: how long records wait at most until a batch has so many.

    Raises:
        ConfigError: an argument is not valid, or a needed package is not installed.

    >>> from penstock import StreamsBuilder
    >>> from penstock.sinks import ParquetSink
    >>> orders = StreamsBuilder().stream("orders", key=str, value=int)
    >>> orders.to_sink(ParquetSink("lake/orders", every="1 minute"), "orders", key="number", value="amount")
    """

    streams_only = True

    def __init__(self, place: Path | str, *, date: str | None = "timestamp", rows: int = ROWS, every: Duration = EVERY):
        if date is not None and not (isinstance(date, str) and date.strip()):
            raise ConfigError(f"ParquetSink: date is the name of a column, or None for no folders; got {show(date)}")
        self.storage = _storage(place)
        self._place = masked(str(place))
        self.date = date
        self.gather_rows, self.gather_ms = gathering("ParquetSink", rows, every)
        self._is_checked = False

    @property
    def shown(self) -> str:
        return f"Parquet files in {self._place}"

    def check_columns(self, schema: Any) -> None:
        for field in schema:
            if (reason := _why_not(field)) is not None:
                raise ConfigError(
                    f"{self.shown}: Parquet cannot keep column {field.name!r} of Arrow's type {field.type}: {reason}. "
                    "Make a number or text of it before to_sink"
                )
        if self.date is None:
            return
        if self.date not in schema.names or not is_date(schema.field(self.date).type):
            fitting = ", ".join(repr(field.name) for field in schema if is_date(field.type)) or "none"
            raise ConfigError(
                f"{self.shown}: date={self.date!r} is not a column of times or dates; of those there are: {fitting}. "
                "Name one of them, give the records' time a column (to_sink(timestamp=...)), or write no folders with "
                "date=None"
            )
        if _DATE in schema.names:
            raise ConfigError(
                f"{self.shown}: column {_DATE!r} has the name of the folders, {_DATE}=YYYY-MM-DD, and readers would "
                "mistake one for the other. Give it another name before to_sink, or write no folders with date=None"
            )

    def open(self, partition: SinkPartition) -> SinkWriter:
        if not self._is_checked:
            self.storage.check()
            self.storage.sweep()
            self._is_checked = True
        return ParquetWriter(self.storage, self.date, self.shown, partition)


def _storage(place: Any) -> Storage:
    if not isinstance(place, Path | str) or not str(place):
        raise ConfigError(f"ParquetSink: place is a folder or the URL of an object store; got {show(place)}")
    text = checkpoint_place(place, "ParquetSink: place")
    if scheme_of(text) in (None, "file"):
        return LocalStorage(folder(text, "ParquetSink: place").absolute())
    from penstock.storage.objects import ObjectStorage

    return ObjectStorage(text.rstrip("/"), patience=_PATIENCE, what="the place of a ParquetSink")


def _why_not(field: Any) -> str | None:
    """Return why Parquet cannot keep a column, or None."""
    import pyarrow.parquet as pq

    if _has_duration(field.type):
        return "durations become numbers of no unit"
    try:
        with pa.BufferOutputStream() as nowhere:
            pq.write_table(pa.schema([field]).empty_table(), nowhere)
    except (pa.ArrowException, TypeError, ValueError) as error:
        return str(error).partition("\n")[0].rstrip(".")
    return None


def _has_duration(type_: Any) -> bool:
    if pa.types.is_dictionary(type_):
        return _has_duration(type_.value_type)
    inner = [type_.field(at).type for at in range(type_.num_fields)] if pa.types.is_nested(type_) else []
    return bool(pa.types.is_duration(type_)) or any(map(_has_duration, inner))
