"""A topic into a table: appended by Spark's own sinks, or merged by key, each micro-batch once.

Spark records the range of a micro-batch in the query's progress before the batch is written, so a repeated batch has
the same records. The target makes it count once. Delta and Iceberg keep the query and the number of the batch. Parquet
lists its files in ``_spark_metadata``. A database keeps the number in a table beside the target (``jdbc.py``). A merge
of the newest values of keys gives the same rows when it is repeated.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as f

from penstock.engine.children.query import Query
from penstock.engine.children.table_columns import DELETED, TableColumns
from penstock.engine.shared.children import Child
from penstock.engine.spark.checkpoints import query_of_this_batch
from penstock.engine.spark.dataframes import FORMAT, make_known
from penstock.errors import ConfigError
from penstock.faults import crash_point
from penstock.plan.dataframes import TableTarget
from penstock.serdes import Serde

_FILES = ("parquet", "orc", "csv", "json", "text", "avro", "hive")

_TRANSACTION = "spark.databricks.delta.write."


class SinkQuery(Query):
    """Appends the records of a topic to a table, as Spark's sink for it does.

    Args:
        log: the option of ``format("penstock")`` that says where the topic is.
    """

    def __init__(
        self, application_id: str, target: TableTarget, topic: str, types: tuple[Serde, Serde], log: str, place: str
    ):
        super().__init__(
            application_id, Child(name=target.name, topic=topic, table=target.shown), place, target.trigger_ms
        )
        self._target = target
        self._log = log
        self._columns = TableColumns.of(*types, target)

    def check(self, session: Any) -> None:
        """Raise ``ConfigError`` when the table is there and lacks columns, or does not support the request."""
        there = self._table(session)
        if there is None:
            return
        known = {name.lower() for name in there.columns}
        missing = [name for name in self._columns.names if name.lower() not in known]
        if missing and self._target.options.get("mergeSchema", "false") != "true":
            raise self._refused(
                f"the table has no column {missing[0]!r}; it has {', '.join(there.columns)}. Add the column, or name "
                "what goes there with key=, value= and timestamp="
            )

    def _table(self, session: Any) -> Any:
        """The table, or None if it does not exist yet."""
        target = self._target
        if target.table is not None:
            return session.table(target.table) if session.catalog.tableExists(target.table) else None
        try:
            return session.read.format(target.format).options(**target.options).load(target.path)
        except Exception:  # whatever the format says of a table that is not there; writing tells of all else
            return None

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"to_spark_table at {self._target.where}: table {self.child.table}: {why}")

    def _raw(self, session: Any) -> Any:
        """The records of the topic as they come."""
        make_known(session)
        options = {"topic": self.child.topic, "log": self._log}
        return session.readStream.format(FORMAT).options(**options).load()

    def _writer(self, session: Any) -> Any:
        rows = self._columns.decoded(self._raw(session))
        writer = rows.writeStream.outputMode("append").options(**self._target.options)
        return writer if self._target.format is None else writer.format(self._target.format)

    def _start(self, writer: Any) -> Any:
        target = self._target
        return writer.toTable(target.table) if target.table is not None else writer.start(target.path)


class BatchedSink(SinkQuery):
    """Takes each micro-batch in this process."""

    def _writer(self, session: Any) -> Any:
        self._session = session
        return self._raw(session).writeStream.foreachBatch(self._take)

    def _start(self, writer: Any) -> Any:
        return writer.start()

    def _take(self, frame: Any, number: int) -> None:
        with self._at_work():
            crash_point("before-table")
            self._put(self._rows(frame), str(query_of_this_batch(frame)), number)
            crash_point("after-table")

    def _rows(self, frame: Any) -> Any:
        """The rows of a micro-batch; for an upsert the newest of each key."""
        if self._columns.is_upsert:
            newest = f.max_by(f.struct("value", "timestamp"), "offset").alias("newest")
            frame = frame.where(f.col("key").isNotNull()).groupBy("key").agg(newest).select("key", "newest.*")
        return self._columns.decoded(frame)

    def _put(self, rows: Any, query: str, number: int) -> None:
        raise NotImplementedError


class MergingSink(BatchedSink):
    """Merges the newest value of each key into a table, and removes the rows of deleted keys."""

    def check(self, session: Any) -> None:
        super().check(session)
        if self._table(session) is None:
            self._create(session)
        provider = self._provider(session)
        if provider in _FILES:
            raise self._refused(
                f"it is of {provider}, whose rows cannot be changed, so there is no upsert into it. Use a table of "
                "Delta or Iceberg, a database, or append the changes: to_stream().to_spark_table(...)"
            )

    def _create(self, session: Any) -> None:
        """Make the table, without rows."""
        target = self._target
        if target.format is None and "." not in str(target.table):
            raise self._refused('it does not exist. Make it first, or say what to make: format="delta"')
        empty = session.createDataFrame([], self._columns.schema).drop(DELETED)
        writer = empty.write.options(**target.options).mode("ignore")
        writer = writer if target.format is None else writer.format(target.format)
        if target.table is None:
            writer.save(target.path)
        else:
            writer.saveAsTable(target.table)

    @property
    def _name(self) -> str:
        """The table as SQL names it."""
        target = self._target
        return target.table if target.table is not None else f"{target.format}.`{target.path}`"

    def _provider(self, session: Any) -> str:
        if self._target.table is None:
            return str(self._target.format)
        told = session.sql(f"DESCRIBE TABLE EXTENDED {self._name}").where("col_name = 'Provider'").collect()
        return str(told[0]["data_type"]).lower() if told else ""

    def _put(self, rows: Any, query: str, number: int) -> None:
        session = rows.sparkSession
        view = f"penstock_{query.replace('-', '_')}"
        rows.createOrReplaceTempView(view)
        try:  # Delta keeps both with the merge, and leaves one out that it has
            session.conf.set(f"{_TRANSACTION}txnAppId", f"penstock-{query}")
            session.conf.set(f"{_TRANSACTION}txnVersion", str(number))
            session.sql(self._merge(view))
        finally:
            session.catalog.dropTempView(view)
        if self._target.table is not None:  # this is a session of the query's own, with a catalog of its own
            self._session.catalog.refreshTable(self._target.table)

    def _merge(self, view: str) -> str:
        columns = self._columns
        same = " AND ".join(f"t.{name} <=> s.{name}" for name in map(quoted, columns.keys.names))
        others = [quoted(name) for name in columns.names if name not in columns.keys.names]
        every = [quoted(name) for name in columns.names]
        return (
            f"MERGE INTO {self._name} t USING {view} s ON {same} WHEN MATCHED AND s.{DELETED} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in others)} "
            f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({', '.join(every)}) "
            f"VALUES ({', '.join(f's.{name}' for name in every)})"
        )


def quoted(name: str) -> str:
    """A column as Spark's SQL names it."""
    return "`{}`".format(name.replace("`", "``"))
