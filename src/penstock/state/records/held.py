"""The form of keys and values in a record view: Python values if these are as good as their bytes, else bytes.

Kafka serializes at ``put`` and deserializes at ``get``, so changing a value in place afterwards does not affect the
store. Immutable values that come back from their bytes unchanged need neither.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, IntArray, binary
from penstock.errors import StoreError
from penstock.messages import show
from penstock.record import ValueAndTimestamp
from penstock.serdes import Serde
from penstock.serdes.primitives import BytesSerde, NumberSerde, StrSerde
from penstock.state.columns.rows import Values

LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""The range of integers that a serde takes."""
NO_TIMESTAMP = -1
"""The timestamp of rows in stores without timestamps."""


def plain_type(serde: Serde) -> type | None:
    """The type of values that are kept as they are; None if the serde's values are kept as bytes."""
    return serde.plain if type(serde) in (StrSerde, BytesSerde, NumberSerde) else None


def is_plain(value: Any) -> bool:
    """True if a serde of the value's own type takes it without further checks."""
    if type(value) is str:
        return value.isascii()
    return type(value) is not int or LOWEST <= value <= HIGHEST


class HeldKeys:
    """Keys of a dictionary: the keys themselves if equality means equal bytes; otherwise their bytes."""

    def __init__(self, serde: Serde):
        self.serde = serde
        self.plain = plain_type(serde)
        if self.plain is float:  # 0.0 and -0.0 are equal, but their bytes differ
            self.plain = None

    def hold(self, key: Any) -> Any:
        """Return the key in dictionary form; raise an error if it does not fit the serde."""
        if type(key) is self.plain and is_plain(key):
            return key
        data = self.serde.encode_to_bytes(key)
        if self.plain is None:
            return data
        return key if type(key) is self.plain else self.serde.decode(data)

    def load(self, data: Binary) -> list[Any]:
        """Turn bytes into keys in dictionary form."""
        return data.to_pylist() if self.plain is None else self.serde.decode_all(data)

    def column(self, held: list[Any]) -> Binary:
        """Turn keys in dictionary form into bytes."""
        return binary(held) if self.plain is None else _encoded(held, self.serde)

    def bytes_of(self, held: Any) -> bytes:
        """The bytes of one key in dictionary form."""
        return held if self.plain is None else self.serde.encode_to_bytes(held)


class HeldValues(Protocol):
    """Values in the form in which the dictionary holds them; None for no value."""

    plain: type | None
    """The type of values that are held unchanged."""

    def hold(self, value: Any) -> Any:
        """Return a put value in held form; raise an error if it does not fit the serde."""

    def show(self, held: Any) -> Any:
        """Return a held value as the user sees it."""

    def load_one(self, data: bytes, timestamp: int) -> Any:
        """Turn a row of the store into held form."""

    def load(self, values: Values) -> list[Any]:
        """Turn values read from a store into held form."""

    def columns(self, held: list[Any]) -> Values:
        """Turn held values into the store's columns."""


class PlainValues:
    """Immutable values, held as they are."""

    def __init__(self, serde: Serde):
        self.serde = serde
        self.plain: Any = plain_type(serde)

    def hold(self, value: Any) -> Any:
        if type(value) is self.plain and is_plain(value):
            return value
        return None if value is None else self.serde.decode(self.serde.encode_to_bytes(value))

    def show(self, held: Any) -> Any:
        return held

    def load_one(self, data: bytes, timestamp: int) -> Any:
        return self.serde.decode(data)

    def load(self, values: Values) -> list[Any]:
        return self.serde.decode_all(values.data)

    def columns(self, held: list[Any]) -> Values:
        return Values(_encoded(held, self.serde), np.full(len(held), NO_TIMESTAMP))


class EncodedValues:
    """Values held as bytes: each ``get`` creates a new object."""

    plain: type | None = None

    def __init__(self, serde: Serde):
        self._encode, self._decode = serde.encode_or_none, serde.decode

    def hold(self, value: Any) -> Any:
        return None if value is None else self._encode(value)

    def show(self, held: Any) -> Any:
        return None if held is None else self._decode(held)

    def load_one(self, data: bytes, timestamp: int) -> Any:
        return data

    def load(self, values: Values) -> list[Any]:
        return values.data.to_pylist()  # type: ignore[no-any-return]

    def columns(self, held: list[Any]) -> Values:
        return Values(binary(held), np.full(len(held), NO_TIMESTAMP))


def check_time(timestamp: Any) -> None:
    """Raise ``StoreError`` unless it is the timestamp of a value."""
    if type(timestamp) is not int or not -1 <= timestamp < 2**63:
        raise StoreError(f"a timestamp is an int of milliseconds from 1970 on; got {show(timestamp)}. Nothing was put")


class TimestampedValues:
    """Values with timestamps: pairs of the held value and the time."""

    plain: type | None = None

    def __init__(self, values: PlainValues | EncodedValues):
        self._values = values
        self._shows_as_is = isinstance(values, PlainValues)
        self.inner_plain = values.plain
        """The type of values that the pairs hold unchanged."""

    def hold(self, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, ValueAndTimestamp):
            raise StoreError(
                f"a timestamped store takes ValueAndTimestamp(value, timestamp) or None; got {show(value)} of type "
                f"{type(value).__name__}. Nothing was put"
            )
        check_time(value.timestamp)
        held = self._values.hold(value.value)
        return None if held is None else ValueAndTimestamp(held, value.timestamp)

    def show(self, held: Any) -> Any:
        if held is None or self._shows_as_is:
            return held
        return ValueAndTimestamp(self._values.show(held.value), held.timestamp)

    def load_one(self, data: bytes, timestamp: int) -> Any:
        return ValueAndTimestamp(self._values.load_one(data, timestamp), timestamp)

    def load(self, values: Values) -> list[Any]:
        rows = zip(self._values.load(values), values.timestamps.tolist(), strict=True)
        return [None if row[0] is None else ValueAndTimestamp._make(row) for row in rows]

    def columns(self, held: list[Any]) -> Values:
        data = self._values.columns([None if row is None else row.value for row in held]).data
        return Values(data, np.array([NO_TIMESTAMP if row is None else row.timestamp for row in held], np.int64))


def untimed_values(serde: Serde) -> PlainValues | EncodedValues:
    """Choose the form in which values without timestamps are held."""
    return EncodedValues(serde) if plain_type(serde) is None else PlainValues(serde)


def _encoded(held: list[Any], serde: Serde) -> Binary:
    """The bytes of values that are known to fit."""
    if isinstance(serde, NumberSerde):
        numbers = pa.array(held, pa.int64() if serde.plain is int else pa.float64())
        valid = None if not numbers.null_count else numbers.is_valid().to_numpy(zero_copy_only=False)
        plain: IntArray = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy()
        return serde.encode_numbers(plain, valid)
    return binary(held) if serde.plain is bytes else serde.encode_all(held)


__all__ = ["EncodedValues", "HeldKeys", "HeldValues", "PlainValues", "TimestampedValues", "untimed_values"]
