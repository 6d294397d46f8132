"""The types of a DataFrame's columns as Arrow has them, and which of them have no counterpart."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from penstock.errors import ConfigError
from penstock.serdes import Serde, from_name
from penstock.serdes.arrow_columns import column_type
from penstock.serdes.json_columns import is_bytes, is_text
from penstock.serdes.json_types import mapped
from penstock.serdes.row import ColumnSerde, RowSerde, serde_of_column

_NO_COUNTERPART = {
    "VariantType": "Convert it to text (to_json, or cast to a type that you know)",
    "GeometryType": "Convert it to text or bytes (st_asbinary)",
    "GeographyType": "Convert it to text or bytes (st_asbinary)",
}
"""Types that Arrow shows as something else, by their names: older Spark has not all of them."""


def arrow_schema(schema: Any) -> Any:
    """The types of a DataFrame's columns as Arrow has them."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2 times were UTC without being told
        return to_arrow_schema(schema)


def read_schema(columns: dict[str, Serde], spark: str = "") -> Any:
    """The types that columns have in Spark, without loss: numbers that Spark does not have are wider ones, or text.

    Args:
        columns: the serde of each column.
        spark: how Spark described some of them before.
    """
    found = []
    known = {field.name: field for field in spark_types.StructType.fromJson(json.loads(spark))} if spark else {}
    for name, serde in columns.items():
        kind = mapped(column_type(serde), _readable)
        field = known.get(name) or spark_types.StructField(name, from_arrow_type(kind))
        found.append(_nullable_in_spark(field))
    return spark_types.StructType(found)


def in_spark(serde: Serde) -> Serde:
    """The serde that reads a column as a type of Spark's."""
    return read_with(serde, arrow_schema(read_schema({"": serde})).field(0).type)


def read_with(serde: Serde, kind: Any) -> Serde:
    """The serde that reads a column as a type of Spark's, as Arrow has it."""
    return serde_of_column(from_name(serde.name), kind) if isinstance(serde, RowSerde | ColumnSerde) else serde


def _readable(kind: Any) -> Any:
    if pa.types.is_time(kind) and not hasattr(spark_types, "TimeType"):  # before Spark 4.1
        return pa.string()
    if pa.types.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[kind.bit_width]
    if pa.types.is_decimal(kind):
        fits = kind.precision <= _DIGITS and kind.scale >= 0
        return pa.decimal128(kind.precision, kind.scale) if fits else pa.string()
    return next((other for fits, other in _READABLE if fits(kind)), kind)


_DIGITS = 38
"""How many digits Spark's decimals have."""
_READABLE: tuple[tuple[Callable[[Any], bool], Any], ...] = (
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_date, pa.date32()),
    (pa.types.is_time, pa.time64("ns")),
    (is_text, pa.string()),
    (is_bytes, pa.binary()),
    (lambda kind: isinstance(kind, pa.UuidType), pa.string()),
)


def _nullable_in_spark(field: Any) -> Any:
    """A field that may be null, and so may all in it: other writers of the topic may leave something out."""
    return spark_types.StructField(field.name, _nullable_type(field.dataType), True, field.metadata)


def _nullable_type(kind: Any) -> Any:
    if isinstance(kind, spark_types.StructType):
        return spark_types.StructType([_nullable_in_spark(field) for field in kind])
    if isinstance(kind, spark_types.ArrayType):
        return spark_types.ArrayType(_nullable_type(kind.elementType), True)
    if isinstance(kind, spark_types.MapType):
        return spark_types.MapType(_nullable_type(kind.keyType), _nullable_type(kind.valueType), True)
    return kind


def written_schema(schema: Any, used: Collection[str]) -> Any:
    """The same of a DataFrame that is written; columns that are not used may have any type.

    Raises:
        ConfigError: a column that is used has a type without a counterpart in Arrow, also inside of others.
    """
    return pa.schema([_arrow_field(field) if field.name in used else (field.name, pa.null()) for field in schema])


def _arrow_field(field: Any) -> Any:
    for name, kind in _types_in(field.dataType, field.name):
        if (way_out := _way_out(kind)) is not None:
            raise ConfigError(
                f"write: column {name!r} is of type {kind.simpleString()}, which a topic cannot keep. {way_out}, or "
                "leave the column out (select)"
            )
    return _nullable(arrow_schema(spark_types.StructType([field])).field(0))


def _nullable(field: Any) -> Any:
    """A field that may be null, and so may all in it: Arrow casts no null list of structs that are never null."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable(one) for one in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_type, _nullable(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return pa.field(field.name, kind)


def _way_out(kind: Any) -> str | None:
    """Return the remedy for a type without a counterpart; None for other types."""
    if isinstance(kind, spark_types.UserDefinedType):
        return "Select the parts of it"
    known = _NO_COUNTERPART.get(type(kind).__name__)
    if known is None and not isinstance(kind, spark_types.StructType | spark_types.ArrayType | spark_types.MapType):
        try:
            arrow_schema(spark_types.StructType([spark_types.StructField("", kind)]))
        except Exception:  # of PySpark, whatever it says
            return "Convert it to text (cast)"
    return known


def _types_in(kind: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A type and all those inside of it, each with the way there."""
    yield name, kind
    if isinstance(kind, spark_types.StructType):
        for field in kind:
            yield from _types_in(field.dataType, f"{name}.{field.name}")
    elif isinstance(kind, spark_types.ArrayType):
        yield from _types_in(kind.elementType, f"{name}.element")
    elif isinstance(kind, spark_types.MapType):
        yield from _types_in(kind.keyType, f"{name}.key")
        yield from _types_in(kind.valueType, f"{name}.value")
