"""Writes records into a topic from Python: from rows, or from Arrow and numpy columns.

All records of one call become visible at once, or none of them if one does not fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import IntArray, null_mask
from penstock.arrays import partitions as partitions_of
from penstock.errors import ConfigError, TopicExistsError
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.contract.topics import TopicInfo
from penstock.log.contract.writer import SegmentWriter
from penstock.log.open import opened
from penstock.log.records import Records
from penstock.log.rows import Row, records_of
from penstock.log.schema import check_schema, new_topic, other_kind, serdes_of
from penstock.log.tables import Chosen, reader_of, small
from penstock.messages import show
from penstock.serdes import JSON, STR, Serde, fits, from_name, of
from penstock.usage.signatures import telling
from penstock.values.strange_times import SAY_UNIT, tell_of_strange_times
from penstock.values.times import unit_named
from penstock.values.topic_names import check_topic_name


@telling
def produce(
    rows: Iterable[Row],
    topic: str,
    key: Any = None,
    value: Any = None,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
    timestamp_unit: str | None = None,
) -> int:
    """Write rows of Python values into a topic.

    Kafka's partitioner chooses the partition for the key of a record. Records without a key go to all partitions in
    turn.

    Args:
        rows: each is ``(key, value)``, ``(key, value, timestamp)`` or a :class:`penstock.Record`. The timestamp is a
            number of milliseconds, a ``datetime``, text in ISO 8601, or None for the current time. Headers are pairs of
            a name and bytes, or None.
        topic: the topic, which Penstock creates if it does not exist.
        key: the type of the keys, as in ``builder.stream``; by default the topic's, ``str`` for a new topic.
        value: the type of the values; by default the topic's, JSON for a new topic.
        log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`; by default that of the settings.
        partitions: the number of partitions of a new topic, one by default; an existing topic must have this number.
        timestamp_unit: the unit of timestamps that are numbers, from 1970 on: ``"s"``, ``"ms"`` (default), ``"us"`` or
            ``"ns"``; seconds may have a fraction.

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
    check_topic_name(topic)
    given: Any = rows
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"produce takes rows such as [(key, value), (key, value)]; got {rows!r}")
    unit = unit_named(timestamp_unit)
    with opened(log) as topics:
        check_partitions(topics, topic, partitions)
        keys, values = topic_types(topics, topic, key, value)
        records = records_of(rows, topic, keys, values, unit)
        return append(topics, new_topic(topic, partitions or 1, keys, values), records)


@telling
def produce_columns(
    columns: Any,
    topic: str,
    key: str | Sequence[str] | None = None,
    value: str | None = None,
    timestamp: str | None = None,
    log: Log | Kafka | Path | str | None = None,
    partitions: int | None = None,
    timestamp_unit: str | None = None,
    headers: str | None = None,
) -> int:
    """Write each row of a table as a record into a topic. Rows of one partition keep their order.

    Whole numbers, floats, text and bytes become ``int``, ``float``, ``str`` and ``bytes``; everything else becomes
    JSON. Penstock keeps every value exactly, or refuses it (docs/dataframes.md lists the types). A new topic gets these
    types. A pandas index with a name becomes a column; Penstock leaves out row numbers without a name.

    Args:
        columns: a dict of numpy or Arrow arrays, an Arrow table, or any object that Arrow can read (a DataFrame of
            pandas or polars, a DuckDB relation).
        topic: the topic, which Penstock creates if it does not exist.
        key: the column with the keys; none by default.
        value: the column with the values; by default all columns, as one JSON object.
        timestamp: the column with the times (timestamps, dates, text in ISO 8601, or whole milliseconds; UTC without a
            zone), without nulls; by default every record gets the current time.
        log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`; by default that of the settings.
        partitions: the number of partitions of a new topic, one by default; an existing topic must have this number.
        timestamp_unit: the unit of times that are numbers, from 1970 on: ``"s"``, ``"ms"`` (default), ``"us"`` or
            ``"ns"``; except for milliseconds, they may be floats.

    Returns:
        How many records were written.

    Raises:
        ConfigError: a column does not exist or has the wrong type, JSON cannot keep its values, or the topic holds
            other types.
        SerdeError: a key or a value does not fit the topic's type, or JSON cannot say it; nothing was written.

    >>> import tempfile
    >>> table = {"airport": ["JFK", "LGA"], "delay": np.array([5, 2])}
    >>> produce_columns(table, "departures", key="airport", value="delay", log=tempfile.mkdtemp())
    2
    """
    check_topic_name(topic)
    with opened(log) as topics:
        check_partitions(topics, topic, partitions)
        reader = reader_of(columns, "produce_columns")
        keys = key_columns(key, "produce_columns")
        chosen = Chosen("produce_columns", keys, value, timestamp, timestamp_unit, headers)
        new = chosen.topic(topic, partitions or 1, reader.schema)
        check_columns(topics, new, "produce_columns")
        batches = (chosen.encode(piece) for batch in reader for piece in small(batch))
        return append(topics, new, batches)


def key_columns(key: str | Sequence[str] | None, method: str) -> str | tuple[str, ...] | None:
    """Return the column of the keys, or the columns that form a key together; raise ``ConfigError`` for anything
    else."""
    if key is None or isinstance(key, str):
        return key
    is_names = isinstance(key, list | tuple) and all(isinstance(name, str) for name in key)
    if not is_names or not key or len(set(key)) < len(key):
        raise ConfigError(f'{method}: key is the name of a column, or several: ["shop", "day"]; got {show(key)}')
    return tuple(key)


def topic_types(log: Log, topic: str, key: Any = None, value: Any = None) -> tuple[Serde, Serde]:
    """Return the types of a topic's keys and values: those given, else the topic's own, else ``str`` and JSON.

    A topic of bytes takes any type, and bytes go into any topic unchanged.

    Raises:
        ConfigError: the topic holds other types than those given.
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
        if serde is not None and (kinds := other_kind(info, what, serde)):
            raise ConfigError(
                f"topic {topic!r} has {what}s of the schema {kinds[0]}, not {kinds[1]}; convert the {what}s or write "
                "into another topic"
            )
    own = serdes_of(info)
    return given["key"] or own[0], given["value"] or own[1]


def check_columns(log: Log, new: TopicInfo, method: str) -> None:
    """Raise ``ConfigError`` for columns that do not belong into the topic of their name, if it exists."""
    topic_types(log, new.name, from_name(new.key), from_name(new.value))
    if log.keeps_types and log.exists(new.name):
        check_schema(log.topic(new.name), new, method)


def check_partitions(log: Log, topic: str, wanted: int | None) -> None:
    """Raise ``ConfigError`` if a topic exists with another number of partitions than requested."""
    if wanted is None:
        return
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise ConfigError(f"topic {topic!r}: a topic has at least 1 partition, got partitions={wanted!r}")
    if log.exists(topic) and (held := log.topic(topic).partitions) != wanted:
        raise ConfigError(
            f"topic {topic!r} exists with {held} partition{'s'[: held != 1]}, not {wanted}: the number is fixed when a "
            "topic is made. Leave partitions= out, or write into another topic"
        )


BY_KEY = -1
"""A partition number that means Kafka's partitioner chooses."""


class Placed(NamedTuple):
    """Records some of which have a fixed partition; the others have ``BY_KEY``."""

    records: Records
    partitions: IntArray

    def __len__(self) -> int:
        return len(self.records)


def append(log: Log, new: TopicInfo, batches: Iterable[Records | Placed], way_out: str = SAY_UNIT) -> int:
    """Write encoded records to their partitions and make all visible at once. Return their number.

    Args:
        new: the topic to create, if it does not exist.
        way_out: how to give the unit of times, for messages.
    """
    batches = iter(batches)
    first = list(islice(batches, 1))  # faulty records mostly fail here, before the topic is made
    _tell_of_times(new.name, first, way_out)
    info = existing_or_new(log, new)
    total, turn = 0, sum(log.end_offsets(info.name))
    with log.writer(info.name, f"produce-{os.urandom(8).hex()}") as writer:
        for batch in chain(first, batches):
            turn += write_batch(writer, info, batch, turn)
            total += len(batch)
    if total:
        log.append(info.name, writer.segments())
    return total


def _tell_of_times(topic: str, first: list[Records | Placed], way_out: str) -> None:
    for one in first:
        records = one.records if isinstance(one, Placed) else one
        tell_of_strange_times(topic, records.timestamp, way_out)


def existing_or_new(log: Log, new: TopicInfo) -> TopicInfo:
    """Return the description of a topic, created as ``new`` if it does not exist."""
    if not log.exists(new.name):
        try:
            log.create_topic(new)
        except TopicExistsError:  # another producer was faster
            pass
    return log.topic(new.name)


def write_batch(writer: SegmentWriter, info: TopicInfo, batch: Records | Placed, turn: int) -> int:
    """Write a batch. Records without a key go to partitions in turn, from ``turn`` on; return their number."""
    batch, given = batch if isinstance(batch, Placed) else (batch, None)
    without_key = null_mask(batch.key)
    in_turn = turn if without_key is None else turn + np.cumsum(without_key) - 1
    chosen = placed = partitions_of(from_name(info.key).routing(batch.key), info.partitions, in_turn)
    if given is not None:
        placed = np.where(given == BY_KEY, chosen, given)
    for partition in np.flatnonzero(np.bincount(placed, minlength=info.partitions)).tolist():
        rows = np.flatnonzero(placed == partition)
        some = batch.take(rows)
        by_key = given is None or bool((chosen[rows] == partition).all())
        writer.write(partition, some.key, some.value, some.timestamp, some.headers, by_key)
    return 0 if without_key is None else int(without_key.sum())
