"""Any value comes back from its bytes, alone and in a column; a column's bytes are those of each value alone."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Windowed
from penstock.columns.column import BytesColumn, ValuesColumn
from penstock.errors import SerdeError
from penstock.serdes import BYTES, FLOAT, INT, JSON, STR, Serde, TimeWindowedSerde, of


@dataclass
class Order:
    item: str
    amount: int = 1
    tags: list[str] = field(default_factory=list)


class Leg(msgspec.Struct, frozen=True):
    to: str
    minutes: float | None = None


class Stop(msgspec.Struct, frozen=True):
    airport: str
    minutes: float


class Flight(msgspec.Struct):
    carrier: str
    legs: list[Leg] = []
    late: bool = False


class Point(TypedDict):
    x: int
    y: float


longs = st.integers(-(2**63), 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
some_json = json_values.filter(lambda value: value is not None)
legs = st.builds(Leg, st.text(), st.none() | finite)
starts = st.integers(0, 2**63 - 1)

SERDES: dict[str, tuple[Serde, st.SearchStrategy[Any]]] = {
    "bytes": (BYTES, st.binary()),
    "str": (STR, st.text()),
    "int": (INT, longs),
    "float": (FLOAT, st.floats(allow_nan=False)),
    "json": (JSON, some_json),
    "dict": (of(dict), st.dictionaries(st.text(), json_values)),
    "bool": (of(bool), st.booleans()),
    "list": (of(list[int]), st.lists(longs)),
    "dataclass": (of(Order), st.builds(Order, st.text(), longs, st.lists(st.text(), max_size=3))),
    "struct": (of(Flight), st.builds(Flight, st.text(), st.lists(legs, max_size=3), st.booleans())),
    "typed dict": (of(Point), st.fixed_dictionaries({"x": longs, "y": finite})),
    "windowed str": (TimeWindowedSerde(STR, 10), st.builds(Windowed, st.text(), starts, st.none())),
    "windowed int": (TimeWindowedSerde(INT, 1), st.builds(Windowed, longs, starts, st.none())),
}

columns = st.sampled_from(sorted(SERDES)).flatmap(
    lambda name: st.tuples(st.just(SERDES[name][0]), st.lists(st.none() | SERDES[name][1], max_size=8))
)


def with_ends(serde: Serde, values: list[Any]) -> list[Any]:
    """Windowed keys with the end that follows from the serde's size; everything else as it is."""
    if not isinstance(serde, TimeWindowedSerde):
        return values
    return [None if v is None else v._replace(end=min(v.start + serde.size, 2**63 - 1)) for v in values]


@given(columns)
def test_values_come_back_and_a_column_equals_its_values_one_by_one(drawn: tuple[Serde, list[Any]]):
    serde, values = drawn[0], with_ends(*drawn)
    alone = [None if value is None else serde.encode(value) for value in values]
    column = serde.encode_all(values)

    assert (column.type, column.to_pylist()) == (pa.binary(), alone)
    assert serde.decode_all(column) == values
    assert [None if data is None else serde.decode(data) for data in alone] == values
    encode, decode = serde.converters
    assert [None if value is None else decode(encode(value)) for value in values] == values


@given(columns, st.data())
def test_a_slice_of_a_column_is_the_slice_of_its_values(drawn: tuple[Serde, list[Any]], data: st.DataObject):
    serde, values = drawn[0], with_ends(*drawn)
    start = data.draw(st.integers(0, len(values)))
    length = data.draw(st.integers(0, len(values) - start))
    part = serde.encode_all(values).slice(start, length)
    assert serde.decode_all(part) == values[start : start + length]


@given(columns)
def test_arrow_arrays_hold_the_same_values(drawn: tuple[Serde, list[Any]]):
    serde, values = drawn[0], with_ends(*drawn)
    if serde in (BYTES, STR, INT, FLOAT):
        assert serde.arrow(serde.encode_all(values)).to_pylist() == values
    elif isinstance(serde, TimeWindowedSerde):
        keys = [None if value is None else value.key for value in values]
        found = serde.arrow(serde.encode_all(values))
        assert found.key.to_pylist() == keys
        present = [i for i, value in enumerate(values) if value is not None]
        assert [found.start[i].as_py() for i in present] == [values[i].start for i in present]
        assert [found.end[i].as_py() for i in present] == [values[i].end for i in present]


@given(st.sampled_from(sorted(SERDES)), st.lists(st.none() | st.binary(max_size=20), max_size=6))
def test_any_bytes_decode_alike_alone_and_in_a_column_or_not_at_all(name: str, data: list[bytes | None]):
    serde = SERDES[name][0]
    column = BYTES.encode_all(data)
    try:
        alone = [None if item is None else serde.decode(item) for item in data]
    except SerdeError:
        with pytest.raises(SerdeError):
            serde.decode_all(column)
    else:
        assert repr(serde.decode_all(column)) == repr(alone)  # NaN equals itself only as text


@given(columns)
def test_columns_that_are_given_as_values_or_as_bytes_are_equal(drawn: tuple[Serde, list[Any]]):
    serde, values = drawn[0], with_ends(*drawn)
    from_values = ValuesColumn(values, serde)
    from_bytes = BytesColumn(serde.encode_all(values), serde)
    assert from_values.encoded().to_pylist() == from_bytes.encoded().to_pylist()
    assert from_values.decoded() == from_bytes.decoded() == values
    masks = [column.null_mask() for column in (from_values, from_bytes)]
    nulls = [value is None for value in values]
    assert [[False] * len(values) if mask is None else mask.tolist() for mask in masks] == [nulls, nulls]


def test_json_that_is_given_as_it_is_may_have_several_lines_in_a_column_too():
    values = [{"legs": msgspec.Raw(b"[1,\n2]")}, {"legs": msgspec.Raw(b"[]")}, {"carrier": "a\nb"}]
    column = of(dict).encode_all(values)
    assert column.to_pylist() == [b'{"legs":[1,\n2]}', b'{"legs":[]}', b'{"carrier":"a\\nb"}']


@pytest.mark.parametrize("name", sorted(SERDES))
def test_a_serde_travels_to_other_processes(name: str):
    serde = SERDES[name][0]
    back = pickle.loads(pickle.dumps(serde))
    assert (back, hash(back), back.name, back.immutable) == (serde, hash(serde), serde.name, serde.immutable)


def test_serdes_differ_by_what_they_write():
    every = [serde for serde, _ in SERDES.values()]
    assert len(set(every)) == len(every)
    assert TimeWindowedSerde(STR, 10) != TimeWindowedSerde(STR, 11)
    assert of(dict[str, int]) != of(dict[str, str])


@pytest.mark.parametrize(
    ("serde", "immutable"),
    [
        *((serde, True) for serde in (BYTES, STR, INT, FLOAT, of(bool), of(Stop))),
        *((serde, False) for serde in (JSON, of(dict), of(list[int]), of(Order), of(Flight))),
    ],
)
def test_only_values_that_cannot_change_in_place_are_taken_as_they_are(serde: Serde, immutable: bool):
    assert serde.immutable is immutable


def test_whole_numbers_become_floats():
    assert (FLOAT.decode(FLOAT.encode(3)), FLOAT.encode(3)) == (3.0, FLOAT.encode(3.0))


def test_missing_fields_take_their_defaults_and_unknown_ones_are_left_out():
    assert of(Order).decode(b'{"item":"x","colour":"red"}') == Order("x", 1, [])
    assert of(Flight).decode(b'{"carrier":"UA","legs":[{"to":"SFO"}]}') == Flight("UA", [Leg("SFO")])
    assert of(Order).encode(Order("x", 2, ["a"])) == b'{"item":"x","amount":2,"tags":["a"]}'
