"""The form of values with headers in a record view (KIP-1271)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.arrays import binary
from penstock.columns.batch import why_no_headers
from penstock.errors import StoreError
from penstock.messages import show
from penstock.record import AggregationWithHeaders, Headers, ValueTimestampHeaders
from penstock.serdes import Serde
from penstock.state.columns.headers import headers_of, row_with_headers, row_without_headers, with_headers
from penstock.state.columns.headers import without_headers as taken_apart
from penstock.state.columns.rows import Values
from penstock.state.records.held import (
    NO_TIMESTAMP,
    EncodedValues,
    HeldValues,
    PlainValues,
    TimestampedValues,
    check_time,
    untimed_values,
)


class _WithHeaders:
    """The common part: checks headers, and knows whether the store keeps them.

    Args:
        keeps: False if rows show no headers, as those of the stores of tables.
    """

    plain: type | None = None

    def __init__(self, values: PlainValues | EncodedValues, keeps: bool):
        self._values = values
        self._keeps = keeps

    def load(self, values: Values) -> list[Any]:
        """Turn values read from a store into held form."""
        rows = zip(values.data.to_pylist(), values.timestamps.tolist(), strict=True)
        return [None if data is None else self.load_one(data, timestamp) for data, timestamp in rows]

    def load_one(self, data: bytes, timestamp: int) -> Any:
        """Turn a row of the store into held form."""
        raise NotImplementedError

    def _checked(self, headers: Any) -> Headers:
        if why := why_no_headers(headers):
            raise StoreError(f"{why}. Nothing was put")
        if headers and not self._keeps:
            raise StoreError(
                "the store of a table keeps no headers: the steps of Kafka Streams put none there (KIP-1285). Put a "
                "value without headers, or add a store of your own with "
                "Stores.timestamped_key_value_store_with_headers_builder. Nothing was put"
            )
        return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers or ())


class HeadedValues(_WithHeaders):
    """Values with timestamps and headers: ``ValueTimestampHeaders`` of the held value."""

    def hold(self, value: Any) -> Any:
        """Return a put value in held form."""
        if value is None:
            return None
        if not isinstance(value, ValueTimestampHeaders):
            raise StoreError(
                "a store with headers takes ValueTimestampHeaders(value, timestamp, headers) or None; got "
                f"{show(value)} of type {type(value).__name__}. Nothing was put"
            )
        check_time(value.timestamp)
        held, headers = self._values.hold(value.value), self._checked(value.headers)
        return None if held is None else ValueTimestampHeaders(held, value.timestamp, headers)

    def show(self, held: Any) -> Any:
        """Return a held value as the user sees it."""
        return None if held is None else held._replace(value=self._values.show(held.value))

    def load_one(self, data: bytes, timestamp: int) -> Any:
        value, at = row_without_headers(data, timestamp)
        return ValueTimestampHeaders(self._values.load_one(bytes(value), at), at, headers_of(value))

    def columns(self, held: list[Any]) -> Values:
        """Turn held values into the store's columns."""
        plain = self._values.columns([None if row is None else row.value for row in held]).data.to_pylist()
        rows = [
            (None, NO_TIMESTAMP) if row is None else row_with_headers(data, row.timestamp, row.headers)
            for row, data in zip(held, plain, strict=True)
        ]
        return Values(binary([data for data, _ in rows]), np.array([timestamp for _, timestamp in rows], np.int64))


class HeadedAggregates(_WithHeaders):
    """Aggregates of sessions with headers, which every row of a store that keeps them has in front."""

    def hold(self, value: Any) -> Any:
        """Return a put value in held form."""
        if value is None:
            return None
        if not isinstance(value, AggregationWithHeaders):
            raise StoreError(
                "a session store with headers takes AggregationWithHeaders(aggregation, headers) or None; got "
                f"{show(value)} of type {type(value).__name__}. Nothing was put"
            )
        held, headers = self._values.hold(value.aggregation), self._checked(value.headers)
        return None if held is None else AggregationWithHeaders(held, headers)

    def show(self, held: Any) -> Any:
        """Return a held value as the user sees it."""
        return None if held is None else held._replace(aggregation=self._values.show(held.aggregation))

    def load_one(self, data: bytes, timestamp: int) -> Any:
        value = taken_apart(data) if self._keeps else data
        return AggregationWithHeaders(self._values.load_one(bytes(value), timestamp), headers_of(value))

    def columns(self, held: list[Any]) -> Values:
        """Turn held values into the store's columns."""
        data = self._values.columns([None if row is None else row.aggregation for row in held]).data
        if self._keeps:
            rows = zip(held, data.to_pylist(), strict=True)
            data = binary([None if row is None else with_headers(one, row.headers) for row, one in rows])
        return Values(data, np.full(len(held), NO_TIMESTAMP))


def held_values(serde: Serde, timestamped: bool, headers: bool | None) -> HeldValues:
    """Choose the form in which a store's values are held.

    Args:
        headers: whether they have headers, as for ``record_view``.
    """
    values = untimed_values(serde)
    if headers is not None and timestamped:
        return HeadedValues(values, headers)
    return TimestampedValues(values) if timestamped else values


def held_aggregates(serde: Serde, headers: bool | None) -> HeldValues:
    """Choose the form in which a session store's aggregates are held."""
    values = untimed_values(serde)
    return values if headers is None else HeadedAggregates(values, headers)
