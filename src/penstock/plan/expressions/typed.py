"""Expressions for the values of one type: what types they have, and what is refused before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import TopologyError
from penstock.messages import nearest
from penstock.plan.aggregates.reading import field_type, fields_of_class, shown_type, without_none
from penstock.plan.expressions.expression import (
    CALCULATIONS,
    COMPARISONS,
    Column,
    Expression,
    Literal,
    Operation,
    as_expression,
)
from penstock.plan.functions import UserFunction
from penstock.serdes import Serde
from penstock.serdes.json import JsonSerde
from penstock.serdes.json_flat import flat_fields
from penstock.usage.callers import caller

_NUMBERS = (int, float)
_PLAIN = (int, float, str, bool)
_TRUTHS = ("==", "!=", "<", "<=", ">", ">=", "&", "|", "~", "is_none", "is_not_none")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Computes an expression for the value of a record, as a function of (value)."""

    expression: Expression
    type: Any
    is_flat: bool
    """Whether all that it needs are plain fields of a class, so that columns may have them."""

    def __call__(self, value: Any) -> Any:
        return self.expression.of(value)

    def __repr__(self) -> str:
        return repr(self.expression)


@dataclass(frozen=True, eq=False, repr=False)
class Construction:
    """Makes an object of a class for the value of a record, as a function of (value)."""

    cls: Any
    fields: tuple[tuple[str, Expression], ...]
    is_flat: bool

    def __call__(self, value: Any) -> Any:
        return self.cls(**{name: one.of(value) for name, one in self.fields})

    @property
    def type(self) -> Any:
        return self.cls

    def __repr__(self) -> str:
        return f"{self.cls.__name__}({', '.join(f'{name}={one!r}' for name, one in self.fields)})"


def evaluation(expression: Expression, method: str, value: Serde, is_truth: bool = False) -> UserFunction:
    """Return an expression as the function of a step.

    Raises:
        TopologyError: values have no such field, an operator has no meaning for it, or it is no condition where one is
            needed.
    """
    where = caller()
    begin = f"{method} at {where}: {expression!r}"
    type_ = _type_of(expression, begin, value)
    if is_truth and type_ not in (bool, Any):
        raise TopologyError(f"{begin} is of type {shown_type(type_)}, and {method} takes a condition; compare it")
    call = Evaluation(expression, type_, _is_flat(value))
    return UserFunction(call, 1, columnar=False, where=where, method=method)


def construction(cls: Any, fields: Mapping[str, Any], method: str, value: Serde) -> UserFunction:
    """Return the making of objects of a class as the function of a step.

    Raises:
        TopologyError: the class has no such field, needs another one, or one of another type.
    """
    where = caller()
    begin = f"{method} at {where}: {getattr(cls, '__name__', cls)}"
    known = fields_of_class(cls) if isinstance(cls, type) else None
    if known is None:
        raise TopologyError(
            f"{begin} has no fields; expressions by name make objects of a class with fields, such as a Struct or a "
            "dataclass"
        )
    given = {name: as_expression(one) for name, one in fields.items()}
    for name, one in given.items():
        if name not in known:
            raise TopologyError(
                f"{begin} has no field {name!r}{nearest(name, known)}; its fields are {', '.join(known)}"
            )
        type_ = _type_of(one, f"{begin}: {name}={one!r}", value)
        if not _fits(type_, known[name]):
            raise TopologyError(
                f"{begin}: {name}={one!r} is of type {shown_type(type_)}, and the field {name!r} takes "
                f"{shown_type(known[name])}"
            )
    needed = [one.name for one in inspect.signature(cls).parameters.values() if one.default is inspect.Parameter.empty]
    if missing := [name for name in needed if name in known and name not in given]:
        raise TopologyError(f"{begin} needs the field{'s' if len(missing) > 1 else ''} {', '.join(missing)}, too")
    call = Construction(cls, tuple(given.items()), _is_flat(value))
    return UserFunction(call, 1, columnar=False, where=where, method=method)


def computed_by(function: Any) -> str:
    """Return the expression that a step computes, as users write it; empty for a function."""
    call = getattr(function, "call", None)
    return repr(call) if isinstance(call, Evaluation | Construction) else ""


def _is_flat(value: Serde) -> bool:
    return isinstance(value, JsonSerde) and flat_fields(value.type) is not None


def _fits(type_: Any, field: Any) -> bool:
    """Return whether a field may take values of a type; those that nothing tells are judged when they are written."""
    field = without_none(field)
    are_known = {type_, field} <= {*_PLAIN} if isinstance(field, type) else False
    return not are_known or type_ is field or (type_ is int and field is float)


def _type_of(one: Expression, begin: str, value: Serde) -> Any:
    if isinstance(one, Literal):
        return Any if one.value is None else type(one.value)
    if isinstance(one, Column):
        return field_type(".".join(one.path), begin, value)[1]
    assert isinstance(one, Operation)
    types = [_type_of(operand, begin, value) for operand in one.operands]
    if one.sign in COMPARISONS or one.sign in CALCULATIONS or one.sign == "or_else":
        _check(one, types, begin)
    if one.sign in _TRUTHS:
        return bool
    if Any in types:
        return Any
    if one.sign == "or_else":
        return types[0] if types[0] is types[1] else Any
    return float if one.sign == "/" or float in types else types[0]


def _check(one: Operation, types: list[Any], begin: str) -> None:
    """Refuse what can be right for no record."""
    left, right = types
    if left not in _PLAIN or right not in _PLAIN:
        return
    are_numbers = left in _NUMBERS and right in _NUMBERS
    are_texts = left is str and right is str and one.sign in (*COMPARISONS, "+", "or_else")
    are_truths = left is bool and right is bool and one.sign in ("==", "!=", "or_else")
    if not (are_numbers or are_texts or are_truths):
        raise TopologyError(
            f"{begin}: {one.sign} has no meaning for {one.operands[0]!r} of type {shown_type(left)} and "
            f"{one.operands[1]!r} of type {shown_type(right)}"
        )
