"""Columns: the keys or the values of a batch, stored as bytes, numbers or Python values.

Every column can return its bytes (``encoded``) and its Python values (``decoded``), and caches both, so no value is
decoded before it is needed, or twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.arrays import Binary, BoolArray, IntArray, concat, null_mask, nulls
from penstock.columns.scanned import Fields, fields_of
from penstock.errors import SerdeError
from penstock.record import Windowed
from penstock.serdes import BYTES, Serde
from penstock.serdes.arrow_types import arrow_type
from penstock.serdes.primitives import NumberSerde
from penstock.serdes.windowed import WindowedSerde


class Column(ABC):
    """One column of keys or values."""

    __slots__ = ("serde",)

    serde: Serde

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: IntArray) -> Column:
        """Return the rows of these numbers, in their order."""

    def slice(self, start: int, stop: int) -> Column:
        """Return the rows from `start` until before `stop`, without a copy if possible."""
        return self.take(np.arange(start, stop))

    @abstractmethod
    def null_mask(self) -> BoolArray | None:
        """Return which rows are null; None if none is."""

    @abstractmethod
    def encoded(self) -> Binary:
        """Return the bytes."""

    @abstractmethod
    def decoded(self) -> list[Any]:
        """Return the Python values."""

    def arrow(self) -> Any:
        """Return the values as a typed Arrow array, for columnar functions."""
        return self.serde.arrow(self.encoded())

    def routing(self) -> Binary:
        """Return the bytes that decide the partition."""
        return self.serde.routing(self.encoded())

    def where(self, keep: BoolArray) -> Column:
        """Return these rows, null where not ``keep``."""
        if keep.all():
            return self
        data = pc.if_else(pa.array(keep), self.encoded(), pa.scalar(None, pa.binary()))
        return BytesColumn(data, self.serde)

    def join(self, others: list[Column]) -> Column:
        """Return this column followed by the others; in its own form if they all have it, else as bytes."""
        every = [self, *others]
        if len({type(column) for column in every}) == 1:
            return self._join(every)
        try:
            return BytesColumn(concat([column.encoded() for column in every]), self.serde)
        except SerdeError:  # values of another type than the column's; encoding them raises the error
            return ValuesColumn([value for column in every for value in column.decoded()], self.serde)

    def _join(self, every: list[Any]) -> Column:
        return BytesColumn(concat([column.encoded() for column in every]), self.serde)


class BytesColumn(Column):
    """Bytes as received; decoded once, on demand."""

    __slots__ = ("_data", "_fields", "_values")

    def __init__(self, data: Binary, serde: Serde):
        self._data = data
        self._values: list[Any] | None = None
        self._fields: Fields | Literal[False] | None = None
        self.serde = serde

    def __len__(self) -> int:
        return len(self._data)

    def take(self, rows: IntArray) -> Column:
        taken = BytesColumn(self._data.take(pa.array(rows)), self.serde)
        if self._values is not None:
            taken._values = pick(self._values, rows)
        taken._fields = self._fields and self._fields.take(rows)
        return taken

    def slice(self, start: int, stop: int) -> Column:
        part = BytesColumn(self._data[start:stop], self.serde)
        if self._values is not None:
            part._values = self._values[start:stop]
        part._fields = self._fields and self._fields.take(slice(start, stop))
        return part

    def null_mask(self) -> BoolArray | None:
        return null_mask(self._data)

    def encoded(self) -> Binary:
        return self._data

    def decoded(self) -> list[Any]:
        if self._values is None:
            self._values = self.serde.decode_all(self._data)
        return self._values

    def fields(self) -> Fields | None:
        """Return the fields of objects, all of which can be read then; None if they are read as objects."""
        if self._fields is None:
            self._fields = (None if self._values is not None else fields_of(self._data, self.serde)) or False
        return self._fields or None

    def arrow(self) -> Any:
        fields = self.fields()
        kind = None if fields is None else arrow_type(self.serde.type)  # type: ignore[attr-defined]
        return super().arrow() if fields is None else fields.struct(kind)

    def read(self) -> Column:
        """Return the column as Kafka Streams' deserializers would: null where the bytes decode to None.

        All bytes are decoded only if the serde may return None for any.
        """
        none = self.serde.null_rows(self._data)
        if self.serde.gives_none:
            none = np.array([row for row, value in enumerate(self.decoded()) if value is None], np.int64)
        if not len(none):
            return self
        if len(none) <= self._data.null_count and self._data.take(pa.array(none)).null_count == len(none):
            return self
        keep = np.ones(len(self), np.bool_)
        keep[none] = False
        column = BytesColumn(pc.if_else(pa.array(keep), self._data, pa.scalar(None, pa.binary())), self.serde)
        if self._values is not None:
            column._values = [value if kept else None for value, kept in zip(self._values, keep.tolist(), strict=True)]
        return column

    def _join(self, every: list[Any]) -> Column:
        joined = BytesColumn(concat([column._data for column in every]), self.serde)
        if any(column._values is not None for column in every):  # somebody looks inside: keep what is decoded already
            joined._values = [value for column in every for value in column.decoded()]
        return joined


class ValuesColumn(Column):
    """Python values that a user's function returned; encoded once, on demand."""

    __slots__ = ("_data", "_values")

    def __init__(self, values: list[Any], serde: Serde):
        self._values = values
        self._data: Binary | None = None
        self.serde = serde

    def __len__(self) -> int:
        return len(self._values)

    def take(self, rows: IntArray) -> Column:
        taken = ValuesColumn(pick(self._values, rows), self.serde)
        if self._data is not None:
            taken._data = self._data.take(pa.array(rows))
        return taken

    def null_mask(self) -> BoolArray | None:
        missing = [value is None for value in self._values]
        return np.array(missing) if True in missing else None

    def encoded(self) -> Binary:
        if self._data is None:
            self._data = self.serde.encode_all(self._values)
        return self._data

    def decoded(self) -> list[Any]:
        return self._values

    def where(self, keep: BoolArray) -> Column:
        if self._data is not None or keep.all():
            return super().where(keep)
        return ValuesColumn(
            [value if kept else None for value, kept in zip(self._values, keep.tolist(), strict=True)], self.serde
        )

    def _join(self, every: list[Any]) -> Column:
        return ValuesColumn([value for column in every for value in column._values], self.serde)


class NumberColumn(Column):
    """Numbers in a numpy array, the results of built-in aggregations."""

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

    def slice(self, start: int, stop: int) -> Column:
        valid = None if self.valid is None else self.valid[start:stop]
        return NumberColumn(self.numbers[start:stop], self.serde, valid)

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

    def where(self, keep: BoolArray) -> Column:
        return NumberColumn(self.numbers, self.serde, keep if self.valid is None else keep & self.valid)

    def arrow(self) -> Any:
        return pa.array(self.numbers, mask=None if self.valid is None else ~self.valid)

    def _join(self, every: list[Any]) -> Column:
        valid = None
        if any(column.valid is not None for column in every):
            valid = np.concatenate([np.ones(len(c), np.bool_) if c.valid is None else c.valid for c in every])
        return NumberColumn(np.concatenate([column.numbers for column in every]), self.serde, valid)


class WindowedColumn(Column):
    """Windowed keys: a column of keys, and their windows' starts and ends."""

    __slots__ = ("_data", "end", "key", "start")

    serde: WindowedSerde

    def __init__(self, key: Column, start: IntArray, end: IntArray, serde: WindowedSerde):
        self.key = key
        self.start = start
        self.end = end
        self.serde = serde
        self._data: Binary | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: IntArray) -> Column:
        return WindowedColumn(self.key.take(rows), self.start[rows], self.end[rows], self.serde)

    def slice(self, start: int, stop: int) -> Column:
        return WindowedColumn(self.key.slice(start, stop), self.start[start:stop], self.end[start:stop], self.serde)

    def null_mask(self) -> BoolArray | None:
        return None

    def encoded(self) -> Binary:
        if self._data is None:
            self._data = self.serde.encode_windows(self.key.encoded(), self.start, self.end)
        return self._data

    def decoded(self) -> list[Any]:
        return list(map(Windowed, self.key.decoded(), self.start.tolist(), self.end.tolist()))

    def arrow(self) -> Any:
        return Windowed(self.key.arrow(), pa.array(self.start), pa.array(self.end))

    def routing(self) -> Binary:
        return self.key.routing()

    def _join(self, every: list[Any]) -> Column:
        key = self.key.join([column.key for column in every[1:]])
        start = np.concatenate([column.start for column in every])
        return WindowedColumn(key, start, np.concatenate([column.end for column in every]), self.serde)


def is_routed_alike(one: Column, other: Column) -> bool:
    """Return whether two columns certainly have the same keys, record by record, as far as the partition depends on
    them.
    """
    return _without_windows(one) is _without_windows(other)


def _without_windows(keys: Column) -> Column:
    return keys.key if isinstance(keys, WindowedColumn) else keys


def windows_of(keys: Column) -> tuple[IntArray, IntArray]:
    """Return the starts and ends of the windows of windowed keys."""
    if isinstance(keys, WindowedColumn):
        return keys.start, keys.end
    if isinstance(keys.serde, WindowedSerde):
        return keys.serde.windows(keys.encoded())
    windows = keys.decoded()  # a user's own type
    start, end = (np.array([getattr(window, side) for window in windows], np.int64) for side in ("start", "end"))
    return start, end


def as_written(column: Column) -> Column:
    """Return a column as read back from its bytes: null where ``encode`` gave None."""
    data = column.encoded()
    if not data.null_count:
        return column
    missing = column.null_mask()
    known = 0 if missing is None else int(np.count_nonzero(missing))
    return column if data.null_count == known else BytesColumn(data, column.serde)


def pick(values: list[Any], rows: IntArray) -> list[Any]:
    """Return the values with these numbers, in their order."""
    if len(rows) < 2:
        return [values[row] for row in rows.tolist()]
    return list(itemgetter(*rows.tolist())(values))


def null_column(count: int, serde: Serde = BYTES) -> Column:
    """Return a column of nulls."""
    return BytesColumn(nulls(count), serde)
