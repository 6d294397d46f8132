"""Bytes, text and numbers, in the formats of Kafka's own serdes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, fixed_binary, items_at, null_mask, spans
from penstock.errors import SerdeError
from penstock.messages import show
from penstock.serdes.base import Serde


class BytesSerde(Serde):
    """The bytes as they are.

    >>> BYTES.encode(b"as it is")
    b'as it is'
    """

    name = "bytes"
    plain = bytes

    def encode(self, value: Any) -> bytes:
        if type(value) is not bytes:
            raise self.refuse(value)
        return value

    def decode(self, data: bytes) -> bytes:
        return data

    def decode_all(self, data: Binary) -> list[bytes | None]:
        return data.to_pylist()  # type: ignore[no-any-return]

    def arrow(self, data: Binary) -> Any:
        return data


class StrSerde(Serde):
    """Text as UTF-8.

    >>> STR.encode("tea"), STR.decode(b"jam")
    (b'tea', 'jam')
    """

    name = "str"
    plain = str

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self.refuse(value)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise SerdeError(
                f"the serde 'str' cannot encode {show(value)}: {error.reason}; write it as bytes, with the type bytes"
            ) from None

    def decode(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SerdeError(f"not UTF-8: {error}") from None

    def encode_all(self, values: list[Any]) -> Binary:
        try:
            data = pa.array(values)  # Arrow infers the type: asked for text, it would accept bytes, too
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            data = None
        if data is None or not (pa.types.is_string(data.type) or pa.types.is_null(data.type)):
            return super().encode_all(values)  # finds the value and the reason
        return data.cast(pa.binary())

    def decode_all(self, data: Binary) -> list[str | None]:
        try:
            return data.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
        except pa.ArrowException:
            return super().decode_all(data)

    def arrow(self, data: Binary) -> Any:
        return data.cast(pa.string())


class NumberSerde(Serde):
    """Eight bytes, big endian, as Kafka's Long and Double serdes write them.

    >>> INT.encode(7).hex()
    '0000000000000007'
    """

    def __init__(self, name: str, plain: type, dtype: str):
        self.name = name
        self.plain = plain
        self.wire = np.dtype(dtype)
        self._format = struct.Struct(">q" if plain is int else ">d")
        self.native = self.wire.newbyteorder("=")

    def encode(self, value: Any) -> bytes:
        if type(value) is not self.plain and not (self.plain is float and type(value) is int):
            raise self.refuse(value)
        try:
            data = self._format.pack(value)
        except (OverflowError, struct.error):
            raise SerdeError(f"{show(value)} does not fit into 8 bytes; write it as text, with the type str") from None
        if self.plain is float and isinstance(value, int) and float(value) != value:
            raise SerdeError(f"{show(value)} has more digits than a float keeps; round it with float(...), or use int")
        return data

    def decode(self, data: bytes) -> Any:
        if len(data) != 8:
            raise SerdeError(f"the serde {self.name!r} needs 8 bytes, got {len(data)}: {show(data, 80)}")
        return self._format.unpack(data)[0]

    def __reduce__(self) -> Any:
        return NumberSerde, (self.name, self.plain, self.wire.str)

    def encode_numbers(self, numbers: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None) -> Binary:
        """The bytes of an array of numbers; null where not ``valid``."""
        return fixed_binary(numbers.astype(self.wire), valid)

    def decode_numbers(self, data: Binary) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
        """The numbers of a column of bytes, and True for the valid ones (None: all); the other numbers are
        arbitrary."""
        where = spans(data)
        missing = null_mask(data)
        if missing is None and _is_packed(where.start, where.length):
            first = int(where.start[0]) if len(data) else 0
            packed = where.data[first : first + 8 * len(data)].view(self.wire)
            return packed.astype(self.native), None
        present = np.arange(len(data)) if missing is None else np.flatnonzero(~missing)
        wrong = present[where.length[present] != 8]
        if wrong.size:
            self.decode(data[int(wrong[0])].as_py())
        numbers = np.zeros(len(data), self.native)
        numbers[present] = items_at(where.data, where.start[present], self.wire)
        return numbers, None if missing is None else ~missing

    def decode_all(self, data: Binary) -> list[Any]:
        numbers, valid = self.decode_numbers(data)
        values = numbers.tolist()
        if valid is not None:
            for i in np.flatnonzero(~valid).tolist():
                values[i] = None
        return values  # type: ignore[no-any-return]

    def arrow(self, data: Binary) -> Any:
        numbers, valid = self.decode_numbers(data)
        return pa.array(numbers, mask=None if valid is None else ~valid)


def _is_packed(start: np.ndarray[Any, Any], length: np.ndarray[Any, Any]) -> bool:
    return bool((length == 8).all()) and (not start.size or int(start[-1] - start[0]) == 8 * (start.size - 1))


BYTES = BytesSerde()
STR = StrSerde()
INT = NumberSerde("int", int, ">i8")
FLOAT = NumberSerde("float", float, ">f8")
