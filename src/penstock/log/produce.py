"""Records into a topic from Python: from rows, or from Arrow and numpy columns.

All records of one call become visible at once, or none of them when one does not fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, null_mask, nulls
from penstock.arrays import partitions as partitions_of
from penstock.columns import from_arrow
from penstock.errors import ConfigError, TopicExistsError
from penstock.log.base import Log, Records, SegmentWriter, TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.open import open_log
from penstock.log.rows import BATCH_BYTES, BATCH_ROWS, Row, now, records_of
from penstock.serdes import BYTES, FLOAT, INT, JSON, STR, Serde, fits, from_name, of
from penstock.times import parsed


def produce(
    rows: Iterable[Row],
    topic: str,
    key: Any = None,
    value: Any = None,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
) -> int:
    """Write rows of Python values into a topic.

    Records are placed by Kafka's partitioner, those without a key in all partitions in turn.

    Args:
        rows: ``(key, value)``, ``(key, value, timestamp)`` or a :class:`penstock.Record` each. The timestamp is in
            milliseconds, a ``datetime`` or text in ISO 8601, None for now; headers are pairs of a name and bytes,
            or None.
        topic: the topic; it is made when it does not exist.
        key: the type of the keys, as in ``builder.stream``; by default the topic's, ``str`` for a new topic.
        value: the type of the values; by default the topic's, JSON for a new topic.
        log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`; by default the one of the settings.
        partitions: how many partitions a new topic gets, one by default; a topic that exists must have as many.

    Returns:
        How many records were written.

    Raises:
        SerdeError: a key or a value does not fit its type; nothing was written.
        ConfigError: a row has another form, or the topic holds other types.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> produce([("JFK", {"delay": 5}, 1000), ("LGA", {"delay": 2}, 2000)], "departures", log=folder)
    2
    >>> from penstock import consume
    >>> [(record.key, record.value) for record in consume("departures", log=folder)]
    [('JFK', {'delay': 5}), ('LGA', {'delay': 2})]
    """
    log = open_log(log)
    check_partitions(log, topic, partitions)
    keys, values = topic_types(log, topic, key, value)
    records = records_of(rows, topic, keys, values)
    return append(log, TopicInfo(topic, partitions or 1, keys.name, values.name), records)


def produce_columns(
    columns: Any,
    topic: str,
    key: str | None = None,
    value: str | None = None,
    timestamp: str | None = None,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
) -> int:
    """Write a table, a row a record, into a topic; the order of the rows is kept in each partition.

    Whole numbers, floats, text and bytes become ``int``, ``float``, ``str`` and ``bytes``, anything else JSON. A topic
    that is made gets these types.

    Args:
        columns: a dict of numpy or Arrow arrays, an Arrow table, or any object that Arrow can read (a DataFrame of
            pandas or polars, a DuckDB relation).
        topic: the topic; it is made when it does not exist.
        key: the column with the keys; none by default.
        value: the column with the values; by default all columns, as one JSON object.
        timestamp: the column with the times (timestamps, dates, text in ISO 8601, or whole milliseconds; UTC where no
            zone is given); now by default.
        log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`; by default the one of the settings.
        partitions: how many partitions a new topic gets, one by default; a topic that exists must have as many.

    Returns:
        How many records were written.

    Raises:
        ConfigError: a column does not exist or has the wrong type, or the topic holds other types.
        SerdeError: a key or a value does not fit the topic's type; nothing was written.

    >>> import tempfile
    >>> table = {"airport": ["JFK", "LGA"], "delay": np.array([5, 2])}
    >>> produce_columns(table, "departures", key="airport", value="delay", log=tempfile.mkdtemp())
    2
    """
    log = open_log(log)
    check_partitions(log, topic, partitions)
    reader = _reader(columns)
    chosen = Chosen("produce_columns", key, value, timestamp)
    keys, values = chosen.types(reader.schema)
    topic_types(log, topic, keys, values)
    batches = (chosen.encode(piece) for batch in reader for piece in _small(batch))
    return append(log, TopicInfo(topic, partitions or 1, keys.name, values.name), batches)


def topic_types(log: Log, topic: str, key: Any = None, value: Any = None) -> tuple[Serde, Serde]:
    """The types of a topic's keys and values: those given, else the topic's own, else ``str`` and JSON.

    A topic of bytes takes any type, and bytes go into any topic as they are.

    Raises:
        ConfigError: the topic holds something else than what was given.
    """
    given = {"key": None if key is None else of(key, "key"), "value": None if value is None else of(value, "value")}
    if not log.keeps_types or not log.exists(topic):
        return given["key"] or STR, given["value"] or JSON
    info = log.topic(topic)
    for what, serde in given.items():
        held = getattr(info, what)
        if serde is not None and not fits(held, serde):
            raise ConfigError(
                f"topic {topic!r} holds {what}s of type {held}, not {serde.name}; convert the {what}s "
                "or write into another topic"
            )
    return given["key"] or from_name(info.key), given["value"] or from_name(info.value)


def check_partitions(log: Log, topic: str, wanted: int | None) -> None:
    """Raise ``ConfigError`` when a topic exists with another number of partitions than was asked for."""
    if wanted is None:
        return
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise ConfigError(f"topic {topic!r}: a topic has at least 1 partition, got partitions={wanted!r}")
    if log.exists(topic) and (held := log.topic(topic).partitions) != wanted:
        raise ConfigError(
            f"topic {topic!r} exists with {held} partition{'s'[: held != 1]}, not {wanted}: the number is fixed when a "
            "topic is made. Leave partitions= out, or write into another topic"
        )


def append(log: Log, new: TopicInfo, batches: Iterable[Records]) -> int:
    """Write encoded records to the partitions they belong to and make all visible at once; how many there were.

    The topic is made as ``new`` says when it does not exist.
    """
    batches = iter(batches)
    first = list(islice(batches, 1))  # what is wrong with records mostly shows here, before the topic is made
    info = existing_or_new(log, new)
    total, turn = 0, sum(log.end_offsets(info.name))
    with log.writer(info.name, f"produce-{os.urandom(8).hex()}") as writer:
        for batch in chain(first, batches):
            turn += write_batch(writer, info, batch, turn)
            total += len(batch)
    if total:
        log.append(info.name, writer.segments())
    return total


def existing_or_new(log: Log, new: TopicInfo) -> TopicInfo:
    """What a topic is, made as ``new`` says when it does not exist."""
    if not log.exists(new.name):
        try:
            log.create_topic(new)
        except TopicExistsError:  # another producer was faster
            pass
    return log.topic(new.name)


def write_batch(writer: SegmentWriter, info: TopicInfo, batch: Records, turn: int) -> int:
    """Write a batch, those without a key from partition ``turn`` on; how many those were."""
    without_key = null_mask(batch.key)
    in_turn = turn if without_key is None else turn + np.cumsum(without_key) - 1
    routing = from_name(info.key).routing(batch.key)
    placed = partitions_of(routing, info.partitions, in_turn)
    for partition in np.flatnonzero(np.bincount(placed, minlength=info.partitions)).tolist():
        rows = np.flatnonzero(placed == partition)
        some = pa.array(rows)
        headers = None if batch.headers is None else batch.headers.take(some)
        writer.write(partition, batch.key.take(some), batch.value.take(some), batch.timestamp[rows], headers, True)
    return 0 if without_key is None else int(without_key.sum())


# --- columns ------------------------------------------------------------------------------------------------------

_ARROW_TYPES = {INT.name: pa.int64(), FLOAT.name: pa.float64(), STR.name: pa.string(), BYTES.name: pa.binary()}


def _reader(columns: Any) -> Any:
    """A table, whatever it is, as a reader of record batches."""
    if isinstance(columns, Mapping):
        columns = pa.table(dict(columns))
    elif isinstance(columns, pa.RecordBatch):
        columns = pa.Table.from_batches([columns])
    if not hasattr(columns, "__arrow_c_stream__"):
        raise ConfigError(
            "produce_columns takes a dict of arrays, an Arrow table or an object that Arrow can read; "
            f"got {type(columns).__name__}"
        )
    return pa.RecordBatchReader.from_stream(columns)


def _small(batch: Any) -> Iterator[Any]:
    """A record batch in pieces of at most ``BATCH_ROWS`` rows and about ``BATCH_BYTES``."""
    if batch.num_rows > BATCH_ROWS or (batch.num_rows > 1 and batch.nbytes > BATCH_BYTES):
        half = min(batch.num_rows // 2, BATCH_ROWS)
        yield from _small(batch.slice(0, half))
        yield from _small(batch.slice(half))
    else:
        yield batch


def _serde_of(kind: Any) -> Serde:
    """How values of an Arrow type are written."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return INT
    if pa.types.is_floating(kind):
        return FLOAT
    if _is_text(kind):
        return STR
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return BYTES if is_bytes else JSON


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


class Chosen(NamedTuple):
    """Which columns of a table are the keys, the values and the times of records, and who asks."""

    method: str
    key: str | None
    value: str | None
    timestamp: str | None

    def types(self, schema: Any) -> tuple[Serde, Serde]:
        """The types of the keys and of the values.

        Raises:
            ConfigError: a column does not exist, or the one with the times holds none.
        """
        for name in (self.key, self.value, self.timestamp):
            if name is not None and name not in schema.names:
                known = ", ".join(schema.names)
                raise ConfigError(f"{self.method}: there is no column {name!r}; the columns are {known}")
        if self.timestamp is not None and not _holds_times(kind := schema.field(self.timestamp).type):
            raise ConfigError(f"{self._times_must_be()} {kind}")
        return (
            BYTES if self.key is None else _serde_of(schema.field(self.key).type),
            JSON if self.value is None else _serde_of(schema.field(self.value).type),
        )

    def encode(self, batch: Any) -> Records:
        """A record batch of the table as records."""
        keys = nulls(batch.num_rows) if self.key is None else self._column(batch, self.key)
        values = (
            JSON.encode_all(_plain_values(batch, batch.schema))
            if self.value is None
            else self._column(batch, self.value)
        )
        return Records(-1, keys, values, self._times(batch))

    def _column(self, batch: Any, name: str) -> Binary:
        values = batch.column(name)
        serde = _serde_of(values.type)
        if serde is JSON:
            return JSON.encode_all(_plain_values(values, values.type))
        try:
            return from_arrow(values.cast(_ARROW_TYPES[serde.name]), serde).encoded()
        except pa.ArrowInvalid as error:
            raise ConfigError(f"{self.method}: column {name!r} does not fit the type {serde.name}: {error}") from None

    def _times(self, batch: Any) -> IntArray:
        """Timestamps in milliseconds, now where there is none."""
        if self.timestamp is None:
            return np.full(batch.num_rows, now())
        times = batch.column(self.timestamp)
        times = self._parsed(times.to_pylist()) if _is_text(times.type) else _as_milliseconds(times)
        result: IntArray = times.fill_null(now()).to_numpy(zero_copy_only=False).astype(np.int64)
        if result.size and result.min() < 0:
            raise ConfigError(
                f"{self.method}: column {self.timestamp!r} holds {result.min()}; a timestamp is not before 1970"
            )
        return result

    def _parsed(self, texts: list[str | None]) -> Any:
        times = [None if text is None else parsed(text) for text in texts]
        for text, time_ in zip(texts, times, strict=True):
            if text is not None and time_ is None:
                raise ConfigError(f"{self._times_must_be()} {text!r}, which is no time in ISO 8601")
        return pa.array(times, pa.int64())

    def _times_must_be(self) -> str:
        return (
            f"{self.method}: the column {self.timestamp!r} with the times must hold timestamps or whole milliseconds; "
            "it holds"
        )


def _plain_values(data: Any, kind: Any) -> list[Any]:
    """Values of Arrow as Python's, maps as dicts."""
    values: list[Any] = data.to_pylist(maps_as_pydicts="lossy") if "map<" in str(kind) else data.to_pylist()
    return values


def _holds_times(kind: Any) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind) or _is_text(kind)


def _as_milliseconds(times: Any) -> Any:
    """Times that are no text as an Arrow array of whole milliseconds; what says no zone is UTC."""
    if pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", tz=times.type.tz), safe=False)
    return times.cast(pa.int64(), safe=False)
