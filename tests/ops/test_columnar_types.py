"""Columnar functions of values that are JSON: a dataclass, a Struct or a TypedDict is an Arrow struct."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import numpy as np
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


RETURNED: dict[str, tuple[Any, type, Any]] = {
    "half a number as an int": (pa.array([0.5]), int, "returned 0.5 of type float where int is expected"),
    "a whole float as an int": (pa.array([1.0]), int, "returned 1.0 of type float where int is expected"),
    "NaN as an int": (pa.array([float("nan")]), int, "returned nan of type float where int is expected"),
    "an unsigned int beyond an int": (
        pa.array([2**64 - 1], pa.uint64()),
        int,
        "18446744073709551615 does not fit into",
    ),
    "an unsigned int within": (pa.array([2**63 - 1], pa.uint64()), int, 2**63 - 1),
    "a small int": (pa.array([-5], pa.int8()), int, -5),
    "an int that a float rounds": (pa.array([2**53 + 1]), float, "9007199254740993 has more digits than a float keeps"),
    "an int that a float keeps": (pa.array([2**60]), float, float(2**60)),
    "bytes as an int": (pa.array([b"12345678"]), int, "returned b'12345678' of type bytes where int is expected"),
    "bytes as text": (pa.array([b"\xff"]), str, r"returned b'\\xff' of type bytes where str is expected"),
    "bytes as JSON": (pa.array([b"{"]), dict, "returned b'{' of type bytes where dict is expected"),
    "JSON as bytes": (pa.array([b'{"a":1}']), dict, {"a": 1}),
    "text as bytes": (pa.array([b"x"]), str, "x"),
    "bytes": (pa.array([b"\xff"], pa.large_binary()), bytes, b"\xff"),
    "text": (pa.array(["x"], pa.large_string()), str, "x"),
    "an array of numpy's": (np.array([5]), int, 5),
    "a list": ([5], int, 5),
    "a chunked array": (pa.chunked_array([[5]]), int, 5),
    "a null": (pa.nulls(1), int, None),
}


@pytest.mark.parametrize("name", RETURNED)
def test_what_a_columnar_function_returns_is_judged_as_what_a_plain_one_does(run: Run, name: str):
    array, type_, expected = RETURNED[name]
    builder, stream = source(value=int)
    stream.map_values(columnar(lambda values: array), value=type_).to("out")
    if isinstance(expected, str) and expected != "x":
        with pytest.raises(ProcessingError, match=expected):
            run(builder, [("a", 1, 0)]).output()
    else:
        assert run(builder, [("a", 1, 0)]).output() == [("a", expected, 0)]


@pytest.mark.parametrize(
    ("mask", "kept"), [(pa.nulls(1), False), ([True], True), (np.array([0]), False), (pa.chunked_array([[True]]), True)]
)
def test_a_columnar_predicate_returns_any_array_of_truths(run: Run, mask: Any, kept: bool):
    builder, stream = source(value=int)
    stream.filter(columnar(lambda keys, values: mask)).to("out")
    assert run(builder, [("a", 1, 0)]).output() == ([("a", 1, 0)] if kept else [])


def test_a_columnar_predicate_of_text_is_refused_with_the_function(run: Run):
    builder, stream = source(value=int)
    stream.filter(columnar(lambda keys, values: pa.array(["no"]))).to("out")
    with pytest.raises(ProcessingError, match=r"<lambda> at .* must return an Arrow array of booleans"):
        run(builder, [("a", 1, 0)]).output()
