"""Expressions, such as ``col("amount") > 20``, in place of functions. Each means what the same lambda means."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from penstock.errors import TopologyError
from penstock.messages import show
from penstock.plan.fields import MISSING, found_at
from penstock.usage.callers import caller
from penstock.usage.signatures import telling


class Expression:
    """A value that is computed of the fields of each record, column by column where that gives the same.

    Compare it (``==``, ``<``, ...), compute with it (``+``, ``-``, ``*``, ``/``, ``//``, ``%``), combine conditions
    with ``&``, ``|`` and ``~``, and ask for None with ``is_none()``, ``is_not_none()`` and ``or_else(value)``.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def of(self, value: Any) -> Any:
        """Return its value for one record, of whose value it reads the fields."""
        raise NotImplementedError

    def __eq__(self, other: object) -> Operation:  # type: ignore[override]
        return _two("==", self, other)

    def __ne__(self, other: object) -> Operation:  # type: ignore[override]
        return _two("!=", self, other)

    def __lt__(self, other: Any) -> Operation:
        return _two("<", self, other)

    def __le__(self, other: Any) -> Operation:
        return _two("<=", self, other)

    def __gt__(self, other: Any) -> Operation:
        return _two(">", self, other)

    def __ge__(self, other: Any) -> Operation:
        return _two(">=", self, other)

    def __add__(self, other: Any) -> Operation:
        return _two("+", self, other)

    def __radd__(self, other: Any) -> Operation:
        return _two("+", other, self)

    def __sub__(self, other: Any) -> Operation:
        return _two("-", self, other)

    def __rsub__(self, other: Any) -> Operation:
        return _two("-", other, self)

    def __mul__(self, other: Any) -> Operation:
        return _two("*", self, other)

    def __rmul__(self, other: Any) -> Operation:
        return _two("*", other, self)

    def __truediv__(self, other: Any) -> Operation:
        return _two("/", self, other)

    def __rtruediv__(self, other: Any) -> Operation:
        return _two("/", other, self)

    def __floordiv__(self, other: Any) -> Operation:
        return _two("//", self, other)

    def __rfloordiv__(self, other: Any) -> Operation:
        return _two("//", other, self)

    def __mod__(self, other: Any) -> Operation:
        return _two("%", self, other)

    def __rmod__(self, other: Any) -> Operation:
        return _two("%", other, self)

    def __neg__(self) -> Operation:
        return _two("*", self, -1)

    def __and__(self, other: Any) -> Operation:
        return _two("&", self, other)

    def __rand__(self, other: Any) -> Operation:
        return _two("&", other, self)

    def __or__(self, other: Any) -> Operation:
        return _two("|", self, other)

    def __ror__(self, other: Any) -> Operation:
        return _two("|", other, self)

    def __invert__(self) -> Operation:
        return Operation("~", (self,))

    def is_none(self) -> Operation:
        """Return whether it is None."""
        return Operation("is_none", (self,))

    def is_not_none(self) -> Operation:
        """Return whether it is not None."""
        return Operation("is_not_none", (self,))

    def or_else(self, other: Any) -> Operation:
        """Return it, and another value where it is None."""
        return _two("or_else", self, other)

    def __bool__(self) -> NoReturn:
        raise TopologyError(
            f"the expression {self} at {caller()} has no truth by itself: it has one for each record. Write & for and, "
            "| for or, ~ for not, each side in parentheses; (a < b) & (b < c) in place of a < b < c"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Column(Expression):
    """A field of the value, found by ``found_at``; a missing one is None."""

    path: tuple[str, ...]

    def of(self, value: Any) -> Any:
        if value is None:
            raise TypeError(
                f"the record has no value, and so no field {'.'.join(self.path)!r}; filter such records out before"
            )
        found = found_at(value, self.path)
        return None if found is MISSING else found

    def __repr__(self) -> str:
        return f'col("{".".join(self.path)}")'


@dataclass(frozen=True, eq=False, repr=False)
class Literal(Expression):
    """The same value for each record."""

    value: Any

    def of(self, value: Any) -> Any:
        return self.value

    def __repr__(self) -> str:
        return show(self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Operation(Expression):
    """An operator with its operands."""

    sign: str
    operands: tuple[Expression, ...]

    def of(self, value: Any) -> Any:
        first = self.operands[0].of(value)
        if self.sign in _OF_ONE:
            return _OF_ONE[self.sign](first)
        if self.sign == "&":
            return bool(first) and bool(self.operands[1].of(value))
        if self.sign == "|":
            return bool(first) or bool(self.operands[1].of(value))
        if self.sign == "or_else":
            return self.operands[1].of(value) if first is None else first
        return OF_TWO[self.sign](first, self.operands[1].of(value))

    def __repr__(self) -> str:
        first, *others = map(_within, self.operands)
        if self.sign == "~":
            return f"~{first}"
        if self.sign in _OF_ONE:
            return f"{first}.{self.sign}()"
        return f"{first}.or_else({others[0]})" if self.sign == "or_else" else f"{first} {self.sign} {others[0]}"


_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "~": operator.not_,
    "is_none": lambda one: one is None,
    "is_not_none": lambda one: one is not None,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
OF_TWO = COMPARISONS | CALCULATIONS


def _within(operand: Expression) -> str:
    is_joined = isinstance(operand, Operation) and len(operand.operands) == 2 and operand.sign != "or_else"
    return f"({operand})" if is_joined else repr(operand)


def _two(sign: str, left: Any, right: Any) -> Operation:
    return Operation(sign, (as_expression(left), as_expression(right)))


def as_expression(given: Any) -> Expression:
    """Return an expression, or the given value for each record.

    Raises:
        TopologyError: it is a function, which nobody would call.
    """
    if isinstance(given, Expression):
        return given
    if callable(given):
        raise TopologyError(
            f"an expression at {caller()} takes values and other expressions; got {show(given)}, which it would not "
            "call. Write the whole step as a function: lambda value: ..."
        )
    return Literal(given)


@telling
def col(name: str) -> Column:
    """Return an expression for a field of the value, which steps such as ``filter`` and ``group_by`` take in place of a
    function.

    A name with dots is a field inside a field: ``col("payload.amount")``.

    >>> from penstock import col
    >>> (col("amount") > 20) & ~(col("region") == "test")
    (col("amount") > 20) & ~(col("region") == 'test')

    Raises:
        TopologyError: the argument is not the name of a field.
    """
    names = tuple(name.split(".")) if isinstance(name, str) else ()
    if not names or not all(names):
        raise TopologyError(
            f'col at {caller()} takes the name of a field, such as "amount" or "payload.amount"; got {show(name)}'
        )
    return Column(names)
