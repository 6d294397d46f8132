"""Expressions where steps take functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.dsl.results import NOT_ANNOTATED, Annotated, annotated
from penstock.dsl.stream import KEY_VALUE, VALUE
from penstock.plan.expressions.expression import Expression
from penstock.plan.expressions.typed import Construction, Evaluation, construction, evaluation
from penstock.plan.functions import UserFunction, user_function
from penstock.serdes import Serde


def mapper_of(mapper: Any, fields: Mapping[str, Any], value: Serde) -> tuple[UserFunction, Annotated]:
    """Return what makes the values of ``map_values``, and the type that it says."""
    if fields:
        function = construction(mapper, fields, "map_values", value)
    elif isinstance(mapper, Expression):
        function = evaluation(mapper, "map_values", value)
    else:
        function = user_function(mapper, "map_values", VALUE, KEY_VALUE, context=True)
    return function, said_of(function)


def said_of(function: UserFunction) -> Annotated:
    """Return the type that a function or an expression says of its results."""
    if not isinstance(function.call, Evaluation | Construction):
        return annotated(function)
    type_ = function.call.type
    return NOT_ANNOTATED if type_ is Any else Annotated(type_, type_)
