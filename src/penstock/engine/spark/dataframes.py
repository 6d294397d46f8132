"""Topics as Spark DataFrames: ``format("penstock")``, for reading and writing, batch and streaming.

The columns are those of Spark's Kafka source: key, value, topic, partition, offset, timestamp. Keys and values are
bytes, or what the topic has in them.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, DataSourceStreamWriter
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.columns.batch import HEADERS
from penstock.engine.spark import private
from penstock.engine.spark.frame_readers import BatchReader, Columns, StreamReader
from penstock.engine.spark.frame_types import read_schema, written_schema
from penstock.engine.spark.frame_writers import BatchWriter, StreamWriter, Target
from penstock.engine.spark.log_option import Place, place_of
from penstock.engine.spark.read_options import (
    HEADERS_COLUMN,
    READ_OPTIONS,
    ReadOptions,
    check_for_batch,
    check_for_stream,
    check_for_write,
    truth,
)
from penstock.engine.spark.session import work_with_this_python
from penstock.engine.spark.source import OffsetsReader
from penstock.errors import ConfigError
from penstock.log.open import open_log
from penstock.log.produce import check_columns
from penstock.log.schema import in_sparks_words, serdes_of
from penstock.log.tables import Chosen
from penstock.messages import nearest
from penstock.serdes import BYTES, Serde

FORMAT = "penstock"
_OPTIONS = ("topic", "log", "typed", *READ_OPTIONS, "partitions", "timestamp_unit")
_CHECKPOINT = "checkpointlocation"
"""Spark's own option of a streaming query, which it hands on."""
_PLACE = (
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
)


def make_known(spark: Any) -> None:
    """Have a session find ``format("penstock")``, whichever Python it looks for data sources with."""
    if not private.is_classic(spark):
        return
    if private.scala_session_state(spark).dataSourceManager().dataSourceExists(FORMAT):
        return
    work_with_this_python(spark.sparkContext)
    spark.dataSource.register(PenstockSource)


class PenstockSource(DataSource):
    """Options: ``topic``, and ``log`` (a folder or ``kafka://host:port``, by default that of the settings). Reading has
    ``READ_OPTIONS``, and ``typed``: "true" gives keys and values their types, with JSON as text. Writing has
    ``partitions`` of a new topic. docs/dataframes.md has each.

    A batch of a streaming query is in the topic once, however often Spark repeats it: it is known by the query's id and
    its number.
    """

    def __init__(self, options: dict[str, str]):
        super().__init__(options)
        self._place, self._topic = _place_in(options)
        self._asked = ReadOptions.of(options, self._topic)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> Any:
        (key, value), spark = self._types()
        headers = [(HEADERS_COLUMN, HEADERS)] if self._asked.headers else []
        places = from_arrow_schema(pa.schema([*_PLACE, *headers]))
        return StructType([*read_schema({"key": key, "value": value}, spark), *places])

    def reader(self, schema: Any) -> DataSourceReader:
        check_for_batch(self.options, self._asked)
        given = self._place, self._topic, Columns(schema, *self._types()[0]), self._asked
        if not private.plans_with_filters():
            return BatchReader(*given)
        from penstock.engine.spark.pushed_filters import FilteringBatchReader

        return FilteringBatchReader(*given)

    def streamReader(self, schema: Any) -> OffsetsReader:  # noqa: N802
        check_for_stream(self.options)
        return StreamReader(self._place, self._topic, Columns(schema, *self._types()[0]), self._asked)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        check_for_write(self.options)
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        return BatchWriter(self._target(schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        check_for_write(self.options)
        return StreamWriter(self._target(schema))

    def _types(self) -> tuple[tuple[Serde, Serde], str]:
        """The types that keys and values are shown as, and how Spark described them if they came from there."""
        if not truth(self.options, "typed"):
            return (BYTES, BYTES), ""
        with closing(open_log(self._place)) as log:
            if not log.keeps_types:
                raise ConfigError(
                    f'format("penstock"): the topics of {log.url} do not record their types, so the option typed must '
                    "be false: read bytes and cast them (cast, from_json)"
                )
            if not log.exists(self._topic):
                return (BYTES, BYTES), ""
            info = log.topic(self._topic)
            return serdes_of(info), in_sparks_words(info)

    def _partitions(self) -> int:
        given = self.options.get("partitions", "1")
        if not given.strip().isdecimal() or int(given) < 1:
            raise ConfigError(f'format("penstock"): the option partitions is a number from 1 on, got {given!r}')
        return int(given)

    def _target(self, schema: Any) -> Target:
        names = [field.name for field in schema.fields]
        unknown = set(names) - {"key", "value", "timestamp", "headers"}
        if "value" not in names or unknown:
            raise ConfigError(
                f"write: a DataFrame has the column value, and may have key, timestamp and headers; got {names}. "
                "penstock.write(df, topic, key=...) brings any DataFrame into that form"
            )
        key, value, timestamp, headers = (
            name if name in names else None for name in ("key", "value", "timestamp", "headers")
        )
        chosen = Chosen("write", key, value, timestamp, self.options.get("timestamp_unit"), headers)
        types = written_schema(schema, names)
        described = StructType([field for field in schema.fields if field.name in ("key", "value")]).json()
        new = chosen.topic(self._topic, self._partitions(), types, described)
        with closing(open_log(self._place)) as log:
            check_columns(log, new, "write")
            return Target(self._place, new, chosen, types, log.exists(self._topic))


def _place_in(options: dict[str, str]) -> tuple[Place, str]:
    """The log and the topic that options name."""
    for name in options:
        if name.lower() not in (*map(str.lower, _OPTIONS), _CHECKPOINT):
            raise ConfigError(
                f'format("penstock") has no option {name!r}{nearest(name.lower(), _OPTIONS)}; the options are '
                f"{', '.join(_OPTIONS)}"
            )
    if "topic" not in options:
        raise ConfigError('format("penstock") needs .option("topic", name)')
    return place_of(options), options["topic"]
