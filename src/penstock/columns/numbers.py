"""The numbers in the fields of a column of JSON objects, read without an object a record."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import Binary, spans
from penstock.columns.part import Part
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.serdes.json_flat import FlatField, flat_fields

Numbers = dict[str, Part]
"""Whole numbers and floats of many records, by field."""

worth = 300_000
"""Numba takes as long to be imported as objects take for some million records. So it is imported when a process has
read so many of them."""
_KINDS = (pa.string(), pa.int64(), pa.float64(), pa.bool_())
"""The kinds of fields as ``number_scan`` numbers them."""
_MOST_FIELDS = 60
_HAS_NUMBA = importlib.util.find_spec("numba") is not None


def numbers_of(data: Binary, serde: Serde) -> Numbers | None:
    """Return the numbers of records, all of which can be read then; None if they have to be read as objects."""
    global worth
    if data.null_count or not _HAS_NUMBA or not isinstance(serde, JsonSerde) or not serde.is_flat:
        return None
    if worth > 0 and "numba" not in sys.modules:
        worth -= len(data)
        return None
    reader = _reader(serde.type)
    return None if reader is None else reader.read(data)


class NumberReader:
    """Reads the numbers of JSON objects with these fields, by their names in JSON."""

    def __init__(self, fields: dict[str, FlatField]):
        names = [f'"{name}"'.encode() for name in fields]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._ends = np.cumsum([0, *map(len, names)])
        self._fields = list(fields.values())
        self._kinds = np.array([_KINDS.index(one.column) + len(_KINDS) * one.takes_none for one in self._fields])

    def read(self, data: Binary) -> Numbers | None:
        """Return the numbers of records; None if they have to be read as objects."""
        from penstock.columns import compiled, number_scan

        if not compiled.IS_COMPILED:  # Numba is installed, and does not work
            return None
        where, shape = spans(data), (len(self._fields), len(data))
        text = where.data
        if not text.size:
            return None
        text.flags.writeable = False
        whole, floats, present = np.empty(shape, np.int64), np.empty(shape), np.ones(shape, np.bool_)
        fields = (self._names, self._ends, self._kinds)
        if not number_scan.scan(text, where.start, where.length, *fields, whole, floats, present) or not _is_text(data):
            return None
        found: Numbers = {}
        for number, field in enumerate(self._fields):
            there = present[number]
            if field.column in (pa.int64(), pa.float64()):
                values = (whole if field.column == pa.int64() else floats)[number]
                found[field.name] = Part(values, None) if there.all() else Part(np.where(there, values, 0), there)
        return found


def _is_text(data: Binary) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        data.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


@cache
def _reader(type_: Any) -> NumberReader | None:
    """Return what reads the numbers of a type with plain fields; None if it has too many of them."""
    fields = flat_fields(type_)
    return None if fields is None or len(fields) > _MOST_FIELDS else NumberReader(fields)
