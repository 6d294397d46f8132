"""The result of a batch: output topics and stores as DataFrames, and the records that were left out."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.engine.batch.outbox import COLUMNS
from penstock.engine.batch.planning import Plan
from penstock.engine.batch.program import TopicTypes
from penstock.engine.batch.rows import OUTPUT, STORE, unpacked
from penstock.engine.spark.frame_types import arrow_schema, read_schema
from penstock.errors import ConfigError
from penstock.figures.losses import Loss, losses_of, together
from penstock.figures.metrics import Metric, add_up, readable
from penstock.messages import nearest, show
from penstock.query.commits import shapes_of
from penstock.query.stores import view_of
from penstock.query.versions import Live


class BatchResult:
    """The results of ``run_batch``. Spark keeps the results on its executors, in memory and on disk, until ``close`` is
    called or the ``with`` block ends.

    >>> def sold(spark, topology, orders):
    ...     with topology.run_batch(spark, {"orders": orders}, stores=["sold"]) as result:
    ...         result.dataframe("sold").show()
    ...         return result.store("sold").toArrow(), result.losses
    """

    commit: int | None = None
    """The number of the commit that the batch is of its application; None where it is none's."""
    records = 0
    """How many records and rows were read, where it is a commit of an application."""
    is_repeated = False
    """Whether a batch of this name counted already in the application, so that nothing was done."""

    def __init__(self, plan: Plan, stages: dict[int, Any], figures: Iterable[dict[str, Any]], stores: set[str]):
        self._plan, self._topology = plan, plan.topology
        self._stages = stages
        self._kept = stores
        self._metrics: dict[str, int] = {}
        self._topics = dict.fromkeys(self._topology.sink_topics)
        for told in figures:
            add_up(self._metrics, told["metrics"])
            self._topics |= dict.fromkeys(told["topics"])

    @property
    def topics(self) -> list[str]:
        """The output topics."""
        return list(self._topics)

    @property
    def stores(self) -> list[str]:
        """The stores whose rows were kept."""
        return sorted(self._kept)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The counts of records that were left out: late, expired, dropped by Kafka's rules, skipped, or dead
        letters."""
        return together(losses_of(self._metrics).values())

    @property
    def metrics(self) -> dict[Metric, float]:
        """All metrics, under Kafka's names."""
        return readable(self._metrics)

    def dataframe(self, topic: str, columns: Iterable[str] | None = None) -> Any:
        """The records of an output topic.

        Its columns are key and value, with the types of the topic if Spark has them, then timestamp, partition and
        headers. To get the order of the topic, sort by the columns task and number.

        Args:
            columns: the columns that you need; by default all of them. This costs less than dropping columns
                afterwards, because Penstock never brings the others into Spark's rows.

        Raises:
            ConfigError: the topology does not write it, or there is no such column.
        """
        if topic not in self._topics:
            there = ", ".join(self._topics) or "none"
            raise ConfigError(f"no topic {topic!r} was written{nearest(topic, self.topics)}; these were: {there}")
        key, value = TopicTypes(self._topology, self._plan.program.settings.dead_letters).of(topic)
        kind = StructType([*read_schema({"key": key, "value": value}), *from_arrow_schema(pa.schema(COLUMNS))])
        chosen = StructType([kind[name] for name in chosen_columns(columns, kind.names)])
        return self._blocks(OUTPUT, topic, chosen, self._plan.writers(topic))

    def store(self, name: str) -> Any:
        """Return the rows of a store at the end of the batch, with the columns of ``to_arrow()``.

        Raises:
            ConfigError: there is no such store, or its rows were not kept.
        """
        if name not in self._kept:
            shapes = shapes_of(self._topology)
            why = "its rows were not kept: name it in stores=" if name in shapes else "there is no such store"
            kept = ", ".join(self.stores) or "none"
            raise ConfigError(f"store {name!r}: {why}{nearest(name, self.stores)}; these were kept: {kept}")
        shape = shapes_of(self._topology)[name]
        keepers = [sub.id for sub in self._plan.subs if name in self._plan.stores_of(sub)]
        kind = from_arrow_schema(view_of(Live({}), shape).to_arrow().schema)
        return self._blocks(STORE, name, kind, keepers)

    def close(self) -> None:
        """Release the results on Spark."""
        for stage in self._stages.values():
            stage.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        topics, stores = (", ".join(names) or "none" for names in (self._topics, self.stores))
        return f"<results of a batch: topics {topics}; stores {stores}>"

    def _blocks(self, what: int, name: str, kind: Any, subs: list[int]) -> Any:
        """Return the output of some stages, as columns. For topics chosen record by record, all stages are searched."""
        types = arrow_schema(kind)
        stages = list(dict.fromkeys(self._stages[id_] for id_ in subs or self._stages))
        found = [stage.where((f.col("what") == what) & (f.col("name") == name)).select("block") for stage in stages]

        def unpack(rows: Iterator[Any]) -> Iterator[Any]:
            return unpacked(rows, types)

        with quiet():
            return reduce(lambda one, other: one.union(other), found).mapInArrow(unpack, kind)


def chosen_columns(columns: Iterable[str] | None, there: Sequence[str]) -> list[str]:
    """Return the columns of a result that are asked for.

    Raises:
        ConfigError: there is no such column, or none is asked for.
    """
    if columns is None:
        return list(there)
    names = [columns] if isinstance(columns, str) or not isinstance(columns, Iterable) else list(columns)
    for name in names:
        if name not in there:
            guess = nearest(str(name), there)
            raise ConfigError(f"columns: there is no column {show(name)}{guess}; the columns are {', '.join(there)}")
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"columns takes some of {', '.join(there)}, each once; got {show(names)}")
    return names


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress PySpark's warning about pandas versions: pandas is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        yield


def told_in(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the metrics in rows that have some."""
    return [json.loads(bytes(row["block"])) for row in rows]
