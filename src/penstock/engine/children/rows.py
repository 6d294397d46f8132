"""The rows of a DataFrame as records: their columns, their order, and the rows of a change feed.

A micro-batch has no order: Spark cuts its input as it likes. Rows are taken by their times, or as ``order`` says, those
of one partition of the topic by one task of Spark; so nothing is late because of how Spark has cut its input. Of a
change feed the rows of a key follow each other as the table changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from penstock.engine.batch import exchange
from penstock.engine.batch.arguments import Source
from penstock.engine.batch.frames import partition_of, quoted, sortable, whole
from penstock.engine.spark.frame_types import written_schema
from penstock.log.base import TopicInfo
from penstock.log.schema import serdes_of
from penstock.log.tables import Chosen
from penstock.plan.dataframes import CHANGE, CHANGE_COLUMNS, FrameSource
from penstock.serdes import Serde, from_name
from penstock.serdes.row import RowSerde

PARTITION = "__partition"

_DELETE, _BEFORE = "delete", "update_preimage"
_KINDS = ("insert", "update_postimage", _DELETE, _BEFORE)


@dataclass(frozen=True)
class Rows:
    """How rows of a DataFrame become records.

    Attributes:
        method: the calling method, for messages.
        schema: the columns key, value, timestamp and headers, those that there are, as Arrow has them.
        chosen: which of them is what.
        words: the columns key and value in Spark's own words.
    """

    method: str
    source: FrameSource
    schema: Any
    chosen: Chosen
    words: str

    @classmethod
    def of(cls, method: str, source: FrameSource) -> Rows:
        """How the rows of a DataFrame become records.

        Raises:
            ConfigError: a column has a wrong type, or a topic cannot keep it.
        """
        columns = _columns(source.frame, source)
        named = [*source.keys, source.value, source.timestamp, source.headers]
        used = [name for name in named if name is not None] if source.value else list(source.frame.columns)
        own = written_schema(source.frame.schema, used)  # names the user's own columns in what it refuses
        Chosen(method, source.key, source.value, source.timestamp, source.timestamp_unit, source.headers).types(own)
        names = list(columns)
        found = source.frame.select(*_aliased(columns)).schema
        schema = written_schema(found, names)
        words = StructType([field for field in found if field.name in ("key", "value")]).json()
        key, timestamp, headers = (name if name in names else None for name in ("key", "timestamp", "headers"))
        chosen = Chosen(method, key, "value", timestamp, source.timestamp_unit, headers)
        return cls(method, source, schema, chosen, words)

    @cached_property
    def types(self) -> tuple[Serde, Serde]:
        """The types of keys and values: rows are dicts with Python's own types."""
        info = self.topic(self.source.name, 1)
        keys, values = serdes_of(info)
        return (
            keys if isinstance(keys, RowSerde) else from_name(info.key),
            values if isinstance(values, RowSerde) else from_name(info.value),
        )

    def topic(self, name: str, partitions: int) -> TopicInfo:
        """Return the description of a new topic for the rows."""
        return self.chosen.topic(name, partitions, self.schema, self.words)

    @property
    def has_order(self) -> bool:
        """Whether the rows of a micro-batch have one."""
        is_feed = CHANGE in self.source.frame.columns
        return is_feed or self.source.timestamp is not None or self.source.order != (None, None)

    def ordered(self, frame: Any, partitions: int) -> Any:
        """The rows of a micro-batch with the columns of the schema and ``PARTITION``, those of one partition together
        and in order.

        Args:
            partitions: how many the topic has.
        """
        partition, offset = self.source.order
        of = self._of_batch(frame)
        where = partition_of(of, partitions) if partition is None else whole(of, partition, partitions).cast("int")
        order = [whole(of, offset)] if offset is not None else []
        if CHANGE in frame.columns:
            frame = _without_befores(frame, self.method)
            order = order or [quoted(name) for name in CHANGE_COLUMNS[1:2] if name in frame.columns]
            order.append(f.when(quoted(CHANGE) == _DELETE, 0).otherwise(1))
        if self.source.timestamp is not None:
            order.append(quoted(self.source.timestamp))
        fields = {field.name: field.dataType for field in frame.schema}
        order += [sortable(quoted(name), fields[name]) for name in self._used(frame)]
        columns = _aliased(_columns(frame, self.source))
        placed = frame.withColumn(PARTITION, where)
        if self.has_order:
            placed = exchange.moved(placed, partitions, PARTITION).sortWithinPartitions(*order)
        return placed.select(PARTITION, *columns)

    def _used(self, frame: Any) -> list[str]:
        """The columns that tell rows apart whose times are the same: the key first."""
        source = self.source
        names = _plain(frame) if source.value is None else [source.value, *filter(None, [source.headers])]
        return [*source.keys, *(name for name in names if name not in source.keys)]

    def _of_batch(self, frame: Any) -> Source:
        """Return the batch engine's description of such a DataFrame, whose rows it places in the same way."""
        source, used = self.source, self._used(frame)
        chosen = Chosen(self.method, source.key, source.value, source.timestamp, source.timestamp_unit, source.headers)
        return Source(source.name, frame, chosen, written_schema(frame.schema, used), source.order[1], source.order[0])


def _plain(frame: Any) -> list[str]:
    """The columns of the rows themselves."""
    is_feed = CHANGE in frame.columns
    return [name for name in frame.columns if not (is_feed and name in CHANGE_COLUMNS)]


def _columns(frame: Any, source: FrameSource) -> dict[str, Any]:
    """The columns of records by their names; a whole row is a struct called value."""
    found = {}
    if isinstance(source.key, tuple):
        found["key"] = f.struct(*map(quoted, source.key))
    elif source.key is not None:
        found["key"] = quoted(source.key)
    row = [quoted(name) for name in _plain(frame) if name != source.headers]
    value = f.struct(*row) if source.value is None else quoted(source.value)
    if CHANGE in frame.columns:
        value = f.when(quoted(CHANGE) != _DELETE, value)
    found["value"] = value
    if source.timestamp is not None:
        found["timestamp"] = quoted(source.timestamp)
    if source.headers is not None:
        found["headers"] = quoted(source.headers)
    return found


def _aliased(columns: dict[str, Any]) -> list[Any]:
    return [column.alias(name) for name, column in columns.items()]


def _without_befores(frame: Any, method: str) -> Any:
    """The changes without the rows that were there before; raises for kinds that nobody knows."""
    said = f"penstock.errors.ConfigError: {method}: {CHANGE} is one of {', '.join(_KINDS)}; a row has "
    kind = quoted(CHANGE)
    strange = f.raise_error(f.concat(f.lit(said), f.coalesce(kind, f.lit("nothing"))))
    known = f.when(kind.isin(*_KINDS), kind != _BEFORE).otherwise(strange.cast("boolean"))
    return frame.where(known)
