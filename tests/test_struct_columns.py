"""Columns of Structs kept field by field give the bytes, values and Arrow arrays that the Structs themselves give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.column import ValuesColumn
from penstock.columns.fields import FieldsColumn
from penstock.columns.part import Part
from penstock.columns.returned import from_arrow
from penstock.errors import SerdeError
from penstock.serdes.arrow_types import arrow_type
from penstock.serdes.json import JsonSerde
from penstock.serdes.structs import StructSerde

TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=True, allow_infinity=True),
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    bool: st.booleans(),
    list[int]: st.lists(st.integers(0, 9), max_size=3),
}


@st.composite
def structs(draw: st.DrawFn) -> tuple[StructSerde, list[tuple[Any, ...] | None]]:
    """A type, and the fields of some values of it."""
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    serde = StructSerde(tuple((f"f{number}__of", kind | None) for number, kind in enumerate(types)))
    row = st.tuples(*(st.none() | TYPES[kind] for kind in types))
    return serde, draw(st.lists(st.none() | row, min_size=1, max_size=6))


def part_of(kind: Any, values: list[Any]) -> Part:
    """A field, as numbers where it has numbers alone."""
    if kind not in (int, float):
        return Part(np.fromiter(values, object, len(values)))
    present = np.array([one is not None for one in values], np.bool_)
    numbers = np.array([0 if one is None else one for one in values], np.dtype(kind))
    return Part(numbers, None if present.all() else present)


def columns_of(serde: StructSerde, rows: list[tuple[Any, ...] | None]) -> tuple[FieldsColumn, ValuesColumn]:
    filled = [(None,) * len(serde.fields) if row is None else row for row in rows]
    columns = zip(serde.fields, zip(*filled, strict=True), strict=True)
    parts = tuple(part_of((set(kind.__args__) - {type(None)}).pop(), list(values)) for (_, kind), values in columns)
    valid = np.array([row is not None for row in rows], np.bool_)
    values = [None if row is None else serde.type(*row) for row in rows]
    return FieldsColumn(parts, serde, None if valid.all() else valid), ValuesColumn(values, serde)


@given(structs(), st.data())
def test_fields_give_what_their_structs_give(given: tuple[StructSerde, list[Any]], data: st.DataObject):
    by_field, by_value = columns_of(*given)
    rows = np.array(data.draw(st.lists(st.integers(0, len(by_value) - 1), min_size=1)), np.int64)
    for one, other in ((by_field, by_value), (by_field.take(rows), by_value.take(rows))):
        assert one.encoded().to_pylist() == other.encoded().to_pylist()
        assert one.arrow().type == other.arrow().type
        assert repr(one.arrow().to_pylist()) == repr(other.arrow().to_pylist())
        assert repr(one.decoded()) == repr(other.decoded())


def test_arrow_is_made_of_fields_and_not_of_bytes():
    serde = StructSerde((("mean", float | None), ("n", int)))
    column = FieldsColumn((Part(np.array([0.5, 0.0]), np.array([True, False])), Part(np.array([2, 3]))), serde)
    serde.arrow = None  # type: ignore[assignment,method-assign]
    assert column.arrow().to_pylist() == [{"mean": 0.5, "n": 2}, {"mean": None, "n": 3}]


def test_arrow_of_half_a_surrogate_pair_fails_as_its_bytes_do():
    serde = StructSerde((("id", str),))
    column = FieldsColumn((Part(np.array(["\ud800"], object)),), serde)
    errors: list[Any] = []
    for made in (column.arrow, column.encoded, ValuesColumn([serde.type("\ud800")], serde).encoded):
        try:
            made()
        except Exception as error:
            errors.append((type(error), str(error)))
    assert len(errors) == 3
    assert len(set(errors)) == 1


class Renamed(msgspec.Struct, rename="camel", kw_only=True):
    net_amount: int | None
    is_paid: bool = True
    item: str
    share: float | None = 0.5


@dataclass
class Order:
    item: str | None
    pieces: int
    price: float = field(default=1.5, kw_only=True)


KINDS = {pa.string(): str, pa.int64(): int, pa.float64(): float, pa.bool_(): bool}


@st.composite
def arrays(draw: st.DrawFn, type_: Any) -> Any:
    """Structs as a columnar function may return them: of other types, without fields, with more of them, in another
    order."""
    fields = {one.name: one.type for one in arrow_type(type_)} | {"more": pa.int64()}
    names = draw(st.permutations(list(fields)))
    if draw(st.integers(0, 4)) == 0:
        names = names[1:]
    if draw(st.integers(0, 4)) == 0:
        fields |= {"pieces": pa.float64(), "share": pa.int64()}
    row = st.fixed_dictionaries({name: st.none() | TYPES[KINDS[fields[name]]] for name in names})
    rows = draw(st.lists(st.none() | row, min_size=1, max_size=6))
    found = pa.array(rows, pa.struct([(name, fields[name]) for name in names]))
    return found[1:] if draw(st.booleans()) else found


def shown(column: Any, what: str) -> Any:
    try:
        return repr(column.encoded().to_pylist() if what == "bytes" else column.decoded())
    except SerdeError as error:
        return str(error)


@pytest.mark.parametrize("type_", [Renamed, Order])
@given(st.data())
def test_structs_that_a_columnar_function_returns_are_what_their_objects_are(type_: Any, data: st.DataObject):
    given = data.draw(arrays(type_))
    serde = JsonSerde(type_)
    for what in ("bytes", "values"):
        expected = ValuesColumn(serde.from_arrow(given), serde)
        assert shown(from_arrow(given, serde), what) == shown(expected, what)


def test_plain_structs_stay_columns():
    given = pa.array([{"item": "tea", "pieces": 2, "price": 0.5}, {"item": 'a "b"', "pieces": 3, "price": 1.0}])
    column = from_arrow(given, JsonSerde(Order))
    assert isinstance(column, FieldsColumn)
    lines = [b'{"item":"tea","pieces":2,"price":0.5}', b'{"item":"a \\"b\\"","pieces":3,"price":1.0}']
    assert column.encoded().to_pylist() == lines
    assert column.slice(0, 1).encoded().to_pylist() == lines[:1]
    assert column.join([column.take(np.array([1]))]).encoded().to_pylist() == [*lines, lines[1]]
    assert column.decoded() == [Order("tea", 2, price=0.5), Order('a "b"', 3, price=1.0)]
    assert column.arrow() == given
