"""Expressions where steps take functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.dsl.results import NOT_ANNOTATED, Annotated, annotated
from penstock.plan.aggregates.reading import fields_of_class
from penstock.plan.expressions.expression import Expression
from penstock.plan.expressions.typed import Construction, Evaluation, construction, evaluation
from penstock.plan.functions import UserFunction, user_function
from penstock.serdes import Serde
from penstock.usage.signatures import telling

_FORMS = (("value",), ("key", "value"))


def mapper_of(mapper: Any, fields: Mapping[str, Any], value: Serde) -> tuple[UserFunction, Annotated]:
    """Return what makes the values of ``map_values``, and the type that it says."""
    if fields:
        if not any(isinstance(one, Expression) for one in fields.values()) and not _has_fields(mapper):
            map_values(mapper, **fields)
        function = construction(mapper, fields, "map_values", value)
    elif isinstance(mapper, Expression):
        function = evaluation(mapper, "map_values", value)
    else:
        function = user_function(mapper, "map_values", *_FORMS, context=True)
    return function, said_of(function)


@telling
def map_values(mapper: Any, value: Any = None, name: Any = None) -> None:
    """Refuse arguments that ``map_values`` does not have without expressions."""


def _has_fields(mapper: Any) -> bool:
    return isinstance(mapper, type) and fields_of_class(mapper) is not None


def said_of(function: UserFunction) -> Annotated:
    """Return the type that a function or an expression says of its results."""
    if not isinstance(function.call, Evaluation | Construction):
        return annotated(function)
    type_ = function.call.type
    return NOT_ANNOTATED if type_ is Any else Annotated(type_, type_)
