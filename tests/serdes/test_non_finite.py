"""NaN and the infinities in JSON: text where a class says float, and a refusal where nothing does."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pytest

from penstock.errors import SerdeError
from penstock.serdes import of

NAN, INF = math.nan, math.inf


@dataclass
class Inner:
    share: float | None = None


@dataclass
class Reading:
    name: str
    value: float
    by_day: dict[date, float] = field(default_factory=dict)
    parts: list[Inner] = field(default_factory=list)
    pair: tuple[int, float] = (0, 0.0)
    price: Decimal = Decimal("1.50")
    raw: bytes = b"\x00"
    next: Reading | None = None


class Sample(msgspec.Struct, array_like=True):
    name: str
    value: float


class Typed(TypedDict):
    value: float


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (list[float], [NAN, 1.5, INF], '["NaN",1.5,"Infinity"]'),
        (dict[str, float | None], {"a": -INF, "b": None}, '{"a":"-Infinity","b":null}'),
        (Typed, {"value": NAN}, '{"value":"NaN"}'),
        (Sample, Sample("NaN", NAN), '["NaN","NaN"]'),
        (Inner, Inner(NAN), '{"share":"NaN"}'),
        (dict[int, Inner], {1: Inner(INF)}, '{"1":{"share":"Infinity"}}'),
    ],
)
def test_where_a_type_says_float_they_are_text(type_: Any, value: Any, text: str):
    serde = of(type_)
    assert serde.encode(value) == text.encode()
    assert serde.encode_all([None, value]).to_pylist() == [None, text.encode()]
    encode, decode = serde.converters
    data = encode(value)
    assert data == text.encode()
    for found in (serde.decode(data), decode(data), serde.decode_all(serde.encode_all([value]))[0]):
        assert repr(found) == repr(value)


def test_everything_else_in_such_a_value_is_as_it_was():
    value = Reading("NaN", NAN, {date(2026, 1, 2): INF}, [Inner(NAN), Inner()], (1, -INF), next=Reading("x", INF))
    serde = of(Reading)
    assert repr(serde.decode(serde.encode(value))) == repr(value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [(dict, {"a": NAN}), (list, [{"a": [INF]}]), (Any, {"a": NAN}), (dict[str, Any], {"a": -INF})],
)  # fmt: skip
def test_where_no_type_says_so_they_are_refused(type_: Any, value: Any):
    for encode in (of(type_).encode, lambda value: of(type_).encode_all([value])):
        with pytest.raises(SerdeError, match=r"JSON has no number (nan|inf|-inf); use None"):
            encode(value)


def test_other_text_is_no_float():
    with pytest.raises(SerdeError, match="Expected `float`, got `str`"):
        of(Reading).decode(b'{"name": "NaN", "value": "1.5"}')
    with pytest.raises(SerdeError, match="Expected `float`, got `str`"):
        of(list[float]).decode(b'["NaN", "nan"]')
    with pytest.raises(SerdeError, match="Expected `int`, got `str`"):
        of(dict[str, int]).decode(b'{"a": "NaN"}')
