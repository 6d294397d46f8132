"""Columnar functions of values that are JSON: a dataclass, a Struct or a TypedDict is an Arrow struct."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock import columnar
from penstock.errors import ProcessingError, SerdeError
from support.flows import Run, source


@dataclass
class Order:
    item: str
    amount: int | None = None
    tags: list[str] = field(default_factory=list)


class Stock(msgspec.Struct, frozen=True):
    item: str
    amount: int | None = None
    tags: tuple[str, ...] = ()


class Point(TypedDict):
    item: str
    amount: int


@columnar
def is_large(key, value):
    return pc.fill_null(pc.greater(value.field("amount"), 5), False)


@columnar
def doubled(value):
    fields = [value.field(name) for name in ("item", "amount")]
    return pa.StructArray.from_arrays([fields[0], pc.multiply(fields[1], 2)], ["item", "amount"])


@pytest.mark.parametrize("make", [Order, Stock, lambda item, amount: Point(item=item, amount=amount)])
def test_values_of_a_class_are_a_struct_of_its_fields_and_come_back_as_the_class(run: Run, make):
    type_ = make if isinstance(make, type) else Point
    builder, stream = source(value=type_)
    twice = stream.filter(is_large).map_values(doubled, value=type_)
    twice.map_values(lambda value: (value,)[0], value=type_).to("out")
    ran = run(builder, [("a", make("pen", 3), 1), ("b", make("ink", 7), 2), ("c", make("cap", 9), 3)])
    assert ran.output() == [("b", make("ink", 14), 2), ("c", make("cap", 18), 3)]


def test_the_type_is_that_of_the_class_even_where_a_chunk_has_only_nulls(run: Run):
    seen: set[str] = set()

    @columnar
    def note(key, value):
        seen.add(str(value.type))

    builder, stream = source(value=Order)
    stream.peek(note).to("out")
    run(builder, [("a", Order("pen"), 1), ("b", None, 2)]).output()
    assert seen == {"struct<item: string, amount: int64, tags: list<item: string>>"}


def test_a_struct_that_does_not_fit_the_class_fails_for_that_record_alone(run: Run):
    @columnar
    def renamed(value):
        fits = pa.array([item != "ink" for item in value.field("item").to_pylist()])
        item = pc.if_else(fits, value.field("item"), pa.scalar(None, pa.string()))
        return pa.StructArray.from_arrays([item, value.field("amount")], ["item", "amount"])

    builder, stream = source(value=Order)
    stream.map_values(renamed, value=Order).to("out")
    rows: list[Any] = [("a", Order("pen", 3), 1), ("b", Order("ink", 7), 2)]
    ran = run(builder, rows, on_error="skip")
    assert ran.output() == [("a", Order("pen", 3), 1)]


def test_plain_json_that_is_no_one_arrow_type_says_what_to_do(run: Run):
    @columnar
    def same(value):
        return value

    builder, stream = source()
    stream.map_values(same).to("out")
    with pytest.raises(
        (SerdeError, ProcessingError), match="take @columnar away, or read them as a class whose fields"
    ):
        run(builder, [("a", [1, "text"], 1)]).output()
