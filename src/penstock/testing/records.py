"""Records on their way through a test driver: from rows to columns, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import IntArray
from penstock.batch import HEADERS, NO_RECORD, Batch, Changes, Origins, header_list, pairs_of, why_no_headers
from penstock.columns import BytesColumn, Column
from penstock.errors import ConfigError
from penstock.ops.core.failures import Origin
from penstock.plan.nodes import Repartition
from penstock.record import as_row
from penstock.serdes import Serde
from penstock.times import to_timestamp


@dataclass(frozen=True)
class Given:
    """The records of a topic that are being processed, in order of their positions."""

    topic: str
    offset: int
    """That of the first."""
    key: Column | None = None
    value: Column | None = None
    times: Sequence[int] = ()
    headers: Any = None
    """As in a batch."""

    def origin(self, position: int) -> Origin:
        """Where the record at a position came from."""
        if self.key is None or self.value is None or position == NO_RECORD:
            return Origin(self.topic, 0, -1, None, None, -1)
        key, value = self.key.encoded()[position].as_py(), self.value.encoded()[position].as_py()
        own = () if self.headers is None else pairs_of(self.headers[position].as_py())
        return Origin(self.topic, 0, self.offset + position, key, value, self.times[position], own)

    def origins(self, positions: IntArray, names: Mapping[str, str]) -> Origins:
        """Where the records at some positions came from; with the names that topics have in Kafka."""
        is_one = positions != NO_RECORD
        topic = pc.if_else(pa.array(is_one), names.get(self.topic, self.topic), pa.scalar(None, pa.string()))
        return Origins(topic, np.where(is_one, 0, -1), np.where(is_one, self.offset + positions, -1))


def checked_row(topic: str, row: Any) -> tuple[Any, ...]:
    """A row of one of the forms that there are.

    Raises:
        ConfigError: it is none.
    """
    given = as_row(row)
    if given is None:
        raise ConfigError(
            f"topic {topic!r}: a row is (key, value), (key, value, timestamp), (key, value, timestamp, headers) or a "
            f"Record; got {row!r}"
        )
    return given


def checked_headers(headers: Any) -> Any:
    """A record's headers as they are given to a driver; raises ``ConfigError`` for what are none."""
    if why := why_no_headers(headers):
        raise ConfigError(f"a record that is piped in: {why}")
    return headers


def batch_of(rows: list[tuple[Any, ...]], key: Serde, value: Serde) -> Batch:
    """Rows as columns; raises ``PenstockError`` when one does not fit."""
    headers = [header_list(checked_headers(row[3])) if len(row) > 3 else None for row in rows]
    return Batch(
        BytesColumn(key.encode_all([row[0] for row in rows]), key),
        BytesColumn(value.encode_all([row[1] for row in rows]), value),
        np.array([to_timestamp(row[2]) if len(row) > 2 else 0 for row in rows], np.int64),
        (np.arange(len(rows)),),
        pa.array(headers, HEADERS) if any(headers) else None,
    )


def as_input(sent: Batch, source: Repartition) -> Batch:
    """What was sent to a repartition topic, as it is read from there."""
    key, value = BytesColumn(sent.key.encoded(), source.key), BytesColumn(sent.value.encoded(), source.value)
    order = (np.arange(len(sent)),)
    if isinstance(sent, Changes) and sent.old is not None:
        old = BytesColumn(sent.old.encoded(), source.value)
        return Changes(key, value, sent.timestamp, order, sent.headers, old=old)
    return Batch(key, value, sent.timestamp, order, sent.headers)


def as_read(column: Column) -> list[Any]:
    """What was written as it is read from a topic, out of its bytes; what cannot be read is the bytes themselves."""
    data, decode = column.encoded(), column.serde.decode
    try:
        return column.serde.decode_all(data)
    except Exception:  # a user's serde that only writes
        return [_or_bytes(decode, item) for item in data.to_pylist()]


def _or_bytes(decode: Callable[[bytes], Any], data: bytes | None) -> Any:
    try:
        return None if data is None else decode(data)
    except Exception:
        return data


def places(batch: Batch) -> Iterable[tuple[int, ...]]:
    """The places of all rows in the order of processing."""
    columns = [repeat(one) if isinstance(one, int) else one.tolist() for one in batch.order]
    return islice(zip(*columns), len(batch))
