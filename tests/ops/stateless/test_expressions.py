"""Expressions such as ``col("amount") > 20`` in place of functions: they give what the same lambdas give."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import ProcessingError, StreamsBuilder, TopologyError, col
from penstock.arrays import binary
from penstock.columns import scanned
from penstock.columns.column import BytesColumn, Column, ValuesColumn
from penstock.columns.fields import FieldsColumn
from penstock.ops.core.computed import computed_column, computed_truth
from penstock.plan.expressions.expression import as_expression
from penstock.plan.expressions.typed import construction, evaluation
from penstock.serdes import of
from penstock.serdes.json import JsonSerde
from support.flows import Run


class Order(msgspec.Struct, frozen=True):
    id: str
    amount: int
    price: float = 0.0
    region: str | None = None
    paid: bool = True
    pieces: int | None = None


class Slim(msgspec.Struct, frozen=True):
    id: str
    amount: int


@dataclass
class Named:
    name: str
    value: float
    region: str | None = None


ROWS = [
    ("in", "a", Order("x", 30, 1.5, "no"), 1),
    ("in", "b", Order("y", 5, 2.5), 2),
    ("in", "c", Order('z"', 21, 0.5, "se", False), 3),
    ("in", "a", Order("w", 40, 4.0, "no"), 4),
]


@pytest.fixture(autouse=True)
def scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba from the first record on, as after many."""
    monkeypatch.setattr(scanned, "worth", 0)


def ran(run: Run, step: Any, rows: Any = ROWS, **settings: Any) -> list[Any]:
    builder = StreamsBuilder()
    step(builder.stream("in", key=str, value=Order)).to("out")
    return run(builder, rows, **settings).output()


def test_a_condition_filters(run: Run):
    kept = [("a", ROWS[0][2], 1), ("a", ROWS[3][2], 4)]
    assert ran(run, lambda s: s.filter((col("amount") > 20) & col("paid"))) == kept
    assert ran(run, lambda s: s.filter_not(~(col("amount") > 20) | ~col("paid"))) == kept
    assert ran(run, lambda s: s.filter(col("region") == "no")) == kept
    assert ran(run, lambda s: s.filter(col("region").or_else("no") != "se").filter(col("amount") / 2 >= 15.0)) == kept
    assert (
        ran(run, lambda s: s.filter((col("amount") % 4 == 2) & (-col("amount") // 7 == -5) & (1 % col("price") > 0)))
        == kept[:1]
    )
    assert ran(run, lambda s: s.filter(col("pieces").is_none() & (col("amount") + 0 > 20) & col("paid"))) == kept


def test_objects_are_made_of_expressions(run: Run):
    slim = [("a", Slim("x", 60), 1), ("b", Slim("y", 10), 2), ("c", Slim('z"', 42), 3), ("a", Slim("w", 80), 4)]
    assert ran(run, lambda s: s.map_values(Slim, id=col("id"), amount=col("amount") * 2)) == slim
    named = ran(run, lambda s: s.map_values(Named, name=col("id") + "!", value=col("price") + 1, region="all"))
    assert [value for _, value, _ in named] == [
        Named("x!", 2.5, "all"),
        Named("y!", 3.5, "all"),
        Named('z"!', 1.5, "all"),
        Named("w!", 5.0, "all"),
    ]
    assert ran(run, lambda s: s.map_values(col("amount") * 2)) == [
        ("a", 60, 1),
        ("b", 10, 2),
        ("c", 42, 3),
        ("a", 80, 4),
    ]


def test_keys_are_fields_of_the_values_and_records_without_one_are_in_no_group(run: Run):
    assert [key for key, _, _ in ran(run, lambda s: s.select_key(col("id")))] == ["x", "y", 'z"', "w"]
    counts = ran(run, lambda s: s.group_by(col("region")).count().to_stream())
    assert counts == [("no", 1, 1), ("se", 1, 3), ("no", 2, 4)]
    assert [key for key, _, _ in ran(run, lambda s: s.select_key(col("amount") - 1))] == [29, 4, 20, 39]


def test_steps_that_follow_each_other_read_and_write_columns_alone(run: Run, monkeypatch: pytest.MonkeyPatch):
    def chain(stream: Any) -> Any:
        slim = stream.filter(col("amount") > 20).map_values(Slim, id=col("id"), amount=col("amount") * 2)
        return slim.filter(col("amount") < 70).select_key(col("id"))

    expected = [("x", Slim("x", 60), 1), ('z"', Slim('z"', 42), 3)]
    assert ran(run, chain) == expected
    decode_all = JsonSerde.decode_all

    def decode_no_orders(serde: JsonSerde, data: Any) -> list[Any]:
        assert serde.type is not Order
        return decode_all(serde, data)

    monkeypatch.setattr(JsonSerde, "decode_all", decode_no_orders)
    monkeypatch.setattr(ValuesColumn, "encoded", None)
    assert ran(run, chain) == expected


def test_a_record_for_which_the_lambda_fails_fails(run: Run):
    rows = [("in", "a", Order("x", 1, pieces=5), 1), ("in", "b", Order("y", 2), 2), ("in", "c", None, 3)]
    step = lambda s: s.filter(col("pieces") > 1)  # noqa: E731
    assert ran(run, step, rows, on_error="skip") == [("a", rows[0][2], 1)]
    with pytest.raises(ProcessingError) as failed:
        ran(run, step, rows)
    assert "partition 0, offset 1: TypeError: '>' not supported between instances of 'NoneType' and 'int'" in str(
        failed.value
    )
    assert 'the function: col("pieces") > 1 at ' in str(failed.value)
    with pytest.raises(ProcessingError, match="the record has no value, and so no field 'pieces'"):
        ran(run, step, rows[2:])
    assert ran(run, lambda s: s.map_values(col("amount") / (col("amount") - 1)), rows[:2], on_error="skip") == [
        ("b", 2.0, 2)
    ]


def test_values_of_any_type_are_read_record_by_record(run: Run):
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    stream.filter(col("payload.n") > 1).map_values(col("payload.id"), value=str).to("out")
    rows = [("in", "a", {"payload": {"n": 2, "id": "x"}}, 1), ("in", "b", {"payload": {"n": 1, "id": "y"}}, 2)]
    assert run(builder, rows).output() == [("a", "x", 1)]


REFUSED: dict[str, tuple[Any, str]] = {
    "an unknown field": (
        lambda s: s.filter(col("amonut") > 3),
        "Order has no field 'amonut' (did you mean 'amount'?); its fields are id, amount, price, region, paid, pieces",
    ),
    "no condition": (lambda s: s.filter(col("amount") * 2), "is of type int, and filter takes a condition; compare it"),
    "text and a number": (
        lambda s: s.filter_not(col("id") > 3),
        '> has no meaning for col("id") of type str and 3 of type int',
    ),
    "twice a truth": (lambda s: s.map_values(col("paid") * 2), '* has no meaning for col("paid") of type bool'),
    "a field too few": (lambda s: s.map_values(Slim, id=col("id")), "Slim needs the field amount, too"),
    "a field too many": (
        lambda s: s.map_values(Slim, id=col("id"), amout=1),
        "Slim has no field 'amout' (did you mean 'amount'?); its fields are id, amount",
    ),
    "a field of another type": (
        lambda s: s.map_values(Slim, id=col("amount"), amount=1),
        "Slim: id=col(\"amount\") is of type int, and the field 'id' takes str",
    ),
    "no class": (lambda s: s.map_values(3, id=col("id")), "3 has no fields"),
    "and": (lambda s: s.filter(col("paid") and col("paid")), "has no truth by itself: it has one for each record"),
    "a function": (lambda s: s.filter((col("amount") > 1) & (lambda value: False)), "which it would not call"),
    "a function for a field": (lambda s: s.map_values(Slim, id=lambda value: "x", amount=1), "which it would not call"),
    "no name": (lambda s: s.filter(col("a..b")), "col at"),
    "a field of text": (
        lambda s: s.map_values(lambda value: "x", value=str).filter(col("amount") > 1),
        "values of type str have no fields",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_right_for_no_record_is_refused_when_the_topology_is_built(what: str):
    step, says = REFUSED[what]
    with pytest.raises(TopologyError) as refused:
        step(StreamsBuilder().stream("in", key=str, value=Order))
    assert says in str(refused.value)
    assert "test_expressions.py:" in str(refused.value)


def test_pictures_show_expressions():
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=Order).filter((col("amount") > 20) & ~col("paid"))
    stream.map_values(Slim, id=col("id"), amount=col("amount").or_else(0)).to("out")
    mermaid = builder.build().describe("mermaid")
    assert '"KSTREAM-FILTER 1<br/>(col(#quot;amount#quot;) #gt; 20) #amp; ~col(#quot;paid#quot;)"' in mermaid
    assert "Slim(id=col(#quot;id#quot;), amount=col(#quot;amount#quot;).or_else(0))" in mermaid


# --- against lambdas --------------------------------------------------------------------------------------------------

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53, 2**53 + 1, 2**62, 10**15]),
    float: st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 0.5, float(2**53)]),
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    bool: st.booleans(),
}
Pair = tuple[Any, str]
"""An expression, and the source of the same lambda."""


@st.composite
def expressions(draw: st.DrawFn, fields: dict[str, Any], kind: Any, depth: int = 2) -> Pair:
    """An expression of a type over fields of these types."""
    names = [name for name, type_ in fields.items() if type_ is kind]
    if kind is not bool and (depth == 0 or draw(st.booleans())):
        if names and draw(st.booleans()):
            name = draw(st.sampled_from(names))
            return col(name), f"v.{name}"
        literal = draw(VALUES[kind])
        return literal, f"({literal!r})"

    def one(type_: Any) -> Pair:
        return draw(expressions(fields, type_, depth - 1))

    if kind is bool:
        return draw(conditions(fields, depth))
    left, right = one(kind), one(kind if kind is str or draw(st.booleans()) else draw(st.sampled_from([int, kind])))
    signs = ["+", "-", "*", "//", "%"] if kind is int else ["+", "-", "*", "/", "//", "%"]
    sign = "+" if kind is str else draw(st.sampled_from(signs))
    return joined(sign, left, right)


def joined(sign: str, left: Pair, right: Pair, word: str = "") -> Pair:
    found = eval(f"first {sign} second", {"first": as_expression(left[0]), "second": right[0]})
    return found, f"({left[1]} {word or sign} {right[1]})"


@st.composite
def conditions(draw: st.DrawFn, fields: dict[str, Any], depth: int) -> Pair:
    truths = [name for name, type_ in fields.items() if type_ is bool]
    ways = ["compare", "none"] + ["field"] * bool(truths) + ["and", "or", "not"] * (depth > 0)
    way = draw(st.sampled_from(ways))
    name = draw(st.sampled_from(list(fields)))
    if way == "field":
        name = draw(st.sampled_from(truths))
        return col(name), f"v.{name}"
    if way == "none":
        return (
            (col(name).is_none(), f"(v.{name} is None)")
            if draw(st.booleans())
            else (
                col(name).is_not_none(),
                f"(v.{name} is not None)",
            )
        )
    if way == "not":
        inner = draw(conditions(fields, depth - 1))
        return ~inner[0], f"(not {inner[1]})"
    if way == "compare":
        kind = fields[name]
        signs = ["==", "!="] if kind is bool else ["==", "!=", "<", "<=", ">", ">="]
        other = draw(st.sampled_from([int, float])) if kind in (int, float) else kind
        right = draw(expressions(fields, other, depth - 1)) if depth and other is not bool else None
        if right is None:
            literal = draw(VALUES[other])
            right = literal, f"({literal!r})"
        return joined(draw(st.sampled_from(signs)), (col(name), f"v.{name}"), right)
    sign, word = ("&", "and") if way == "and" else ("|", "or")
    return joined(sign, draw(conditions(fields, depth - 1)), draw(conditions(fields, depth - 1)), word)


@st.composite
def records(draw: st.DrawFn, fields: dict[str, Any]) -> list[bytes | None]:
    """JSON of objects with these fields, in several layouts in one chunk."""
    found: list[bytes | None] = []
    layouts = [list(draw(st.permutations([*fields, "more"]))) for _ in range(2)]
    for _ in range(draw(st.integers(1, 10))):
        if draw(st.integers(0, 9)) == 0:
            found.append(None)
            continue
        layout = list(draw(st.sampled_from(layouts)))
        if draw(st.integers(0, 5)) == 0:
            layout.append(draw(st.sampled_from(layout)))  # a field twice, or one more unknown one
        if draw(st.integers(0, 3)) == 0:
            layout.remove(draw(st.sampled_from(layout)))
        escapes, blank = draw(st.booleans()), draw(st.sampled_from(["", " "]))
        cells = [draw(st.none() | VALUES[fields.get(name, str)]) for name in layout]
        texts = [
            json.dumps(str(one) if one in (float("inf"), float("-inf")) else one, ensure_ascii=escapes) for one in cells
        ]
        pairs = [f'"{name}":{blank}{text}' for name, text in zip(layout, texts, strict=True)]
        found.append(("{" + f",{blank}".join(pairs) + "}").replace('"inf"', '"Infinity"').encode())
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, dict[str, Any], list[bytes | None]]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    fields = {f"a{number}": kind for number, kind in enumerate(kinds)}
    cls = msgspec.defstruct("Case", [(name, kind | None, None) for name, kind in fields.items()], frozen=True)
    return cls, fields, draw(records(fields))


def told(call: Any, value: Any) -> Any:
    try:
        return repr(call(value))
    except (TypeError, AttributeError, ZeroDivisionError, OverflowError):
        return "an error"


def column_of(cls: Any, texts: list[bytes | None]) -> Column:
    """A column whose records all decode, as behind a source."""
    serde, fine = of(cls), []
    for text in texts:
        try:
            serde.decode_all(binary([text]))
            fine.append(text)
        except Exception:
            continue
    return BytesColumn(binary(fine or [b"{}"]), serde)


@given(cases(), st.data())
def test_conditions_are_what_lambdas_are(case: Any, data: st.DataObject):
    cls, fields, texts = case
    condition, source = data.draw(conditions(fields, 2))
    call = evaluation(condition, "filter", of(cls), is_truth=True).call
    same = eval(f"lambda v: bool({source})")
    column = column_of(cls, texts)
    objects = of(cls).decode_all(column.encoded())
    assert [told(lambda v: bool(call(v)), one) for one in objects] == [told(same, one) for one in objects]
    found = computed_truth(call, column)
    if found is not None:
        truths, odd = found
        for row, one in enumerate(objects):
            if odd is None or not odd[row]:
                assert repr(bool(truths[row])) == told(same, one)


@given(cases(), st.data())
def test_values_are_what_lambdas_give(case: Any, data: st.DataObject):
    cls, fields, texts = case
    given_ = {name: data.draw(expressions(fields, kind)) for name, kind in fields.items() if kind is not bool}
    given_ |= {name: data.draw(conditions(fields, 1)) for name, kind in fields.items() if kind is bool}
    call = construction(cls, {name: one for name, (one, _) in given_.items()}, "map_values", of(cls)).call
    same = eval(f"lambda v: cls({', '.join(f'{name}={one}' for name, (_, one) in given_.items())})", {"cls": cls})
    column = column_of(cls, texts)
    objects = of(cls).decode_all(column.encoded())
    found = computed_column(call, column, of(cls))
    if found is not None:
        assert list(map(repr, found.decoded())) == [told(same, one) for one in objects]
        expected = ValuesColumn([same(one) for one in objects], of(cls)).encoded().to_pylist()
        assert found.encoded().to_pylist() == expected
    for name, (one, source) in given_.items():
        alone = evaluation(col(name).or_else(one), "map_values", of(cls)).call
        results = computed_column(alone, column, of(fields[name]))
        lambda_ = eval(f"lambda v: {source} if v.{name} is None else v.{name}")
        if results is not None:
            assert list(map(repr, results.decoded())) == [told(lambda_, one) for one in objects]


def test_usual_records_are_computed_by_columns():
    texts = [b'{"id":"x","amount":3,"more":1}', b'{"amount":4, "id":"\xc3\xbc", "price":0.1}'] * 5
    column = BytesColumn(binary(list(texts)), of(Slim))
    made = construction(Slim, {"id": col("id") + "!", "amount": col("amount") * 2}, "map_values", of(Slim)).call
    found = computed_column(made, column, of(Slim))
    assert isinstance(found, FieldsColumn)
    assert found.encoded().to_pylist()[:2] == [b'{"id":"x!","amount":6}', b'{"id":"\xc3\xbc!","amount":8}']


@pytest.mark.parametrize("seed", range(3))
def test_topologies_with_expressions_give_what_those_with_lambdas_give_under_any_cut(run: Run, seed: int):
    chance = random.Random(seed)
    rows = []
    for _ in range(60):
        fields = {"id": chance.choice(["x", 'y"', "ü"]), "amount": chance.choice([1, 25, 2**53, -3, 1.5, None])}
        fields |= {"price": chance.random(), "region": chance.choice([None, "no", "se"]), "more": {"a": 1}}
        for name in chance.sample(["price", "region", "more"], 2):
            del fields[name]
        data = json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode()
        rows.append(("raw", chance.choice(["a", "b", None]), chance.choice([data] * 9 + [b"[1]", None]), 1))

    def results(by_name: bool) -> list[Any]:
        builder = StreamsBuilder()
        builder.stream("raw", key=str, value=bytes).to("in")
        stream: Any = builder.stream("in", key=str, value=Order)
        if by_name:
            kept = stream.filter((col("amount") > 2) | (col("region") == "no"))
            slim = kept.map_values(Slim, id=col("id"), amount=col("amount") * 2)
            counts = stream.group_by(col("region")).count()
        else:
            kept = stream.filter(lambda key, v: v.amount > 2 or v.region == "no")
            slim = kept.map_values(lambda v: Slim(v.id, v.amount * 2), value=Slim)
            counts = stream.group_by(lambda key, v: v.region, key=str).count()
        slim.to("out")
        counts.to_stream().to("counts")
        done = run(builder, rows, on_error="skip")
        return [done.output(), done.output("counts")]

    assert results(True) == results(False)
