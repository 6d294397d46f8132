"""Records on their way through a test driver: from rows to columns, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import IntArray
from penstock.columns.batch import HEADERS, NO_RECORD, Batch, Changes, Origins, header_list, pairs_of, why_no_headers
from penstock.columns.column import BytesColumn, Column
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.ops.core.failures import Origin
from penstock.plan.node import Node
from penstock.query.plain import decoded
from penstock.record import Record, as_row
from penstock.serdes import Serde
from penstock.testing.piped import piped
from penstock.values.times import to_timestamp


@dataclass(frozen=True)
class Given:
    """The records of a topic that are being processed, by position."""

    topic: str
    offset: int
    """The offset of the first."""
    key: Column | None = None
    value: Column | None = None
    times: Sequence[int] = ()
    partition: int = 0
    headers: Any = None
    """In the form of a batch."""

    def origin(self, position: int) -> Origin:
        """Return where the record at a position came from."""
        if self.key is None or self.value is None or position == NO_RECORD:
            return Origin(self.topic, self.partition, -1, None, None, -1)
        key, value = self.key.encoded()[position].as_py(), self.value.encoded()[position].as_py()
        own = () if self.headers is None else pairs_of(self.headers[position].as_py())
        return Origin(self.topic, self.partition, self.offset + position, key, value, self.times[position], own)

    def origins(self, positions: IntArray, names: Mapping[str, str]) -> Origins:
        """Return where the records at some positions came from, with the topics' names in Kafka."""
        is_one = positions != NO_RECORD
        topic = pc.if_else(pa.array(is_one), names.get(self.topic, self.topic), pa.scalar(None, pa.string()))
        return Origins(topic, np.where(is_one, self.partition, -1), np.where(is_one, self.offset + positions, -1))


def checked_row(topic: str, row: Any) -> tuple[Any, ...]:
    """Return a row of a valid form.

    Raises:
        ConfigError: its form is invalid.
    """
    given = as_row(row)
    if given is None:
        raise ConfigError(
            f"topic {topic!r}: a row is (key, value), (key, value, timestamp), (key, value, timestamp, headers) or a "
            f"Record; got {row!r}"
        )
    return given


def listed(given: Any, what: str) -> Iterable[Any]:
    """Return the items to be piped in one after the other; raises ``ConfigError`` for a single one."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(f"{what} takes a list; got {show(given)} of type {type(given).__name__}")
    return given


def checked_headers(headers: Any) -> Any:
    """Return a record's headers as given to a driver; raises ``ConfigError`` if they are invalid."""
    if why := why_no_headers(headers):
        raise ConfigError(f"a record that is piped in: {why}")
    return headers


def batch_of(rows: list[tuple[Any, ...]], key: Serde, value: Serde) -> Batch:
    """Return rows as columns; raises ``PenstockError`` when one does not fit."""
    headers = [header_list(checked_headers(row[3])) if len(row) > 3 else None for row in rows]
    return Batch(
        BytesColumn(key.encode_all([row[0] for row in rows]), key),
        BytesColumn(value.encode_all([row[1] for row in rows]), value),
        np.array([to_timestamp(row[2]) if len(row) > 2 else 0 for row in rows], np.int64),
        (np.arange(len(rows)),),
        pa.array(headers, HEADERS) if any(headers) else None,
    )


def as_input(sent: Batch, source: Node) -> Batch:
    """Return records sent to a repartition topic as read from there."""
    key_type, value_type = source.types
    key, value = BytesColumn(sent.key.encoded(), key_type), BytesColumn(sent.value.encoded(), value_type)
    order = (np.arange(len(sent)),)
    old = old_of(sent, value_type)
    if old is not None:
        return Changes(key, value, sent.timestamp, order, sent.headers, old=old)
    return Batch(key, value, sent.timestamp, order, sent.headers)


def old_of(sent: Batch, serde: Serde) -> Column | None:
    """Return the previous values as read from a repartition topic."""
    return BytesColumn(sent.old.encoded(), serde) if isinstance(sent, Changes) and sent.old is not None else None


def as_read(column: Column) -> list[Any]:
    """Return written values as read from a topic, out of their bytes; undecodable ones stay bytes."""
    return decoded(column.serde, column.encoded())


def places(batch: Batch) -> Iterable[tuple[int, ...]]:
    """Return the places of all rows in processing order."""
    columns = [repeat(one) if isinstance(one, int) else one.tolist() for one in batch.order]
    return islice(zip(*columns), len(batch))


def records_of(batch: Batch) -> Iterable[Record]:
    """Return the records as they are read from their topic."""
    headers = [()] * len(batch) if batch.headers is None else list(map(pairs_of, batch.headers.to_pylist()))
    return map(Record, as_read(batch.key), as_read(batch.value), batch.timestamp.tolist(), headers)


def column_of(value: Any, serde: Serde, what: str, topic: str) -> Column:
    """Return one value as a column of a topic."""
    return BytesColumn(piped(value, serde, what, topic), serde)


def headers_of(headers: Iterable[tuple[str, bytes]]) -> Any:
    """Return the headers of one record as a column."""
    pairs = header_list(checked_headers(headers))
    return pa.array([pairs], HEADERS) if pairs else None


def header_pairs(headers: Any) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of one record in the users' form."""
    return () if headers is None else pairs_of(headers[0].as_py())


def place_of(batch: Batch, row: int) -> tuple[int, ...]:
    """Return the place of one row in processing order."""
    return tuple(column if isinstance(column, int) else int(column[row]) for column in batch.order)
