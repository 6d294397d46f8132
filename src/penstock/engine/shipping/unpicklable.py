"""Finds the part of a topology that cannot be sent to the slots: the step, its function, and the variable in it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from penstock.messages import describe, show
from penstock.plan.functions import UserFunction
from penstock.serdes import Serde

_DEEPEST = 4
"""How many functions that use each other are examined."""

Pickle = Callable[[Any], object]
"""Pickles a value, and raises the error of that."""


def culprit(topology: Any, pickle: Pickle) -> str | None:
    """Describe what cannot be pickled; None if it is not found."""
    for node in getattr(topology, "nodes", ()):
        for part in _parts(node):
            problem = _problem(part, pickle)
            if problem is not None:
                where = part.where if isinstance(part, UserFunction) else node.where
                return f"step {node.name}{f' at {where}' if where else ''}: {_said(part, pickle)}"
    return None


def _parts(node: Any) -> Iterator[Any]:
    """Yield the functions and serdes of a step."""
    for field in dataclasses.fields(node):
        if field.name == "parents":
            continue
        value = getattr(node, field.name)
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, UserFunction | Serde):
                yield one
            elif dataclasses.is_dataclass(one) and not hasattr(one, "parents"):
                yield from (part for part in vars(one).values() if isinstance(part, UserFunction) or callable(part))


def _problem(value: Any, pickle: Pickle) -> Exception | None:
    try:
        pickle(value)
    except Exception as error:
        return error
    return None


def _said(part: Any, pickle: Pickle) -> str:
    if isinstance(part, Serde):
        return f"its serde {part!r} cannot be pickled ({_why(part, pickle)})"
    call = part.call if isinstance(part, UserFunction) else part
    name = f"{part.name} at {part.location()}" if isinstance(part, UserFunction) else show(part)
    found = _used(call, pickle, _DEEPEST)
    return f"the function {name} uses {found}" if found else f"the function {name}: {_why(call, pickle)}"


def _used(call: Any, pickle: Pickle, depth: int) -> str | None:
    """Describe the variable that a function uses and that cannot be pickled."""
    for name, value in _variables(call):
        problem = _problem(value, pickle)
        if problem is None:
            continue
        deeper = _used(value, pickle, depth - 1) if depth and callable(value) else None
        if deeper:
            return f"{name!r}, which uses {deeper}"
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return f"{name!r} of type {kind}, which cannot be pickled ({describe(problem)})"
    return None


def _variables(call: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(call, partial):
        yield "func", call.func
        yield from ((f"argument {number}", value) for number, value in enumerate(call.args))
        yield from call.keywords.items()
    elif isinstance(call, MethodType):  # a bound decorated function has that function's __wrapped__
        yield from _variables(call.__func__)
        yield from ((f"self.{name}", value) for name, value in getattr(call.__self__, "__dict__", {}).items())
    elif not isinstance(call, FunctionType | type) and hasattr(call, "__wrapped__"):  # a cached function
        yield from _variables(call.__wrapped__)
    elif isinstance(call, FunctionType):
        used = inspect.getclosurevars(call)
        yield from used.nonlocals.items()
        yield from used.globals.items()
        yield from (("a default", value) for value in call.__defaults__ or ())
    elif not isinstance(call, type):
        yield from ((f"self.{name}", value) for name, value in getattr(call, "__dict__", {}).items())


def _why(value: Any, pickle: Pickle) -> str:
    problem = _problem(value, pickle)
    return "" if problem is None else describe(problem)
