"""The records of a topic as columns with types of their own: those of tables, and of DataFrames of results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.batch.result import quiet
from penstock.engine.shipping.shipping import dumps, loads
from penstock.engine.spark.frame_types import arrow_schema
from penstock.errors import ConfigError
from penstock.plan.dataframes import TableTarget
from penstock.serdes import Serde
from penstock.serdes.arrow_columns import TIME, column_of, column_type, fields_of, flat_columns

DELETED = "__deleted"
"""The column of an upsert that marks deleted rows."""

_RAW = ("topic", "partition", "offset", "timestamp")
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class TableColumns:
    """The columns of records in a table: structs become their fields, and a windowed key its key, start and end.

    Attributes:
        keys: the columns that come of the key.
        values: the columns that come of the value.
        time: the column of the record's time, if the table has one.
    """

    key: Serde
    value: Serde
    keys: Any
    values: Any
    time: str | None
    is_upsert: bool

    @classmethod
    def of(cls, key: Serde, value: Serde, target: TableTarget) -> TableColumns:
        """The columns of a table.

        Raises:
            ConfigError: two columns have one name.
        """
        keys = pa.schema([] if target.key is None else _fields(key, target.key))
        values = pa.schema(_fields(value, target.value))
        found = cls(key, value, keys, values, target.timestamp, target.mode == "upsert")
        names = found.names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(
                f"to_spark_table at {target.where}: two columns of table {target.shown} are called {twice!r}. Call "
                'that of the key something else (key="..."), or that of the time (timestamp="...")'
            )
        return found

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*self.keys.names, *self.values.names, *([] if self.time is None else [self.time])]

    @property
    def schema(self) -> Any:
        """The columns, as Spark has them; an upsert also has ``DELETED``."""
        fields = [*self.keys, *self.values, *([] if self.time is None else [pa.field(self.time, _TIME)])]
        return from_arrow_schema(pa.schema([*fields, *([pa.field(DELETED, pa.bool_())] if self.is_upsert else [])]))

    def decoded(self, raw: Any) -> Any:
        """A DataFrame of records, as ``format("penstock")`` reads them, with these columns."""
        packed = dumps(self)
        kind = self.schema
        types = arrow_schema(kind)

        def decode(batches: Iterator[Any]) -> Iterator[Any]:
            columns = loads(packed)
            for batch in batches:
                yield pa.record_batch(columns.arrays(batch), names=types.names).cast(types)

        with quiet():
            return raw.mapInArrow(decode, kind)

    def arrays(self, batch: Any) -> list[Any]:
        """The columns of some records."""
        found = [] if not self.keys.names else _flat(self.key, batch.column("key"))
        found += _flat(self.value, batch.column("value"))
        if self.time is not None:
            found.append(batch.column("timestamp"))
        return [*found, batch.column("value").is_null()] if self.is_upsert else found


def typed(raw: Any, key: Serde, value: Serde) -> Any:
    """A DataFrame of records with keys and values of their own types beside the other columns."""
    packed = dumps((key, value))
    fields = [("key", column_type(key)), ("value", column_type(value))]
    kind = from_arrow_schema(pa.schema(fields))
    for name in _RAW:
        kind = kind.add(raw.schema[name])
    types = arrow_schema(kind)

    def decode(batches: Iterator[Any]) -> Iterator[Any]:
        serdes = loads(packed)
        for batch in batches:
            columns = [
                column_of(serde, batch.column(name)) for serde, name in zip(serdes, ("key", "value"), strict=True)
            ]
            columns += [batch.column(name) for name in _RAW]
            yield pa.record_batch(columns, names=types.names).cast(types)

    with quiet():
        return raw.mapInArrow(decode, kind)


def _fields(serde: Serde, name: str) -> list[Any]:
    """The columns that keys or values become, with times as Spark has them."""
    return [field.with_type(_TIME) if field.type == TIME else field for field in fields_of(serde, name)]


def _flat(serde: Serde, data: Any) -> list[Any]:
    """The columns of keys or values, from their bytes."""
    return [column.cast(_TIME) if column.type == TIME else column for column in flat_columns(serde, data)]
