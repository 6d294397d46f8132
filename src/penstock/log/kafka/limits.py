"""Checks records against a topic's limits as a broker does (Kafka's ``LogValidator`` and ``UnifiedLog``).

A commit is final before its transaction begins. So records that a broker would refuse must be found before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, is_missing, spans
from penstock.errors import RefusedRecordError
from penstock.log.records import Records

FOREVER = 2**63 - 1
USUAL_REQUEST_BYTES = 104_857_600
_REQUEST_FRAME = 1_024
"""Most bytes of a produce request around its batch: names of the topic, the client and the transaction."""
_BATCH_BYTES = 61
"""Bytes of a batch before its first record."""
_MOST_FRAME = _BATCH_BYTES + 32
"""Most bytes of a record without headers beyond its key and value, alone in its batch."""
_MOST_VARINT = 5
"""Most bytes of the number of a record's headers."""
_MOST_OF_PAIR = 2 * _MOST_VARINT
"""Most bytes of a header beyond its name and value."""
_MORE_THAN_CLIENTS = 32
"""How much larger, at least, a broker calculates a record alone in its batch than librdkafka does."""
_SHOWN = 40


class Limits(NamedTuple):
    """The limits of a topic."""

    bytes: int = 1_048_588
    """Of a batch, and so of a record."""
    before_ms: int = FOREVER
    after_ms: int = 3_600_000
    """How far a record's time may be before and after the present."""
    wants_keys: bool = False
    """Whether it is compacted, so that each record needs a key."""
    bytes_by: str = "max.message.bytes of the topic"
    """The option that sets ``bytes``."""


def limits_of(config: Mapping[str, str], request_bytes: int, client_bytes: int = FOREVER) -> Limits:
    """Return the limits of a topic with this configuration, on a broker with this limit of requests.

    Args:
        client_bytes: the largest record that librdkafka takes (``message.max.bytes``).

    >>> limits_of({"cleanup.policy": "compact,delete", "segment.bytes": "1000000"}, 10**9).wants_keys
    True
    >>> limits_of({"segment.bytes": "1000000"}, 10**9)[::4]
    (1000000, 'segment.bytes of the topic')
    """
    usual = Limits()
    largest, by = min(
        (int(config.get("max.message.bytes", usual.bytes)), usual.bytes_by),
        (int(config.get("segment.bytes", FOREVER)), "segment.bytes of the topic"),
        (client_bytes + _MORE_THAN_CLIENTS, "message.max.bytes of the options"),
        (request_bytes - _REQUEST_FRAME, "socket.request.max.bytes of the broker"),
    )
    wants_keys = "compact" in config.get("cleanup.policy", "").split(",")
    if config.get("message.timestamp.type") == "LogAppendTime":
        return Limits(largest, FOREVER, FOREVER, wants_keys, by)
    before = int(config.get("message.timestamp.before.max.ms", usual.before_ms))
    after = int(config.get("message.timestamp.after.max.ms", usual.after_ms))
    return Limits(largest, before, after, wants_keys, by)


def refused(topic: str, records: Records, limits: Limits, now: int) -> dict[int, RefusedRecordError]:
    """Return the rows that a topic refuses, and why.

    Args:
        now: the wall clock in ms.
    """
    found = {row: _error(topic, records, row, *why) for row, why in _reasons(records, limits, now)}
    return dict(sorted(found.items()))


def _reasons(records: Records, limits: Limits, now: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the refused rows, each with the problem and the way out."""
    time = records.timestamp
    for row in _rows(time < now - limits.before_ms):
        option = "message.timestamp.before.max.ms"
        yield row, (f"it has the time {time[row]}, which is long ago ({option} of the topic)", f"change {option}")
    for row in _rows(time - now > limits.after_ms):
        option = "message.timestamp.after.max.ms"
        yield row, (f"it has the time {time[row]}, which is in the future ({option} of the topic)", f"change {option}")
    for row, size in _too_large(records, limits.bytes):
        by = limits.bytes_by
        yield row, (f"it has {size} bytes and the topic takes at most {limits.bytes} ({by})", f"change {by}")
    for row in _rows(is_missing(records.key)) if limits.wants_keys and records.key.null_count else ():
        way_out = "give the records keys (select_key), leave those without one out (filter)"
        yield row, ("it has no key, and the topic is compacted (cleanup.policy of the topic)", way_out)


def _rows(mask: BoolArray) -> list[int]:
    return [int(row) for row in np.flatnonzero(mask)]


def _error(topic: str, records: Records, row: int, what: str, way_out: str) -> RefusedRecordError:
    key = records.key[row].as_py()
    shown = None if key is None else key[:_SHOWN]
    error = RefusedRecordError(f"topic {topic!r} does not take the record with key {shown!r}: {what}")
    error.way_out = f"{way_out}, or write into another topic"
    return error


# --- sizes -----------------------------------------------------------------------------------------------------------


def _too_large(records: Records, most: int) -> Iterator[tuple[int, int]]:
    """Yield the rows that are too large, and their sizes."""
    at_most = records.sizes() + _MOST_FRAME + (0 if records.headers is None else _most_of_headers(records.headers))
    if not len(at_most) or int(at_most.max()) <= most:
        return
    keys, values = _lengths(records.key), _lengths(records.value)
    for row in _rows(at_most > most):
        headers = None if records.headers is None else records.headers[row].as_py()
        pairs = [(len(one["key"].encode()), _length(one["value"])) for one in headers or ()]
        size = batch_bytes(int(keys[row]), int(values[row]), pairs)
        if size > most:
            yield row, size


def _most_of_headers(headers: Any) -> IntArray:
    """Return the most bytes that the headers of each record can take."""
    counts = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    names, values = headers.flatten().flatten()
    so_far = np.concatenate([[0], np.cumsum(spans(names).length + spans(values).length + _MOST_OF_PAIR)])
    ends = np.cumsum(counts)
    return np.asarray(so_far[ends] - so_far[ends - counts] + _MOST_VARINT)


def _lengths(column: Binary) -> IntArray:
    return np.where(is_missing(column), -1, spans(column).length)


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def batch_bytes(key: int, value: int, headers: list[tuple[int, int]]) -> int:
    """Return the size of a batch of one record in Kafka, given the lengths of its parts; -1 for null.

    >>> batch_bytes(2, 9926, [])
    10000
    >>> batch_bytes(-1, -1, [(1, 2), (1, -1)])
    76
    """
    parts = sum(map(_framed, (key, value, *(length for pair in headers for length in pair))))
    record = 3 + _varint(len(headers)) + parts  # attributes, and two distances from the batch's first record: 0
    return _BATCH_BYTES + _varint(record) + record


def _framed(length: int) -> int:
    return _varint(length) + max(length, 0)


def _varint(number: int) -> int:
    """Return how many bytes a number takes: seven bits in each, the sign in the lowest bit."""
    zigzag = -2 * number - 1 if number < 0 else 2 * number
    return max(-(-zigzag.bit_length() // 7), 1)
