"""JSON of an Arrow type: rows of a DataFrame as dicts with Python's own types, and as columns of the DataFrame's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from penstock.arrays import Binary, binary
from penstock.errors import SerdeError
from penstock.messages import describe, show
from penstock.serdes import json_columns
from penstock.serdes.base import Serde
from penstock.serdes.json import JsonSerde
from penstock.serdes.json_types import Float, as_float, plain, python_type, stored
from penstock.serdes.json_values import writer
from penstock.serdes.primitives import BYTES, FLOAT, INT, STR
from penstock.usage.calls import close
from penstock.values.decoding import json_decoder


class RowSerde(JsonSerde):
    """JSON of one Arrow type, mostly a struct: the schema of a DataFrame.

    Values have Python's own types: ``Decimal``, ``datetime``, ``bytes`` and so on, in dicts and lists. A value that
    does not fit the type, or that the type would change, is refused. Equal values have the same bytes.

    Args:
        kind: the Arrow type; also a schema.

    Raises:
        ConfigError: JSON cannot keep the type.

    >>> row = RowSerde(pa.schema([("id", pa.int32()), ("raw", pa.binary())]))
    >>> row.encode({"id": 1, "raw": b"abc"})
    b'{"id":1,"raw":"YWJj"}'
    >>> row.decode(b'{"id":1,"raw":"YWJj"}')
    {'id': 1, 'raw': b'abc'}
    """

    def __init__(self, kind: Any):
        kind = pa.struct(list(kind)) if isinstance(kind, pa.Schema) else kind
        json_columns.check(kind, "value", "schema")
        self.kind = plain(kind)
        super().__init__(python_type(self.kind))
        self.name = f"json[{self.kind}]"
        self._lenient = json_decoder(python_type(self.kind, Float), as_float).decode
        self._write = writer(self.kind)

    def encode(self, value: Any) -> bytes:
        try:
            return self._encode(self._write(value, "value"))
        except SerdeError as error:
            close(value)
            if not isinstance(value, dict):
                error.got, error.shown = type(value), show(value)
            raise

    def encode_all(self, values: list[Any]) -> Binary:
        return binary([None if value is None else self.encode(value) for value in values])

    @property
    def converters(self) -> Any:
        return self.encode, self.decode

    def decode(self, data: bytes) -> Any:
        try:
            return self._decode(data)
        except msgspec.ValidationError:
            return self._decode_floats(data)
        except Exception:
            return super().decode(data)

    def _decode_floats(self, data: bytes) -> Any:
        """A value that has NaN or an infinity in it, or is none."""
        try:
            return self._lenient(data)
        except Exception as error:
            raise SerdeError(f"{_text(error)}; the bytes are {show(data, 80)}") from None

    def arrow(self, data: Binary) -> Any:
        values = self.decode_all(data)
        made = stored(self.kind)
        try:
            array = pa.array(values, made)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SerdeError(f"it is no {self.kind}: {error}") from None
        return array if made == self.kind else array.cast(self.kind)

    def from_arrow(self, values: Any) -> list[Any]:
        return self.decode_all(json_columns.encode(values.cast(self.kind), "value", "result"))

    def __reduce__(self) -> Any:
        return RowSerde, (self.kind,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSerde) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((RowSerde, self.name))


class ColumnSerde(Serde):
    """Numbers, text or bytes of one Arrow type, in the format of a plain serde: an ``int32`` as ``int``, for example.

    >>> ColumnSerde(INT, pa.int32()).encode(2**31)
    Traceback (most recent call last):
    penstock.errors.SerdeError: value is 2147483648, which does not fit the type int32: it goes from ... to 2147483647
    """

    def __init__(self, inner: Serde, kind: Any):
        self.inner, self.kind = inner, kind
        self.name, self.plain = inner.name, inner.plain
        self._write = writer(kind)

    def encode(self, value: Any) -> bytes | None:
        written = self._write(value, "value")
        return self.inner.encode(value if isinstance(written, str) else written)

    def decode(self, data: bytes) -> Any:
        return self.inner.decode(data)

    def decode_all(self, data: Binary) -> list[Any]:
        return self.inner.decode_all(data)

    def arrow(self, data: Binary) -> Any:
        return self.inner.arrow(data).cast(self.kind)

    def __reduce__(self) -> Any:
        return ColumnSerde, (self.inner, self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ColumnSerde) and (self.inner, self.kind) == (other.inner, other.kind)

    def __hash__(self) -> int:
        return hash((ColumnSerde, self.name, str(self.kind)))


def serde_of_column(written: Serde, kind: Any) -> Serde:
    """The serde of a column of an Arrow type that was written in a format.

    >>> serde_of_column(INT, pa.int64()), serde_of_column(INT, pa.int8()), serde_of_column(JsonSerde(), pa.date32())
    (<serde int>, <serde int>, <serde json[date32[day]]>)
    """
    if isinstance(written, JsonSerde):
        return RowSerde(kind)
    return written if PLAIN.get(written) == kind else ColumnSerde(written, kind)


def serde_of_type(kind: Any) -> Serde:
    """The serde of an Arrow type, or of a schema: a plain one where one fits.

    >>> serde_of_type(pa.int32()), serde_of_type(pa.list_(pa.date32()))
    (<serde int>, <serde json[list<item: date32[day]>]>)
    """
    return RowSerde(kind) if isinstance(kind, pa.Schema) else plain_serde(kind) or RowSerde(kind)


def plain_serde(kind: Any) -> Serde | None:
    """The plain serde in which columns of an Arrow type are written; None for types that become JSON."""
    return next((serde for fits, serde in _FITTING if fits(kind)), None)


_FITTING: tuple[tuple[Callable[[Any], bool], Serde], ...] = (
    (pa.types.is_integer, INT),
    (pa.types.is_floating, FLOAT),
    (json_columns.is_text, STR),
    (json_columns.is_bytes, BYTES),
)


PLAIN: dict[Serde, Any] = {STR: pa.string(), INT: pa.int64(), FLOAT: pa.float64(), BYTES: pa.binary()}
"""The Arrow types of the plain serdes."""


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, msgspec.ValidationError) else describe(error)
