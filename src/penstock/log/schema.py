"""The schema of a topic: the types of Arrow that its keys and values had as columns of a DataFrame.

It stands in the topic's description as Arrow writes schemas, in base64, as Parquet keeps the schemas of its files: two
fields, ``key`` and ``value``. Those of Spark have their own description of the types beside it.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.errors import ConfigError, CorruptDataError
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.contract.topics import TopicInfo
from penstock.log.open import opened
from penstock.serdes import Serde, from_name
from penstock.serdes.row import PLAIN, ColumnSerde, RowSerde, serde_of_column
from penstock.usage.signatures import telling
from penstock.values.topic_names import check_topic_name

PARTS = ("key", "value")
_SPARK = b"spark"
"""Under which name a schema has Spark's own description of it."""


def packed(schema: Any, spark: str = "") -> str:
    """A schema of ``key`` and ``value`` as a topic's description has it; empty for one without fields.

    Args:
        spark: the same in Spark's own words, if it is from there.
    """
    if not schema.names:
        return ""
    described = schema.with_metadata({_SPARK: spark} if spark else None)
    return base64.b64encode(described.serialize().to_pybytes()).decode()


def schema_of_topic(info: TopicInfo) -> Any:
    """The types of a topic's keys and values, as far as they are known: a schema of Arrow.

    Raises:
        CorruptDataError: the schema in the topic's description cannot be read.
    """
    if not info.schema:
        return pa.schema([])
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(info.schema, validate=True)))
    except (ValueError, pa.ArrowException, OSError) as error:
        raise CorruptDataError(f"the schema of topic {info.name!r} is damaged: {error}") from None


class TopicSchema(NamedTuple):
    """The types of a topic's keys and values as Arrow has them; None where they are not known."""

    key: Any
    value: Any


@telling
def schema_of(topic: str, log: Log | Kafka | Path | str | None = None) -> TopicSchema:
    """Return the schema of a topic that a DataFrame wrote, for ``key=`` and ``value=`` of a program that reads the
    topic.

    With it, a function gets rows as dicts with Python's own types: ``Decimal``, ``datetime``, ``bytes``.

    Args:
        topic: the topic.
        log: the log; by default that of the settings.

    Returns:
        The types of keys and values. A row is a struct.

    Raises:
        TopicNotFoundError: the topic does not exist.
        ConfigError: the topic has no schema: it is in Kafka, or no DataFrame wrote it.

    >>> import tempfile
    >>> from penstock import StreamsBuilder, produce_columns
    >>> folder = tempfile.mkdtemp()
    >>> orders = {"id": [1], "day": pa.array([20455], pa.date32())}
    >>> produce_columns(orders, "orders", key="id", log=folder)
    1
    >>> schema = schema_of("orders", log=folder)
    >>> schema.value
    StructType(struct<id: int64, day: date32[day]>)
    >>> stream = StreamsBuilder().stream("orders", key=schema.key, value=schema.value)
    >>> days = stream.map_values(lambda order: {"year": order["day"].year})
    """
    check_topic_name(topic)
    with opened(log) as topics:
        info = topics.topic(topic)
        if not info.schema:
            raise ConfigError(
                f"topic {topic!r} in {topics.url} keeps no schema: no DataFrame was written into it, or its log keeps "
                "none. Say the types yourself: value= takes a class, or the schema of the DataFrame (df.schema)"
            )
    schema = schema_of_topic(info)
    known = (PLAIN.get(from_name(name)) for name in (info.key, info.value))
    key, value = (
        schema.field(what).type if what in schema.names else kind for what, kind in zip(PARTS, known, strict=True)
    )
    return TopicSchema(key, value)


def in_sparks_words(info: TopicInfo) -> str:
    """The schema as Spark described it; empty where it did not."""
    described: bytes = (schema_of_topic(info).metadata or {}).get(_SPARK, b"")
    return described.decode()


def new_topic(name: str, partitions: int, key: Serde, value: Serde) -> TopicInfo:
    """Return the description of a new topic for keys and values of these types."""
    kinds = {what: serde.kind for what, serde in zip(PARTS, (key, value), strict=True) if isinstance(serde, RowSerde)}
    names = [from_name(serde.name).name if isinstance(serde, RowSerde) else serde.name for serde in (key, value)]
    return TopicInfo(name, partitions, names[0], names[1], schema=packed(pa.schema(list(kinds.items()))))


def serdes_of(info: TopicInfo) -> tuple[Serde, Serde]:
    """The types of a topic's keys and values; with its schema, those of the columns that they were."""
    schema = schema_of_topic(info)
    key, value = (
        serde_of_column(from_name(name), schema.field(what).type) if what in schema.names else from_name(name)
        for what, name in zip(PARTS, (info.key, info.value), strict=True)
    )
    return key, value


def other_kind(info: TopicInfo, what: str, serde: Serde) -> tuple[Any, Any] | None:
    """Return the present and the new type of a topic's keys or values, if rows of the new schema do not belong into the
    topic; None if they do. The order of columns does not matter."""
    schema = schema_of_topic(info)
    if not isinstance(serde, RowSerde | ColumnSerde) or what not in schema.names:
        return None
    held = schema.field(what).type
    return None if _in_order(held) == _in_order(serde.kind) else (held, serde.kind)


def check_schema(info: TopicInfo, new: TopicInfo, method: str) -> None:
    """Raise ``ConfigError``, with both, when columns are to be written into a topic of other columns."""
    held, other = schema_of_topic(info), schema_of_topic(new)
    for what in (one for one in PARTS if one in held.names and one in other.names):
        before, now = held.field(what).type, other.field(what).type
        if _in_order(before) != _in_order(now):
            raise ConfigError(
                f"{method}: topic {info.name!r} has {what}s of the schema {before}, and these have {now}. Convert the "
                "columns to those of the topic (cast, select), or write into another topic"
            )


def _in_order(kind: Any) -> Any:
    """The type with its columns by name: JSON has names, and no order."""
    return pa.struct(sorted(kind, key=lambda field: field.name)) if pa.types.is_struct(kind) else kind
