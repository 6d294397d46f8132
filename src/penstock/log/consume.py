"""Reads the decoded records of a topic in Python programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from heapq import merge
from pathlib import Path
from typing import Any, overload

import numpy as np

from penstock.arrays import Binary
from penstock.errors import ConfigError, SerdeError
from penstock.log.base import Log
from penstock.log.cluster import Kafka
from penstock.log.consumed import Consumed, check_form, columns_of
from penstock.log.open import opened
from penstock.log.records import Records
from penstock.log.schema import serdes_of
from penstock.messages import describe, partitions_to
from penstock.record import ConsumerRecord
from penstock.serdes import Serde, of
from penstock.usage.signatures import telling
from penstock.values.topic_names import check_topic_name

Decode = Callable[[Serde, Binary], list[Any]]
Range = tuple[int, int]
"""The first offset, and the offset after the last record."""


@overload
def consume(
    topic: str,
    key: Any = None,
    value: Any = None,
    log: Log | Kafka | Path | str | None = None,
    partition: int | None = None,
    start: int | None = None,
    as_: None = None,
) -> Iterator[ConsumerRecord]: ...


@overload
def consume(
    topic: str,
    key: Any = None,
    value: Any = None,
    log: Log | Kafka | Path | str | None = None,
    partition: int | None = None,
    start: int | None = None,
    *,
    as_: str,
) -> Iterator[Any]: ...


@telling
def consume(
    topic: str,
    key: Any = None,
    value: Any = None,
    log: Log | Kafka | Path | str | None = None,
    partition: int | None = None,
    start: int | None = None,
    as_: str | None = None,
) -> Iterator[Any]:
    """Return the records that a topic has now.

    Records of one partition keep their order. Of several partitions, the one with the oldest next record comes first,
    as in a task that reads several partitions.

    Args:
        topic: the topic.
        key: the type of the keys, as in ``builder.stream``; by default the one the topic was made with.
        value: the type of the values; by default the one the topic was made with.
        log: the log: a folder, ``"kafka://host:9092"`` or :class:`penstock.Kafka`; by default that of the settings.
        partition: only this partition.
        start: only from this offset on.
        as_: ``"arrow"``, ``"pandas"`` or ``"polars"``: columns instead of records, in batches of up to 32,768 rows or
            32 MB, partition after partition. The columns are ``key``, ``value``, ``timestamp``, ``partition``,
            ``offset`` and ``headers``. JSON is a struct if its type names the fields, otherwise text.

    Raises:
        TopicNotFoundError: the topic does not exist.
        ConfigError: the partition does not exist, or the library for ``as_`` is not installed.
        OffsetOutOfRangeError: retention has removed the records from ``start`` on.
        SerdeError: a record does not fit its type; the message names the record.

    >>> import tempfile
    >>> from penstock import produce
    >>> folder = tempfile.mkdtemp()
    >>> produce([("JFK", 5, 1000)], "delays", value=int, log=folder)
    1
    >>> next(consume("delays", log=folder))[:3]
    ('JFK', 5, 1000)
    >>> next(consume("delays", log=folder, as_="arrow")).column("value").to_pylist()
    [5]
    """
    if as_ is not None:
        check_form(as_)
    check_topic_name(topic)
    for name, number in (("partition", partition), ("start", start)):
        if number is not None and (type(number) is not int or number < 0):
            raise ConfigError(f"{name} of consume must be a number, 0 or more; got {number!r}")
    with ExitStack() as stack:
        topics = stack.enter_context(opened(log))
        ranges, info = _meant(topics, topic, partition, start), topics.topic(topic)
        own = serdes_of(info)
        types = own[0] if key is None else of(key, "key"), own[1] if value is None else of(value, "value")
        behind = stack.pop_all()
    found: Iterator[Any] = (
        records_of(topics, topic, ranges, *types)
        if as_ is None
        else columns_of(topics, topic, ranges, *types, form=as_)
    )

    def every() -> Iterator[Any]:
        with behind:
            yield from found

    def first() -> Iterator[dict[str, Any]]:
        with opened(log) as beside:
            yield from (record._asdict() for record in records_of(beside, topic, ranges, *types))

    return Consumed(every(), (topic, sum(end - begin for begin, end in ranges.values())), first)


def _meant(log: Log, topic: str, partition: int | None, start: int | None) -> dict[int, Range]:
    """Return the requested offsets, by partition. Raise ``ConfigError`` if the partition does not exist."""
    every = ranges_of(log, topic)
    if partition is not None and partition not in every:
        raise ConfigError(f"topic {topic!r} has no partition {partition}; {partitions_to(len(every))}")
    found = every if partition is None else {partition: every[partition]}
    return found if start is None else {p: (start, max(start, end)) for p, (_, end) in found.items()}


def ranges_of(log: Log, topic: str) -> dict[int, Range]:
    """Return the offsets of the present records, by partition."""
    return dict(enumerate(zip(log.start_offsets(topic), log.end_offsets(topic), strict=True)))


def records_of(
    log: Log, topic: str, ranges: Mapping[int, Range], key: Serde, value: Serde, decode: Decode = Serde.decode_all
) -> Iterator[ConsumerRecord]:
    """Yield the records of some partitions, the oldest next record first."""

    def partition(number: int) -> Iterator[tuple[int, ConsumerRecord]]:
        newest = -1
        for records in log.read(topic, number, *ranges[number]):
            times = np.maximum.accumulate(np.maximum(records.timestamp, newest)).tolist()
            yield from zip(times, _decoded(records, topic, number, key, value, decode))
            newest = times[-1]

    for _, record in merge(*(partition(number) for number in ranges), key=lambda item: item[0]):
        yield record


def _decoded(
    records: Records, topic: str, partition: int, key: Serde, value: Serde, decode: Decode
) -> Iterator[ConsumerRecord]:
    keys = _decode_column(decode, key, records, records.key, f"topic {topic!r}, partition {partition}")
    values = _decode_column(decode, value, records, records.value, f"topic {topic!r}, partition {partition}")
    rows = zip(keys, values, records.timestamp.tolist(), headers_of(records), strict=True)
    offsets = records.offsets.tolist()
    for offset, (key_, value_, timestamp, headers) in zip(offsets, rows, strict=True):
        yield ConsumerRecord(key_, value_, timestamp, headers, topic=topic, partition=partition, offset=offset)


def _decode_column(decode: Decode, serde: Serde, records: Records, data: Binary, where: str) -> list[Any]:
    try:
        return decode(serde, data)
    except Exception:
        for row in range(len(data)):
            try:
                decode(serde, data.slice(row, 1))
            except Exception as error:
                raise SerdeError(
                    f"{where}, offset {records.offsets[row]}: {describe(error)}. Give the types "
                    "with key= and value=; bytes takes all"
                ) from error
        raise


def headers_of(records: Records) -> list[tuple[tuple[str, bytes], ...]]:
    """Return the headers of each record."""
    if records.headers is None:
        return [()] * len(records)
    return [tuple((pair["key"], pair["value"]) for pair in pairs or ()) for pairs in records.headers.to_pylist()]
