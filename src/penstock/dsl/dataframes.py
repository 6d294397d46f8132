"""DataFrames in place of topics, and tables in place of output topics: what is said of them, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.dsl.graph import Handle
from penstock.errors import TopologyError
from penstock.messages import nearest, show
from penstock.plan import names, nodes
from penstock.plan.dataframes import APPEND, CHANGE, MODES, UPSERT, FrameSource, TableTarget
from penstock.plan.functions import caller, check_topic
from penstock.plan.names import check_name
from penstock.serdes import Serde, of
from penstock.values.durations import Duration, to_ms
from penstock.values.times import unit_named

_FILES = ("parquet", "orc", "csv", "json", "text", "avro")
"""Formats of plain files, whose rows nobody can change."""

_TRIGGER_MS = 1_000
_JDBC = "jdbc"


class Taken(NamedTuple):
    """The input of a source: a topic, or a DataFrame, whose types are known."""

    topic: Any
    key: Any
    value: Any
    timestamp: Any
    timestamp_unit: str | None
    frame: FrameSource | None = None


def taken(
    method: str,
    topic: Any,
    key: Any,
    value: Any,
    timestamp: Any,
    timestamp_unit: str | None,
    name: str | None,
    order: str | Sequence[str] | None,
    partitions: int | None,
    trigger: Duration | None,
    headers: str | None,
    **others: Any,
) -> Taken:
    """Return the input of a source: a topic, or a DataFrame in place of the topic.

    Args:
        others: arguments that only topics have.

    Raises:
        TopologyError: an argument does not fit the input, or the DataFrame cannot be read as a stream.
        ConfigError: a column is missing or has the wrong type, or a topic cannot keep it.
    """
    if not hasattr(topic, "isStreaming"):
        of_frames = {"order": order, "partitions": partitions, "trigger": trigger, "headers": headers}
        for what, given in of_frames.items():
            if given is not None:
                raise TopologyError(
                    f"{method} at {caller()}: {what}= is for a streaming DataFrame; got {what}={show(given)} and topic "
                    f"{show(topic)}. Leave it out"
                )
        return Taken(topic, key, value, timestamp, timestamp_unit)
    _check_stream(method, topic, others)
    keys = tuple(key) if isinstance(key, list | tuple) else key
    _check_columns(method, topic, keys, value, timestamp, headers)
    frame = FrameSource(
        name=_named(method, name),
        key=keys,
        value=value if isinstance(value, str) else None,
        timestamp=timestamp,
        timestamp_unit=timestamp_unit,
        headers=headers,
        order=_order(method, order, topic.columns),
        partitions=_partitions(method, partitions),
        trigger_ms=None if trigger is None else to_ms(trigger, f"{method}: trigger"),
        frame=topic,
    )
    unit_named(timestamp_unit, f"{method}: timestamp_unit")
    key_type, values = _types_of(method, frame)
    if value is not None and not isinstance(value, str):
        values = of(value, "value")
    return Taken(frame.name, key_type, values, None, None, frame)


def _check_stream(method: str, frame: Any, others: Mapping[str, Any]) -> None:
    """Raise ``TopologyError`` for a DataFrame with an end, or with arguments that only topics have."""
    for what, given in others.items():
        if given is not None:
            raise TopologyError(
                f"{method} at {caller()}: {what}= is for topics; a DataFrame says itself where it begins, and its "
                f"columns are named by key=, value= and timestamp=. Leave {what}= out"
            )
    if not frame.isStreaming:
        raise TopologyError(
            f"{method} at {caller()}: this DataFrame is not a stream. Read it with spark.readStream; a DataFrame with "
            "an end goes into a topic (penstock.write), or in place of one into topology.run_batch"
        )


def _check_columns(method: str, frame: Any, key: Any, value: Any, timestamp: Any, headers: Any) -> None:
    """Raise ``TopologyError`` for columns that the DataFrame does not have, or a key that is missing.

    Args:
        key: the column of the keys, or a tuple of several.
    """
    if isinstance(key, tuple) and (not key or len(set(map(str, key))) < len(key)):
        raise TopologyError(
            f'{method} at {caller()}: key= is the name of a column, or several: key=["shop", "day"]; got '
            f"{show(list(key))}"
        )
    columns = [("key", column) for column in (key if isinstance(key, tuple) else [key])]
    columns += [("timestamp", timestamp), ("headers", headers)]
    columns += [("value", value)] if isinstance(value, str) else []
    for what, column in columns:
        if column is not None and (not isinstance(column, str) or column not in frame.columns):
            hint = nearest(column, frame.columns) if isinstance(column, str) else ""
            raise TopologyError(
                f"{method} at {caller()}: {what}= is the name of a column of the DataFrame; got {show(column)}{hint}. "
                f"Its columns are {', '.join(frame.columns)}"
            )
    if key is None and (method == "table" or CHANGE in frame.columns):
        why = "a table has keys" if method == "table" else f"the changes in {CHANGE} are those of a key"
        raise TopologyError(f"{method} at {caller()}: {why}; name their column: key=")


def _types_of(method: str, frame: FrameSource) -> tuple[Serde, Serde]:
    from penstock.engine.children.rows import Rows

    return Rows.of(f"{method} at {caller()}", frame).types


def frame_of(spark: Any, topic: str, log: Any, key: Serde, value: Serde) -> Any:
    """The records of a topic as a streaming DataFrame, with keys and values of their types."""
    from penstock.engine.children.frames import frame_of

    return frame_of(spark, topic, log, key, value)


def _named(method: str, name: str | None) -> str:
    if name is None:
        raise TopologyError(
            f'{method} at {caller()}: a DataFrame needs a name, such as name="orders". Its topic and its progress '
            "are kept under it, so it must stay the same when the program changes"
        )
    return check_name(name)


def _partitions(method: str, given: int | None) -> int | None:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise TopologyError(f"{method} at {caller()}: partitions is a number from 1 on; got {show(given)}")
    return given


def _order(method: str, given: Any, columns: Sequence[str]) -> tuple[str | None, str | None]:
    names_ = [given] if isinstance(given, str) else list(given or ())
    if len(names_) > 2 or any(name not in columns for name in names_):
        raise TopologyError(
            f"{method} at {caller()}: order is the column that says in which order rows arrived, or two: (partition, "
            f"offset); got {show(given)}. The columns are {', '.join(columns)}"
        )
    partition, offset = ([None] * (2 - len(names_)) + names_) if names_ else (None, None)
    return partition, offset


class Asked(NamedTuple):
    """The arguments for a table that gets results, see ``KStream.to_spark_table``."""

    table: Any
    mode: Any
    path: Any
    format: Any
    key: Any
    value: Any
    timestamp: Any
    name: Any
    trigger: Duration | None
    options: Mapping[str, Any] | None


def add_table_sink(handle: Handle, method: str, asked: Asked, modes: Mapping[str, str]) -> None:
    """Add the sink whose records go into a table.

    Args:
        modes: the modes that the step does not have, each with the way out.

    Raises:
        TopologyError: the target does not support the request, or arguments contradict each other.
    """
    named = _checked(method, asked, modes)
    check_topic(named, f"the name of {method}")
    target = TableTarget(
        name=named,
        table=asked.table,
        path=None if asked.path is None else str(asked.path),
        format=asked.format,
        mode=asked.mode,
        key=asked.key,
        value=asked.value,
        timestamp=asked.timestamp,
        trigger_ms=_TRIGGER_MS if asked.trigger is None else to_ms(asked.trigger, f"{method}: trigger"),
        where=caller(),
        options={str(name): str(text) for name, text in (asked.options or {}).items()},
    )
    sink = nodes.Sink(
        name=handle.graph.names.node(names.SINK),
        parents=(handle.node,),
        where=caller(),
        topic=named,
        key=handle.key,
        value=handle.value,
        outside=target,
    )
    handle.graph.add(sink)


def _checked(method: str, asked: Asked, modes: Mapping[str, str]) -> str:
    """The name of the topic before a table; raises ``TopologyError`` for what cannot be meant."""
    table, mode, path, format, key, value, timestamp, name, _, options = asked
    at = f"{method} at {caller()}"
    if mode not in MODES:
        raise TopologyError(f"{at}: mode is one of {', '.join(MODES)}; got {show(mode)}")
    if mode in modes:
        raise TopologyError(f"{at}: mode={mode!r} {modes[mode]}")
    if (table is None) == (path is None):
        raise TopologyError(f"{at}: say the table's name, or path=; got table={show(table)} and path={show(path)}")
    for what, text in {"the table": table, "path": path, "format": format, "key": key, "timestamp": timestamp}.items():
        if text is not None and (not str(text).strip() or not (isinstance(text, str) or what == "path")):
            raise TopologyError(f"{at}: {what} is a text; got {show(text)}")
    if not isinstance(value, str) or not value:
        raise TopologyError(f"{at}: value is the name of the column for the values; got {show(value)}")
    if mode == UPSERT and format is not None and format.lower() in _FILES:
        raise TopologyError(
            f'{at}: rows of {format} files cannot be changed, so there is no upsert into them. Use format="delta" or '
            '"iceberg", a database (format="jdbc"), or append the changes: to_stream().to_spark_table(...)'
        )
    if mode == UPSERT and key is None:
        raise TopologyError(f"{at}: an upsert finds its rows by the key; name the column of the key with key=")
    if path is not None and format is None:
        raise TopologyError(f'{at}: say what is at path=: format="delta" or "parquet"')
    if format == _JDBC and (table is None or "url" not in (options or {})):
        raise TopologyError(
            f'{at}: a table of a database is given by its name and options={{"url": "jdbc:..."}}; got '
            f"table={show(table)} and the options {', '.join(options or ()) or 'none'}"
        )
    return check_name(name) if name is not None else _name_from(at, table)


def _name_from(at: str, table: str | None) -> str:
    try:
        return check_name(table or "")
    except TopologyError:
        raise TopologyError(
            f'{at}: give this table a name that a topic can bear, such as name="totals": the results are kept under '
            "it on their way, so it must stay the same when the program changes"
        ) from None


STREAM_MODES = {
    UPSERT: "is for tables, whose records are the newest value of a key. Say stream.to_table() first, or append",
}
"""Modes that a stream does not have, and the way out."""

TABLE_MODES = {
    APPEND: "is for streams: the records of a table are changes. Say to_stream() first to append each of them",
}
"""Modes that a table does not have, and the way out."""
