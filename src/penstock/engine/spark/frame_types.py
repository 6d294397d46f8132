"""The types of a DataFrame's columns as Arrow has them, and which of them have no counterpart."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.errors import ConfigError

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
    return _nullable(arrow_schema(spark.StructType([field])).field(0))


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
    if isinstance(kind, spark.UserDefinedType):
        return "Select the parts of it"
    known = _NO_COUNTERPART.get(type(kind).__name__)
    if known is None and not isinstance(kind, spark.StructType | spark.ArrayType | spark.MapType):
        try:
            arrow_schema(spark.StructType([spark.StructField("", kind)]))
        except Exception:  # of PySpark, whatever it says
            return "Convert it to text (cast)"
    return known


def _types_in(kind: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A type and all those inside of it, each with the way there."""
    yield name, kind
    if isinstance(kind, spark.StructType):
        for field in kind:
            yield from _types_in(field.dataType, f"{name}.{field.name}")
    elif isinstance(kind, spark.ArrayType):
        yield from _types_in(kind.elementType, f"{name}.element")
    elif isinstance(kind, spark.MapType):
        yield from _types_in(kind.keyType, f"{name}.key")
        yield from _types_in(kind.valueType, f"{name}.value")
