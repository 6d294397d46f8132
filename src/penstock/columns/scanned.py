"""The fields of a column of JSON objects, read without an object a record."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, BoolArray, IntArray, spans
from penstock.columns.part import Part, TextPart
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.serdes.json_flat import TYPES, FlatField, flat_fields
from penstock.values.decoding import json_decoder

worth = 300_000
"""Numba takes as long to be imported as objects take for some million records. So it is imported when a process has
read so many of them."""
_KINDS = (pa.string(), pa.int64(), pa.float64(), pa.bool_())
"""The kinds of fields as ``json_scan`` numbers them."""
_MOST_FIELDS = 60
_MOST_ODD = 8
"""Of so many records, one may have to be read as an object."""
_HAS_NUMBA = importlib.util.find_spec("numba") is not None


class Fields:
    """The fields of many records, by their names in Python. Each is made when asked for."""

    def __init__(self, scanned: Scanned, rows: IntArray | slice | None = None):
        self._scanned = scanned
        self._rows = rows

    def take(self, rows: IntArray | slice) -> Fields:
        """Return the fields of these records."""
        every = np.arange(self._scanned.count) if self._rows is None else self._rows
        if isinstance(every, slice):
            every = np.arange(*every.indices(self._scanned.count))
        return Fields(self._scanned, every[rows] if self._rows is not None else rows)

    def number(self, name: str) -> Part | None:
        """Return a field of numbers; None if it has others."""
        field = self._scanned.fields[name]
        return self.part(name) if field.column in (pa.int64(), pa.float64()) else None

    def text(self, name: str) -> TextPart | None:
        """Return a field of text; None if it has others."""
        return TextPart(self.arrow(name)) if self._scanned.fields[name].column == pa.string() else None

    def part(self, name: str) -> Part:
        """Return a field."""
        part = self._scanned.part(name)
        return part if self._rows is None else part.take(self._rows)

    def arrow(self, name: str) -> Any:
        """Return a field as an Arrow array, null where it is None."""
        array = self._scanned.arrow(name)
        if self._rows is None:
            return array
        rows = self._rows
        return array[rows] if isinstance(rows, slice) else array.take(pa.array(rows))

    def struct(self, kind: Any) -> Any:
        """Return all fields as an Arrow array of structs."""
        arrays = [self.arrow(name) for name in self._scanned.fields]
        missing = self._scanned.missing
        if missing is not None and self._rows is not None:
            missing = missing[self._rows]
        return pa.StructArray.from_arrays(
            arrays, fields=list(kind), mask=None if missing is None else pa.array(missing)
        )


class Scanned:
    """The fields of a column as the scanner left them."""

    def __init__(self, data: Binary, fields: list[FlatField]):
        self.fields = {field.name: field for field in fields}
        self.count = len(data)
        shape = len(fields), len(data)
        where = spans(data)
        self._text, self.start, self.length = where.data, where.start, where.length
        self.missing = data.is_null().to_numpy(zero_copy_only=False) if data.null_count else None
        self.whole, self.floats = np.empty(shape, np.int64), np.empty(shape)
        self.extent, self.present = np.zeros(shape, np.int32), np.ones(shape, np.bool_)
        self.fit = np.ones(len(data), np.bool_)
        self._numbers = {field.name: number for number, field in enumerate(fields)}
        self._odd: dict[str, list[Any]] = {}
        self._parts: dict[str, Part] = {}
        self._arrays: dict[str, Any] = {}

    def fill(self) -> None:
        """Fill in the defaults of missing numbers and truths."""
        from penstock.columns import json_scan

        for name, number in self._numbers.items():
            field = self.fields[name]
            if field.default is None or field.column == pa.string():
                continue
            rows = self.extent[number] == json_scan.ABSENT
            if rows.any():
                (self.floats if field.column == pa.float64() else self.whole)[number, rows] = field.default
                self.extent[number, rows] = 0

    def add(self, odd: list[Any]) -> None:
        """Add records that were read as objects.

        Raises:
            OverflowError: a number is of more than 64 bits.
            TypeError: a default is of another type than its field.
        """
        rows = np.flatnonzero(~self.fit)
        for name, number in self._numbers.items():
            values = [getattr(one, name) for one in odd]
            there = np.array([one is not None for one in values], np.bool_)
            self.present[number, rows] = there
            self.extent[number, rows] = 0
            kind = self.fields[name].column
            if not {NoneType, TYPES[kind]}.issuperset(map(type, values)):
                raise TypeError(name)
            if kind == pa.string():
                self._odd[name] = values
            else:
                room = self.floats if kind == pa.float64() else self.whole
                room[number, rows] = np.array([0 if one is None else one for one in values], room.dtype)

    def part(self, name: str) -> Part:
        if name not in self._parts:
            self._parts[name] = self._part(name)
        return self._parts[name]

    def _part(self, name: str) -> Part:
        number, kind = self._numbers[name], self.fields[name].column
        there = self.present[number]
        present = None if there.all() else there
        if kind == pa.string():
            return Part(np.array(self.arrow(name), object), present)
        values = self.floats[number] if kind == pa.float64() else self.whole[number]
        if kind == pa.float64() and (long := np.flatnonzero((self.extent[number] > 0) & there)).size:
            values[long] = pc.cast(self._texts(number, long), pa.float64()).to_numpy()
        values = values if present is None else np.where(there, values, 0)
        return Part(values.astype(np.bool_) if kind == pa.bool_() else values, present)

    def arrow(self, name: str) -> Any:
        if name not in self._arrays:
            self._arrays[name] = self._array(name)
        return self._arrays[name]

    def _array(self, name: str) -> Any:
        number, kind = self._numbers[name], self.fields[name].column
        if kind != pa.string():
            part = self.part(name)
            return pa.array(part.values, mask=None if part.present is None else ~part.present, from_pandas=False)
        there = self.present[number]
        odd = ~self.fit | (self.extent[number] < 0)
        array = self._texts(number, None, there & ~odd)
        if not (odd & there).any():
            return array
        values = iter(self._odd.get(name, ()))
        found = []
        for row in np.flatnonzero(odd).tolist():
            found.append(self._escaped(number, row, self.fields[name].default) if self.fit[row] else next(values))
        return pc.replace_with_mask(array, pa.array(odd), pa.array(found, pa.string()))

    def _escaped(self, number: int, row: int, default: Any) -> Any:
        """Return a text that has escapes or is missing; None if it is none."""
        from penstock.columns import json_scan

        if not self.present[number, row]:
            return None
        if self.extent[number, row] == json_scan.ABSENT:
            return default
        start = self.whole[number, row] - 1
        return _TEXT(self._text[start : start + 1 - self.extent[number, row]].tobytes())

    def _texts(self, number: int, rows: IntArray | None, there: BoolArray | None = None) -> Any:
        """Return texts, cut out of the bytes; null where not ``there``."""
        from penstock.columns import json_scan

        start, extent = self.whole[number], self.extent[number]
        if rows is not None:
            start, extent = start[rows], extent[rows]
        offsets = np.zeros(len(start) + 1, np.int32)
        np.cumsum(extent if there is None else np.where(there, extent, 0), out=offsets[1:])
        found = np.empty(int(offsets[-1]), np.uint8)
        json_scan.gather(self._text, start, offsets, found)
        valid = None
        if there is not None and not there.all():
            valid = pa.py_buffer(np.packbits(there, bitorder="little"))
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(found)]
        return pa.Array.from_buffers(pa.string(), len(start), buffers)


_TEXT = json_decoder(str).decode


def fields_of(data: Binary, serde: Serde) -> Fields | None:
    """Return the fields of records, all of which can be read then; None if they have to be read as objects."""
    global worth
    if not len(data) or not _HAS_NUMBA or not isinstance(serde, JsonSerde) or not serde.is_flat:
        return None
    if worth > 0 and "numba" not in sys.modules:
        worth -= len(data)
        return None
    reader = _reader(serde.type)
    return None if reader is None else reader.read(data, serde)


class FieldScanner:
    """Reads JSON objects with these fields, by their names in JSON."""

    def __init__(self, fields: dict[str, FlatField]):

        names = [f'"{name}"'.encode() for name in fields]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._ends = np.cumsum([0, *map(len, names)])
        self._fields = list(fields.values())
        self._kinds = np.array([_kind(one) for one in self._fields])

    def read(self, data: Binary, serde: Serde) -> Fields | None:
        """Return the fields of records; None if they have to be read as objects."""
        from penstock.columns import compiled, json_scan

        if not compiled.IS_COMPILED:  # Numba is installed, and does not work
            return None
        found = Scanned(data, self._fields)
        text = spans(data).data
        if not text.size:
            return None
        text.flags.writeable = False
        there = np.ones(len(data), np.bool_) if found.missing is None else ~found.missing
        are_read = json_scan.scan(
            *(text, found.start, found.length, there, self._names, self._ends, self._kinds),
            found.whole,
            found.floats,
            found.extent,
            found.present,
            found.fit,
            1 + len(data) // _MOST_ODD,
        )
        if not are_read or not _is_text(data):
            return None
        found.fill()
        if not found.fit.all():
            try:
                found.add(serde.decode_all(data.take(pa.array(np.flatnonzero(~found.fit)))))
            except Exception:  # reading them as objects tells which one fails
                return None
        return Fields(found)


def _kind(field: FlatField) -> int:
    from penstock.columns import json_scan

    kind = _KINDS.index(field.column) + json_scan.OR_NONE * field.takes_none
    if field.default is not None:
        return kind + json_scan.OR_DEFAULT
    return kind + json_scan.OR_ABSENT * field.is_none_by_default


def _is_text(data: Binary) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        data.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


@cache
def _reader(type_: Any) -> FieldScanner | None:
    """Return what reads the fields of a type with plain ones; None if it has too many of them."""
    fields = flat_fields(type_)
    return None if fields is None or len(fields) > _MOST_FIELDS else FieldScanner(fields)
