"""Messages that a consumer returns at once, as columns, with ends of partitions and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message

from penstock.arrays import binary
from penstock.columns.batch import HEADERS
from penstock.log.records import Records

Pairs = list[tuple[str, bytes | None]]
"""The headers of a message."""


class Taken(NamedTuple):
    """The messages and events of one read."""

    records: Records | None
    ends: list[int]
    """Offsets at which the cluster reported the present end."""
    errors: list[KafkaError]


def taken_of(messages: Iterable[Message | None]) -> Taken:
    """Convert messages of one partition that librdkafka's own client returned one by one."""
    found: list[Message] = []
    ends: list[int] = []
    errors: list[KafkaError] = []
    for message in messages:
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ends.append(message.offset())
        else:
            errors.append(error)
    return Taken(_records(found) if found else None, ends, errors)


def _records(messages: list[Message]) -> Records:
    offsets = np.array([message.offset() for message in messages], np.int64)
    return Records(
        int(offsets[0]),
        binary([message.key() for message in messages]),
        binary([message.value() for message in messages]),
        np.array([message.timestamp()[1] for message in messages], np.int64),
        headers_of([message.headers() for message in messages]),
        offsets=offsets,
    )


def headers_of(every: list[Pairs | None]) -> Any:
    """Return the column of headers; None if no message has any."""
    if not any(every):
        return None
    return pa.array([[{"key": k, "value": v} for k, v in pairs] if pairs else None for pairs in every], HEADERS)
