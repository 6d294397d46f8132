"""Checks the arguments of ``run_batch``, topic by topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from penstock.engine.batch.names import BatchName
from penstock.engine.spark.frame_types import written_schema
from penstock.errors import ConfigError
from penstock.log.produce import key_columns
from penstock.log.tables import Chosen
from penstock.messages import nearest, show
from penstock.plan.dataframes import FrameSource
from penstock.plan.names import check_application_id
from penstock.plan.node import Node
from penstock.plan.topology import Topology
from penstock.values.times import unit_named

Named = Mapping[str, str] | str | None
"""A column of each topic's DataFrame; one name for all."""

Keys = Mapping[str, str | Sequence[str]] | str | Sequence[str] | None
"""A column of each topic's DataFrame, or several that are a key together."""

Order = Mapping[str, str | Sequence[str]] | str | Sequence[str] | None

_LONGEST_NAME = 200

_IN_ORDER = (spark.IntegralType, spark.DecimalType, spark.TimestampType, spark.TimestampNTZType, spark.DateType)
"""Types that can order rows: text would sort by letters, and NaN has no place."""


@dataclass(frozen=True)
class Source:
    """A DataFrame in place of a topic.

    Attributes:
        chosen: the columns of keys, values and times.
        schema: the columns that are used, as Arrow types.
        offset: the column that orders rows by arrival; None to order them by time.
        partition: the column with the partition in which they arrived; None to derive it from the key.
    """

    topic: str
    frame: Any
    chosen: Chosen
    schema: Any
    offset: str | None = None
    partition: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that the keys are made of."""
        return self.chosen.keys

    @property
    def used(self) -> list[str]:
        """The columns that become keys and values."""
        return list(self.schema.names)


@dataclass(frozen=True)
class Columns:
    """The roles of DataFrames' columns, by topic or for all; see ``Topology.run_batch``."""

    key: Keys = None
    value: Named = None
    timestamp: Named = None
    order: Order = None
    timestamp_unit: Named = None
    headers: Named = None

    def check(self, method: str, topics: Collection[str]) -> None:
        """Raise ``ConfigError`` for values that cannot name columns of DataFrames for these topics."""
        for name, given in vars(self).items():
            by_topic = given if isinstance(given, Mapping) else {}
            for topic in by_topic:
                if topic not in topics:
                    raise ConfigError(
                        f"{method}: {name} names topic {topic!r}, for which there is no DataFrame"
                        f"{nearest(str(topic), list(topics))}; there are some for {', '.join(topics) or 'none'}"
                    )
            for one in by_topic.values() if isinstance(given, Mapping) else [given]:
                if name == "order":
                    _order(method, one)
                elif name == "key":
                    key_columns(one, method)
                elif name == "timestamp_unit":
                    unit_named(one, f"{method}: timestamp_unit")
                elif one is not None and not isinstance(one, str):
                    raise ConfigError(f"{method}: {name} is the name of a column; got {show(one)}")

    def completed(self, steps: Mapping[str, Node], topics: Collection[str]) -> Columns:
        """These, and what steps that take DataFrames in say of the columns of theirs.

        Args:
            steps: by the topics of their DataFrames.
            topics: those for which there is a DataFrame.
        """
        found = dict(vars(self))
        for topic, step in steps.items():
            if topic not in topics or not isinstance(step.outside, FrameSource):
                continue
            said = step.outside
            more = {name: getattr(said, name) for name in ("key", "value", "timestamp", "timestamp_unit", "headers")}
            partition, offset = said.order
            more["order"] = (partition, offset) if partition is not None else offset
            for name, column in more.items():
                if column is not None and (found[name] is None or isinstance(found[name], Mapping)):
                    found[name] = {topic: column} | dict(found[name] or {})
        return Columns(**found)

    def renamed(self, names: Mapping[str, str]) -> Columns:
        """The same where topics have other names."""

        def of(given: Any) -> Any:
            return {names.get(t, t): one for t, one in given.items()} if isinstance(given, Mapping) else given

        return Columns(**{name: of(given) for name, given in vars(self).items()})


def check_partitions(method: str, partitions: Any) -> None:
    """Raise ``ConfigError`` for a value that is no number of partitions."""
    if partitions is not None and (not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1):
        raise ConfigError(f"{method}: partitions is a number from 1 on; got {show(partitions)}")


def check_topic(method: str, topology: Topology, topic: Any) -> None:
    """Raise ``ConfigError`` for a topic that no DataFrame can replace."""
    if topic not in topology.source_topics or topic in topology.sink_topics:
        reads = [name for name in topology.source_topics if name not in topology.sink_topics]
        why = "writes itself" if topic in topology.sink_topics else "does not read"
        raise ConfigError(
            f"{method}: there is a DataFrame for topic {topic!r}, which the topology {why}"
            f"{nearest(str(topic), reads)}; it reads these topics: {', '.join(reads)}"
        )


def check_application(
    application_id: Any, batch: Any, seed: Any, then: Any, frames: Mapping[str, Any], stores: Any
) -> BatchName | None:
    """Return the name of the batch, if it belongs to an application.

    Raises:
        ConfigError: the arguments that name the application contradict each other.
    """
    for given in (application_id, seed):
        if given is not None:
            check_application_id(given)
    if application_id is not None and seed is not None:
        raise ConfigError(
            "run_batch takes application_id= to make the next commit of an application, or seed= to make the state "
            "that it "
            "begins with; got both"
        )
    if then is not None and seed is None:
        raise ConfigError(
            "run_batch: then= says where a live program continues after a seed; give seed=, its application id"
        )
    if application_id is None:
        if batch is not None:
            raise ConfigError(
                f"run_batch: batch={show(batch)} names a batch of an application, so that its rows count once; name "
                "the application, too: application_id="
            )
        return None
    if stores is not None:
        raise ConfigError(
            "run_batch: stores= is only for batches without application_id=. The stores of an application stay in its "
            'checkpoint: read them with result.store(name) or spark.read.format("penstock-state")'
        )
    if frames and batch is None:
        raise ConfigError(
            "run_batch: schedulers repeat jobs, so rows of DataFrames need a name under which they count once: "
            'batch="2026-11-25T09"'
        )
    if isinstance(batch, BatchName | None):
        return batch
    if not isinstance(batch, str) or not batch.strip() or len(batch) > _LONGEST_NAME:
        raise ConfigError(
            f"run_batch: batch is a name for the rows of this batch, a text of 1 to {_LONGEST_NAME} characters; got "
            f"{show(batch)}"
        )
    return BatchName(batch)


def check_frames(frames: Any) -> None:
    """Raise ``ConfigError`` for DataFrames that are not given by topic."""
    if not isinstance(frames, Mapping):
        raise ConfigError(
            f"run_batch takes a dict of a DataFrame for each topic; got {show(frames)} of type {type(frames).__name__}"
        )


def sources_of(topology: Topology, frames: Mapping[str, Any], columns: Columns) -> dict[str, Source]:
    """Return the DataFrames, each with the roles of its columns.

    Raises:
        ConfigError: the topology does not read a topic, a column does not exist or has a wrong type, or a value is no
            DataFrame that can be read as a batch.
    """
    for topic, frame in frames.items():
        _check_frame(topology, topic, frame)
    given = vars(columns)
    return {
        topic: _source(topic, frame, {name: _of(given[name], topic) for name in given})
        for topic, frame in frames.items()
    }


def _of(given: Any, topic: str) -> Any:
    return given.get(topic) if isinstance(given, Mapping) else given


def _check_frame(topology: Topology, topic: str, frame: Any) -> None:
    check_topic("run_batch", topology, topic)
    if not hasattr(frame, "isStreaming"):
        raise ConfigError(
            f"run_batch: topic {topic!r}: it takes a DataFrame of Spark; got {show(frame)} of type "
            f"{type(frame).__name__}. spark.createDataFrame makes one of rows, of pandas and of Arrow tables"
        )
    if frame.isStreaming:
        raise ConfigError(
            f"run_batch: topic {topic!r}: a streaming DataFrame has no end. Read the same data with spark.read, or "
            "bring it into a topic (penstock.write) and start the topology (topology.start)"
        )


def _source(topic: str, frame: Any, named: dict[str, Any]) -> Source:
    method = f"run_batch: topic {topic!r}"
    value, unit = named["value"], named["timestamp_unit"]
    chosen = Chosen(method, key_columns(named["key"], method), value, named["timestamp"], unit, named["headers"])
    partition, offset = _order(method, named["order"])
    columns = [("key", name) for name in chosen.keys]
    columns += [(what, named[what]) for what in ("value", "timestamp", "headers")]
    for what, name in [*columns, ("order", partition), ("order", offset)]:
        _check_column(method, what, name, frame.columns)
    _check_type(method, frame, partition, spark.IntegralType, "a partition is a whole number. Convert it (cast('int'))")
    _check_type(method, frame, offset, _IN_ORDER, "take whole numbers or times. Convert it (cast('bigint'))")
    used = frame.columns if value is None else chosen.names()
    schema = written_schema(frame.schema, used := list(dict.fromkeys(used)))
    chosen.types(_fields(schema, used))
    kept = used if value is None else [name for name in used if name in (*chosen.keys, value, chosen.headers)]
    return Source(topic, frame, chosen, _fields(schema, kept), offset, partition)


def _check_column(method: str, what: str, name: Any, columns: list[str]) -> None:
    if name is not None and name not in columns:
        raise ConfigError(
            f"{method}: {what} names column {show(name)}, which the DataFrame does not have"
            f"{nearest(str(name), columns)}; its columns are {', '.join(columns)}"
        )


def _check_type(method: str, frame: Any, name: str | None, kinds: Any, way_out: str) -> None:
    if name is not None and not isinstance(kind := frame.schema[name].dataType, kinds):
        raise ConfigError(f"{method}: order: column {name!r} is of type {kind.simpleString()}; {way_out}")


def _fields(schema: Any, names: Sequence[str]) -> Any:
    return pa.schema([schema.field(name) for name in names])


def _order(method: str, given: Any) -> tuple[str | None, str | None]:
    """Return the columns of the partition and of the offset in it."""
    if given is None or isinstance(given, str):
        return None, given
    if isinstance(given, Sequence) and len(given) == 2 and all(isinstance(name, str) for name in given):
        return given[0], given[1]
    raise ConfigError(
        f"{method}: order is the column that says in which order rows arrived, or two: (partition, offset); got "
        f"{show(given)}"
    )
