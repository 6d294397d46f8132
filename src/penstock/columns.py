"""Columns: the keys or the values of a batch, held as bytes, numbers or Python values, whichever is there already.

Every column can give its bytes (``encoded``) and its Python values (``decoded``), and remembers what it worked out, so
nothing is decoded before somebody looks inside, and nothing twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.arrays import Binary, BoolArray, IntArray, concat, fixed_binary, null_mask, nulls
from penstock.record import Windowed
from penstock.serdes import BYTES, Serde
from penstock.serdes.primitives import NumberSerde
from penstock.serdes.windowed import TimeWindowedSerde


class Column(ABC):
    """One column of keys or values."""

    __slots__ = ("serde",)

    serde: Serde

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: IntArray) -> Column:
        """The rows of these numbers, in their order."""

    @abstractmethod
    def null_mask(self) -> BoolArray | None:
        """Which rows are null; None when none is."""

    @abstractmethod
    def encoded(self) -> Binary:
        """The bytes."""

    @abstractmethod
    def decoded(self) -> list[Any]:
        """The Python values."""

    def arrow(self) -> Any:
        """The values as a typed Arrow array, for columnar functions."""
        return self.serde.arrow(self.encoded())

    def routing(self) -> Binary:
        """The bytes that decide the partition."""
        return self.serde.routing(self.encoded())

    def where(self, keep: BoolArray) -> Column:
        """The same rows, null where not ``keep``."""
        if keep.all():
            return self
        data = pc.if_else(pa.array(keep), self.encoded(), pa.scalar(None, pa.binary()))
        return BytesColumn(data, self.serde)

    def join(self, others: list[Column]) -> Column:
        """This column, then the others."""
        every = [self, *others]
        if all(isinstance(column, ValuesColumn) for column in every):
            return ValuesColumn([value for column in every for value in column.decoded()], self.serde)
        return BytesColumn(concat([column.encoded() for column in every]), self.serde)


class BytesColumn(Column):
    """Bytes as they came; decoded on demand, once."""

    __slots__ = ("_data", "_values")

    def __init__(self, data: Binary, serde: Serde):
        self._data = data
        self._values: list[Any] | None = None
        self.serde = serde

    def __len__(self) -> int:
        return len(self._data)

    def take(self, rows: IntArray) -> Column:
        taken = BytesColumn(self._data.take(pa.array(rows)), self.serde)
        if self._values is not None:
            values = self._values
            taken._values = [values[i] for i in rows.tolist()]
        return taken

    def null_mask(self) -> BoolArray | None:
        return null_mask(self._data)

    def encoded(self) -> Binary:
        return self._data

    def decoded(self) -> list[Any]:
        if self._values is None:
            self._values = self.serde.decode_all(self._data)
        return self._values


class ValuesColumn(Column):
    """Python values that a user's function returned; encoded on demand, once."""

    __slots__ = ("_data", "_values")

    def __init__(self, values: list[Any], serde: Serde):
        self._values = values
        self._data: Binary | None = None
        self.serde = serde

    def __len__(self) -> int:
        return len(self._values)

    def take(self, rows: IntArray) -> Column:
        values = self._values
        taken = ValuesColumn([values[i] for i in rows.tolist()], self.serde)
        if self._data is not None:
            taken._data = self._data.take(pa.array(rows))
        return taken

    def null_mask(self) -> BoolArray | None:
        if None not in self._values:
            return None
        return np.fromiter((value is None for value in self._values), np.bool_, len(self._values))

    def encoded(self) -> Binary:
        if self._data is None:
            self._data = self.serde.encode_all(self._values)
        return self._data

    def decoded(self) -> list[Any]:
        return self._values


class NumberColumn(Column):
    """Numbers in a numpy array, as built-in aggregations make them."""

    __slots__ = ("_data", "numbers", "valid")

    serde: NumberSerde

    def __init__(self, numbers: NDArray[Any], serde: NumberSerde, valid: BoolArray | None = None):
        self.numbers = numbers
        self.valid = valid
        self.serde = serde
        self._data: Binary | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: IntArray) -> Column:
        return NumberColumn(self.numbers[rows], self.serde, None if self.valid is None else self.valid[rows])

    def null_mask(self) -> BoolArray | None:
        return None if self.valid is None or self.valid.all() else ~self.valid

    def encoded(self) -> Binary:
        if self._data is None:
            self._data = self.serde.encode_numbers(self.numbers, self.valid)
        return self._data

    def decoded(self) -> list[Any]:
        values: list[Any] = self.numbers.tolist()
        if self.valid is not None:
            for i in np.flatnonzero(~self.valid).tolist():
                values[i] = None
        return values

    def arrow(self) -> Any:
        return pa.array(self.numbers, mask=None if self.valid is None else ~self.valid)


class WindowedColumn(Column):
    """Windowed keys: a column of keys and their windows' ends."""

    __slots__ = ("_data", "end", "key", "start")

    serde: TimeWindowedSerde

    def __init__(self, key: Column, start: IntArray, end: IntArray, serde: TimeWindowedSerde):
        self.key = key
        self.start = start
        self.end = end
        self.serde = serde
        self._data: Binary | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: IntArray) -> Column:
        return WindowedColumn(self.key.take(rows), self.start[rows], self.end[rows], self.serde)

    def null_mask(self) -> BoolArray | None:
        return None

    def encoded(self) -> Binary:
        if self._data is None:
            starts = fixed_binary(self.start.astype(">i8"))
            self._data = pc.binary_join_element_wise(self.key.encoded(), starts, b"")
        return self._data

    def decoded(self) -> list[Any]:
        return list(map(Windowed, self.key.decoded(), self.start.tolist(), self.end.tolist()))

    def arrow(self) -> Any:
        return WindowedArrays(self.key.arrow(), pa.array(self.start), pa.array(self.end))

    def routing(self) -> Binary:
        return self.key.routing()


class WindowedArrays(Windowed):
    """What a columnar function gets for windowed keys: Arrow arrays ``key``, ``start`` and ``end``."""

    __slots__ = ()


def null_column(count: int, serde: Serde = BYTES) -> Column:
    """A column of nothing but nulls."""
    return BytesColumn(nulls(count), serde)


def from_arrow(values: Any, serde: Serde) -> Column:
    """A column of the Arrow array that a columnar function returned."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = values.type
    if isinstance(serde, NumberSerde) and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        numbers = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
        return NumberColumn(numbers.astype(serde.native), serde, None if missing is None else ~missing)
    if serde.name in ("str", "bytes") and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return BytesColumn(values.cast(pa.binary()), serde)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return BytesColumn(values.cast(pa.binary()), serde)
    return ValuesColumn(values.to_pylist(), serde)
