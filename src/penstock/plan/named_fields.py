"""The fields of values that a step reads by name: ids, aggregates by name, and expressions."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan.expressions.expression import Column, Expression, Operation
from penstock.plan.expressions.typed import Construction, Evaluation
from penstock.plan.fields import Field
from penstock.plan.node import Node

_ASKS_FOR_NONE = ("is_none", "is_not_none", "or_else")


def named_fields(node: Node) -> tuple[tuple[str, ...], ...]:
    """Return the paths of these fields, each once; without those for whose absence the user has made provision."""
    return tuple(dict.fromkeys(_paths(node)))


def _paths(node: Node) -> Iterator[tuple[str, ...]]:
    function = node.function
    call = getattr(function, "call", None)
    if isinstance(function, Field):
        yield function.path
    elif isinstance(call, Evaluation):
        yield from _read_by(call.expression)
    elif isinstance(call, Construction):
        for _, one in call.fields:
            yield from _read_by(one)
    if node.aggregation is not None and node.aggregation.together is not None:
        yield from (one.path for one in node.aggregation.together.readings if one.path is not None)


def _read_by(expression: Expression) -> Iterator[tuple[str, ...]]:
    if isinstance(expression, Column):
        yield expression.path
    elif isinstance(expression, Operation) and expression.sign not in _ASKS_FOR_NONE:
        for operand in expression.operands:
            yield from _read_by(operand)
