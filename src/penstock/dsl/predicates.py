"""Functions that say which records pass."""

from __future__ import annotations

from typing import Any

from penstock.dsl.functions import KEY_VALUE
from penstock.plan.functions import UserFunction, user_function
from penstock.plan.returns import check_predicate


def predicate_of(function: Any, negate: bool = False) -> UserFunction:
    """A function of (key, value) for ``filter`` or ``filter_not``."""
    method, otherwise = ("filter_not", "every record passes") if negate else ("filter", "no record passes")
    return check_predicate(user_function(function, method, KEY_VALUE, context=True), method, otherwise)


def branch_of(function: Any) -> UserFunction:
    """A function of (key, value) for a branch."""
    return check_predicate(user_function(function, "branch", KEY_VALUE, context=True), "branch", "it gets no record")
