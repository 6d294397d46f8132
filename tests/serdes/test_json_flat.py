"""JSON objects of plain fields as columns: whatever the bytes, the same as by way of objects, or the same error."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.arrays import binary
from penstock.columns.scanned import FieldScanner
from penstock.errors import SerdeError
from penstock.serdes.arrow_types import arrow_type
from penstock.serdes.json import JsonSerde
from penstock.serdes.json_flat import FlatColumns, flat_fields


@dataclass
class Order:
    item: str
    pieces: int
    price: float
    paid: bool
    note: str | None = None
    gift: bool | None = field(default=False)


WHOLE = '{"item":"tea","pieces":2,"price":1.5,"paid":true,"note":null,"gift":null}'
SERDE = JsonSerde(Order)


def read(way: Any, data: list[Any]) -> Any:
    """What a way gives, or its error."""
    try:
        found = way(binary(data))
        found.validate(full=True)
        return found.type, repr(found.to_pylist())  # NaN is not itself
    except SerdeError as error:
        return str(error)


def with_(old: str, new: str) -> bytes:
    assert old in WHOLE
    return WHOLE.replace(old, new).encode()


ODD: dict[str, bytes | None] = {
    "null": None,
    "the text null": b"null",
    "nothing": b"",
    "no object": b"5",
    "two objects": WHOLE.encode() * 2,
    "two objects in an array": f"[{WHOLE},{WHOLE}]".encode(),
    "a comma behind": WHOLE.encode() + b",",
    "a byte order mark": b"\xef\xbb\xbf" + WHOLE.encode(),
    "blanks around": b" " + WHOLE.encode() + b" ",
    "lines": WHOLE.replace(",", ",\n").encode(),
    "a field twice": with_('"paid":true', '"paid":true,"paid":false'),
    "a field more": with_('"paid":true', '"paid":true,"more":1'),
    "an unknown NaN": with_('"paid":true', '"paid":true,"more":NaN'),
    "a field less": with_('"paid":true,', ""),
    "a default": with_(',"gift":null', ""),
    "no note": with_('"note":null,', ""),
    "null where none may be": with_('"item":"tea"', '"item":null'),
    "an escaped letter": with_("tea", "\\u0074ea"),
    "half of a pair": with_("tea", "\\ud800"),
    "an escape in a name": with_('"item"', '"it\\u0065m"'),
    "a quote": with_("tea", '\\"tea\\"'),
    "braces in text": with_("tea", "{tea}"),
    "no UTF-8": WHOLE.encode().replace(b"tea", b"\xff"),
    "half of a letter": WHOLE.encode().replace(b"tea", b"\xc3"),
    "a control character": WHOLE.encode().replace(b"tea", b"\x01"),
    "a tab in text": WHOLE.encode().replace(b"tea", b"\t"),
    "a float for a whole number": with_('"pieces":2', '"pieces":2.0'),
    "an exponent": with_('"pieces":2', '"pieces":2e3'),
    "more than int64": with_('"pieces":2', '"pieces":9223372036854775808'),
    "a whole number for a float": with_("1.5", "5"),
    "a long whole number for a float": with_("1.5", "123456789012345678901234567890"),
    "too large a float": with_("1.5", "1e400"),
    "a tiny float": with_("1.5", "1e-400"),
    "minus zero": with_("1.5", "-0"),
    "minus zero as a float": with_("1.5", "-0.0"),
    "NaN": with_("1.5", "NaN"),
    "NaN as text": with_("1.5", '"NaN"'),
    "minus infinity": with_("1.5", "-Infinity"),
    "text for a number": with_('"pieces":2', '"pieces":"2"'),
    "a number for a boolean": with_("true", "1"),
    "a leading zero": with_('"pieces":2', '"pieces":02'),
    "a leading plus": with_('"pieces":2', '"pieces":+2'),
    "single quotes": WHOLE.replace('"', "'").encode(),
    "nested": with_('"tea"', '{"tea":1}'),
    "deeply nested": with_('"tea"', "[" * 20_000 + "]" * 20_000),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_records_are_read_or_refused_as_objects_are(what: str):
    for data in ([ODD[what]], [WHOLE.encode(), ODD[what], WHOLE.encode()]):
        assert read(SERDE.arrow, data) == read(SERDE._arrow_of_values, data)


ORDERS = st.builds(
    Order,
    item=st.text(max_size=9),
    pieces=st.integers(-(2**63), 2**63 - 1),
    price=st.floats(allow_nan=False, allow_infinity=False),
    paid=st.booleans(),
    note=st.none() | st.text(max_size=9),
    gift=st.none() | st.booleans(),
)


@given(st.lists(ORDERS, min_size=1, max_size=5), st.data())
def test_any_records_are_read_as_objects_are_also_when_they_are_damaged(orders: list[Order], data: st.DataObject):
    texts = [SERDE.encode(order) for order in orders]
    assert read(SERDE.arrow, list(texts)) == read(SERDE._arrow_of_values, list(texts))
    at = data.draw(st.integers(0, len(texts) - 1))
    where = data.draw(st.integers(0, len(texts[at]) - 1))
    texts[at] = texts[at][:where] + data.draw(st.binary(max_size=2)) + texts[at][where + 1 :]
    assert read(SERDE.arrow, list(texts)) == read(SERDE._arrow_of_values, list(texts))


def test_plain_records_take_the_quick_way():
    flat = FlatColumns.of(Order)
    assert flat is not None
    line = with_('"gift":null', '"gift":true')
    row = {"item": "tea", "pieces": 2, "price": 1.5, "paid": True, "note": None, "gift": True}
    assert flat.read(binary([line] * 3).slice(1)).to_pylist() == [row, row]


SCANNER = FieldScanner(flat_fields(Order) or {})
FIELDS = ("item", "pieces", "price", "paid", "note", "gift")


def assert_fields_are_those_of_objects(data: list[Any]) -> bool:
    """The fields of records are those of their objects, or the records are left to these; whether they are read."""
    found = SCANNER.read(binary(data), SERDE)
    if found is None:
        return False
    objects = SERDE.decode_all(binary(data))
    rows = np.array([*range(len(data)), 0])[::-1]
    for name in FIELDS:
        expected = [None if one is None else getattr(one, name) for one in objects]
        assert repr(found.part(name).listed()) == repr(expected)
        found.arrow(name).validate(full=True)
        assert repr(found.arrow(name).to_pylist()) == repr(expected)
        assert repr(found.take(rows).arrow(name).to_pylist()) == repr([*expected, expected[0]][::-1])
        assert repr(found.take(rows).take(slice(1, 2)).part(name).listed()) == repr(expected[-1:])
    assert read(lambda data: found.struct(arrow_type(Order)), list(data)) == read(SERDE._arrow_of_values, list(data))
    return True


@pytest.mark.parametrize("what", ODD)
def test_fields_of_odd_records_are_read_as_objects_are_or_not_at_all(what: str):
    for data in ([ODD[what]], [WHOLE.encode(), ODD[what], WHOLE.encode()]):
        assert_fields_are_those_of_objects(data)


LAYOUTS: Any = st.sampled_from(
    [
        ("item", "pieces", "price", "paid", "note", "gift"),
        ("gift", "more", "price", "paid", "pieces", "item"),
        ("pieces", "price", "paid", "item", "note", "other", "gift", "more"),
        ("item", "pieces", "price", "paid", "note", "note", "gift"),
        ("item", "price", "paid", "gift"),
    ]
)
OTHERS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
OTHERS |= st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)
BLANKS = st.sampled_from(["", "", " ", "\n"])


@st.composite
def texts_of(draw: st.DrawFn) -> list[bytes | None]:
    """JSON as others write it: other orders, unknown and missing fields, escapes, blanks."""
    found: list[bytes | None] = []
    for order in draw(st.lists(st.none() | ORDERS, min_size=1, max_size=12)):
        if order is None:
            found.append(None)
            continue
        escapes, blank = draw(st.booleans()), draw(BLANKS)
        fields = []
        for name in draw(LAYOUTS):
            value = getattr(order, name) if name in FIELDS else draw(OTHERS)
            written = json.dumps(value, ensure_ascii=escapes) if name != "price" else repr(value)
            fields.append(f'"{name}":{blank}{written}{blank}')
        found.append(("{" + f",{blank}".join(fields) + "}").encode())
    return found


@given(texts_of(), st.data())
def test_fields_are_those_of_objects_also_of_damaged_records(texts: list[bytes | None], data: st.DataObject):
    if all(one is None or b"[" not in one for one in texts):
        assert_fields_are_those_of_objects(list(texts))
    at = data.draw(st.integers(0, len(texts) - 1))
    if text := texts[at]:
        where = data.draw(st.integers(0, len(text) - 1))
        texts[at] = text[:where] + data.draw(st.binary(max_size=2)) + text[where + 1 :]
    assert_fields_are_those_of_objects(list(texts))


NUMBERS = ["0", "7", "-7", "0.5", "-0.5", "100.25", "0.1", "1.7", "123456789012345", "12345678.0123456", "0.000001"]
NUMBERS += ["0.1234567890123456", "-1234567890.123456789", "-0.0", "0.30000000000000004", "123456789012345678901234567"]


@pytest.mark.parametrize("number", NUMBERS)
def test_usual_records_are_read_without_an_object(number: str, monkeypatch: pytest.MonkeyPatch):
    price = with_("1.5", number)
    shuffled = (
        b'{ "price": ' + number.encode() + b', "gift":null, "note":"\xc3\xbc", "paid":false, "item":"", "pieces":3}'
    )
    more = with_('"paid":true', f'"a":"b\\n","paid":true,"c":null,"d":{number}')
    missing, escaped = with_('"note":null,', ""), with_("tea", '\\"tea\\\\\\n')
    data: list[Any] = [WHOLE.encode(), price, shuffled, more, missing, escaped, None]
    assert assert_fields_are_those_of_objects(data)
    monkeypatch.setattr(JsonSerde, "decode_all", None)
    assert SCANNER.read(binary(data), SERDE) is not None


@pytest.mark.parametrize("odd", ["an exponent", "an escaped letter", "a field twice", "more than int64"])
def test_one_odd_record_is_read_as_an_object_and_the_others_are_not(odd: str, monkeypatch: pytest.MonkeyPatch):
    taken = []
    decode_all = JsonSerde.decode_all
    monkeypatch.setattr(JsonSerde, "decode_all", lambda serde, data: taken.append(len(data)) or decode_all(serde, data))
    read = SCANNER.read(binary([*[WHOLE.encode()] * 50, ODD[odd], *[WHOLE.encode()] * 50]), SERDE)
    assert taken == [1]
    assert (read is None) == (odd in ("an exponent", "more than int64"))
    SCANNER.read(binary([*[WHOLE.encode()] * 50, *[ODD[odd]] * 50]), SERDE)
    assert taken == [1]


class Renamed(msgspec.Struct, rename="camel"):
    net_amount: int | None
    is_paid: bool = True


def test_fields_go_by_the_names_in_python_and_may_be_none():
    data = binary([b'{"netAmount":5,"isPaid":true}', b'{"isPaid":false,"netAmount":null}'])
    found = FieldScanner(flat_fields(Renamed) or {}).read(data, JsonSerde(Renamed))
    assert found is not None
    assert [found.part(name).listed() for name in ("net_amount", "is_paid")] == [[5, None], [True, False]]
    rows = [{"netAmount": 5, "isPaid": True}, {"netAmount": None, "isPaid": False}]
    assert found.struct(arrow_type(Renamed)).to_pylist() == rows


class Defaulted(msgspec.Struct):
    n: int = 7
    item: str = "plain"
    note: str | None = "none"
    weight: float = 0.5
    paid: bool = True


@given(st.lists(st.dictionaries(st.sampled_from(["n", "item", "note", "weight", "paid", "more"]), st.integers(0, 2))))
def test_missing_fields_are_their_defaults(given: list[dict[str, int]]):
    texts: dict[str, Any] = {"item": ["", "é", 'a"'], "note": [None, "x", "\n"], "weight": [0.5, 2.5, 1e-17]}
    texts |= {"paid": [True, False, True]}
    rows = [{name: texts.get(name, range(3))[one] for name, one in row.items()} for row in given]
    data = [*(json.dumps(row).encode() for row in rows), b'{"n":5}', None, b"{}"]
    serde = JsonSerde(Defaulted)
    found = FieldScanner(flat_fields(Defaulted) or {}).read(binary(data), serde)
    objects = serde.decode_all(binary(data))
    if found is not None:
        for name in Defaulted.__struct_fields__:
            expected = [None if one is None else getattr(one, name) for one in objects]
            assert repr(found.part(name).listed()) == repr(expected)
            assert repr(found.arrow(name).to_pylist()) == repr(expected)


def test_records_without_fields_that_have_defaults_are_read_without_an_object(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(JsonSerde, "decode_all", None)
    scanner = FieldScanner(flat_fields(Defaulted) or {})
    found = scanner.read(binary([b'{"n":5}', b'{"note":null,"item":"x"}'] * 9), JsonSerde(Defaulted))
    assert found is not None
    assert found.struct(arrow_type(Defaulted)).to_pylist()[-2:] == [
        {"n": 5, "item": "plain", "note": "none", "weight": 0.5, "paid": True},
        {"n": 7, "item": "x", "note": None, "weight": 0.5, "paid": True},
    ]


class Whole(msgspec.Struct):
    fee: float = 0


def test_defaults_of_another_type_than_the_field_stay_as_they_are():
    found = FieldScanner(flat_fields(Whole) or {}).read(binary([b"{}"]), JsonSerde(Whole))
    assert found is None or repr(found.part("fee").listed()) == repr([Whole().fee])


@dataclass
class Checked:
    n: int

    def __post_init__(self) -> None:
        self.n += 1


@dataclass
class Derived:
    n: int
    twice: int = field(init=False, default=0)


class Omitting(msgspec.Struct, omit_defaults=True):
    n: int = 0


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    n: int


class Small(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(lt=5)]


class Nested(msgspec.Struct):
    n: list[int]


class Dict(TypedDict):
    n: int


@pytest.mark.parametrize("type_", [Checked, Derived, Omitting, Strict, Small, Nested, Dict, dict, int, Any])
def test_types_with_rules_of_their_own_do_not(type_: Any):
    assert FlatColumns.of(type_) is None
    assert pa.types.is_integer(JsonSerde(int).arrow(binary([b"5"])).type)
