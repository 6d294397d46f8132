"""Converts rows of Python values, the input of ``produce`` and the command line, to records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, is_too_large
from penstock.columns.batch import HEADERS, why_no_headers
from penstock.errors import ConfigError, SerdeError
from penstock.log.records import Records, gathered
from penstock.messages import describe, show
from penstock.record import as_row
from penstock.serdes import Serde
from penstock.values.times import UNITS, Unit, to_timestamp

BATCH_ROWS = 32_768
BATCH_BYTES = 32 << 20
"""How many records, and how many bytes of them, are written at once."""

_FEW_ROWS, _MANY_ROWS = 64, 2_048
_SMALL_BYTES = 1 << 18
"""Rows encoded at once: few, if the previous ones had that many bytes or more."""

Row = tuple[Any, ...]
"""``(key, value)``, ``(key, value, timestamp)`` or ``(key, value, timestamp, headers)``; a ``Record`` is one."""


def records_of(
    rows: Iterable[Row], topic: str, key: Serde, value: Serde, unit: Unit = UNITS["ms"]
) -> Iterator[Records]:
    """Yield the records of rows, for a topic of these types, many at a time but at most ``BATCH_BYTES``."""
    pieces = (half for large in _encode_rows(rows, topic, key, value, unit) for half in _halves(large))
    return gathered(pieces, BATCH_ROWS, BATCH_BYTES)


def _encode_rows(rows: Iterable[Row], topic: str, key: Serde, value: Serde, unit: Unit) -> Iterator[Records]:
    """Yield the records of some rows; how many are encoded at once depends on their size."""
    rows = iter(rows)
    first, count = 1, _FEW_ROWS
    while some := list(islice(rows, count)):
        records = _encode_some(_checked(some, topic, first), topic, key, value, first, unit)
        yield from records
        first += len(some)
        count = _MANY_ROWS if sum(one.nbytes for one in records) < _SMALL_BYTES else _FEW_ROWS


def _checked(rows: list[Any], topic: str, first: int) -> list[Row]:
    """Return rows as tuples of a valid form; `first` is the number of the first row."""
    checked = []
    for number, given in enumerate(rows, first):
        row = as_row(given)
        if row is None:
            raise ConfigError(
                f"topic {topic!r}, row {number}: a row is (key, value), (key, value, timestamp), "
                f"(key, value, timestamp, headers) or a Record; got {given!r}"
            )
        checked.append(row)
    return checked


def _encode_some(rows: list[Row], topic: str, key: Serde, value: Serde, first: int, unit: Unit) -> list[Records]:
    """Return the records of some rows, from row number `first` on; in pieces if they are too large for one array."""
    try:
        keys = encode_column(key, [row[0] for row in rows], f"topic {topic!r}, key of row", first)
        values = encode_column(value, [row[1] for row in rows], f"topic {topic!r}, value of row", first)
    except pa.ArrowCapacityError as error:
        if len(rows) == 1:
            raise SerdeError(
                f"topic {topic!r}, row {first}: a key or a value has at most 2 GiB: {error}; split it"
            ) from None
        half = len(rows) // 2
        before = _encode_some(rows[:half], topic, key, value, first, unit)
        return before + _encode_some(rows[half:], topic, key, value, first + half, unit)
    times = row_times([row[2] if len(row) > 2 else None for row in rows], f"topic {topic!r}, row", first, unit)
    headers = row_headers([row[3] if len(row) > 3 else () for row in rows], f"topic {topic!r}, row", first)
    return [Records(-1, keys, values, times, headers)]


def encode_column(serde: Serde, values: list[Any], what: str, first: int) -> Binary:
    """Return the bytes of some values. Errors name ``what`` and the row number, counted from ``first``."""
    try:
        return serde.encode_all(values)
    except Exception as problem:
        if is_too_large(problem):
            raise
        for number, value in enumerate(values, first):
            try:
                serde.encode_all([value])
            except Exception as error:
                got = error.got if isinstance(error, SerdeError) else None
                way_out = "" if got is None else f"; say {what.split()[-3]}={got.__name__}, or convert it"
                raise SerdeError(f"{what} {number}: {describe(error)}{way_out}") from error
        raise


def row_times(times: list[Any], what: str, first: int, unit: Unit = UNITS["ms"]) -> IntArray:
    """Return timestamps in milliseconds, from numbers, datetimes or text; None means now."""
    if unit is UNITS["ms"] and all(type(time_) is int and 0 <= time_ < 2**63 for time_ in times):
        return np.array(times, np.int64)
    present = now()
    numbered = enumerate(times, first)
    found = [
        present if time_ is None else to_timestamp(time_, f"{what} {number}: a timestamp", unit)
        for number, time_ in numbered
    ]
    return np.array(found, np.int64)


def row_headers(headers: list[Any], what: str, first: int) -> Any:
    """Return the headers of some records as an Arrow array; None if no record has any."""
    if not any(headers):
        return None
    for number, pairs in enumerate(headers, first):
        if why_no_headers(pairs) or not all(type(pair) is tuple and type(pair[1]) is not str for pair in pairs or ()):
            raise ConfigError(f"{what} {number}: headers are pairs of a name and bytes; got {show(pairs)}")
    return pa.array([[{"key": k, "value": v} for k, v in pairs] if pairs else None for pairs in headers], HEADERS)


def _halves(records: Records) -> Iterator[Records]:
    if len(records) > 1 and records.nbytes > BATCH_BYTES:
        half = len(records) // 2
        yield from _halves(records.slice(0, half))
        yield from _halves(records.slice(half, len(records)))
    else:
        yield records


def now() -> int:
    """Wall-clock time in milliseconds."""
    return time.time_ns() // 1_000_000
