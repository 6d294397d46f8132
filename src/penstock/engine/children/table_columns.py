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
from penstock.serdes.arrow_columns import TIME, column_of, column_type
from penstock.serdes.record_columns import RecordColumns

DELETED = "__deleted"
"""The column of an upsert that marks deleted rows."""

_RAW = ("topic", "partition", "offset", "timestamp")
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class TableColumns:
    """The columns of records in a table.

    Attributes:
        of_records: the columns before Spark, whose times have another unit.
        is_upsert: whether ``DELETED`` is among them.
    """

    of_records: RecordColumns
    is_upsert: bool

    @classmethod
    def of(cls, key: Serde, value: Serde, target: TableTarget) -> TableColumns:
        """Return the columns of a table.

        Raises:
            ConfigError: two columns have one name.
        """
        found = RecordColumns.of((key, value), (target.key, target.value, target.timestamp))
        if found.repeated is not None:
            raise ConfigError(
                f"to_spark_table at {target.where}: two columns of table {target.shown} are called "
                f'{found.repeated!r}. Call that of the key something else (key="..."), or that of the time '
                '(timestamp="...")'
            )
        return cls(found, target.mode == "upsert")

    @property
    def keys(self) -> Any:
        """The columns of the key."""
        return self.of_records.keys

    @property
    def names(self) -> list[str]:
        """The names of all columns but ``DELETED``."""
        return self.of_records.names

    @property
    def schema(self) -> Any:
        """The columns, as Spark has them; an upsert also has ``DELETED``."""
        fields = [field.with_type(_TIME) if field.type == TIME else field for field in self.of_records.schema]
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
        """Return the columns of some records."""
        value = batch.column("value")
        flat = self.of_records.flat(batch.column("key"), value)
        found = [column.cast(_TIME) if column.type == TIME else column for column in flat]
        found += [] if self.of_records.time is None else [batch.column("timestamp")]
        return [*found, value.is_null()] if self.is_upsert else found


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
