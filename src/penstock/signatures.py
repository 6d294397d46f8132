"""Calls with wrong arguments: the message shows the call and its correct form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from penstock.callers import caller
from penstock.errors import ArgumentsError
from penstock.messages import nearest, show

F = TypeVar("F", bound=Callable[..., Any])

_TOLD = "__penstock_told__"
_SHOWN = 60
"""How many characters of an argument a message shows."""
_OPTIONAL = 6
"""How many optional arguments a message names."""

_LATE = "where late records are to be dropped"
_SIZE = f"of_size_and_grace(size, grace), or of_size_with_no_grace(size) {_LATE}"
_DIFFERENCE = (
    f"of_time_difference_and_grace(difference, grace), or of_time_difference_with_no_grace(difference) {_LATE}"
)
_GAP = f"of_inactivity_gap_and_grace(gap, grace), or of_inactivity_gap_with_no_grace(gap) {_LATE}"
_ID = "the application id names the state and the internal topics, such as 'my-application'"
_TAKEN_OUT = "a row that changes is taken out of its old group by the subtractor"
_JOINER = "the joiner is a function of (left, right)"
_WAYS = {
    "TimeWindows": f"make them with {_SIZE}",
    "TimeWindows.of_size_and_grace": f"it is {_SIZE}",
    "SlidingWindows": f"make them with {_DIFFERENCE}",
    "SlidingWindows.of_time_difference_and_grace": f"it is {_DIFFERENCE}",
    "JoinWindows": f"make them with {_DIFFERENCE}",
    "JoinWindows.of_time_difference_and_grace": f"it is {_DIFFERENCE}",
    "SessionWindows": f"make them with {_GAP}",
    "SessionWindows.of_inactivity_gap_and_grace": f"it is {_GAP}",
    "Topology.start": _ID,
    "Topology.run_batch": _ID,
    "KGroupedTable.aggregate": _TAKEN_OUT,
    "KGroupedTable.reduce": _TAKEN_OUT,
    "KStream.join": _JOINER,
    "KStream.left_join": _JOINER,
    "KStream.outer_join": f"{_JOINER}, and the windows say how far apart both may lie",
    "KTable.join": _JOINER,
    "KTable.left_join": _JOINER,
    "KTable.outer_join": _JOINER,
}
"""Additional hints, by class and method; a class stands for its constructor."""


def telling(function: F) -> F:
    """Wrap a function so that wrong arguments raise an error with its correct form, in place of Python's TypeError.

    >>> @telling
    ... def paint(colour, coats=1): ...
    >>> try:
    ...     paint(coats=2)
    ... except ArgumentsError as error:
    ...     print(str(error).partition(": ")[2])
    missing a required argument: 'colour'; got paint(coats=2), and it is paint(colour, coats=...)
    """

    @wraps(function)
    def told(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError:
            problem = _misfit(function, arguments, named)
            if not problem:
                raise
        raise problem from None

    setattr(told, _TOLD, True)
    return cast(F, told)


def told_of(name: str, member: Any) -> Any:
    """Return a member of a class, wrapped if it is a public method or the constructor."""
    if name != "__init__" and name.startswith("_"):
        return member
    if isinstance(member, classmethod | staticmethod):
        return type(member)(told_of(name, member.__func__))
    return telling(member) if isinstance(member, FunctionType) and not hasattr(member, _TOLD) else member


def _misfit(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> ArgumentsError | None:
    """Return the error for a call's wrong arguments; None if they fit and the error has another cause."""
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        problem = str(error)
    else:
        return None
    parameters = list(signature.parameters.values())
    of: type | None = None
    if arguments and parameters[0].name in ("self", "cls"):
        of = arguments[0] if isinstance(arguments[0], type) else type(arguments[0])
        parameters, arguments = parameters[1:], arguments[1:]
    unknown = next((key for key in named if key not in signature.parameters), "")
    if unknown and not any(one.kind is one.VAR_KEYWORD for one in parameters):
        problem = f"there is no argument {unknown!r}{nearest(_snake(unknown), [one.name for one in parameters])}"
    called = _called(function, of)
    way = next((_WAYS[name] for name in _names(function, of) if name in _WAYS), "")
    given = [*(show(one, _SHOWN) for one in arguments), *(f"{key}={show(one, _SHOWN)}" for key, one in named.items())]
    form = f", and it is {called}({', '.join(_form(parameters))})"
    written = f"got {called}({', '.join(given)})"
    said = f"{written}; {way}" if called in _WAYS else f"{problem}; {written}{form}{way and '; '}{way}"
    return ArgumentsError(f"{called} at {caller()}: {said}")


def _names(function: Callable[..., Any], of: type | None) -> list[str]:
    """Return a function's possible names in the table of hints: one for each class that it may be a method of."""
    name = function.__name__
    return [one.__name__ if name == "__init__" else f"{one.__name__}.{name}" for one in (of.__mro__ if of else ())]


def _called(function: Callable[..., Any], of: type | None) -> str:
    """Return a function as users write it: a method by its name, a class method after its class, a constructor as the
    class.
    """
    first = next(iter(inspect.signature(function).parameters), "")
    is_told_by_class = of is not None and (function.__name__ == "__init__" or first == "cls")
    return _names(function, of)[0] if is_told_by_class else function.__name__


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _form(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """Return the arguments as written: the required ones, then some of the others."""
    needed, others, rest = [], [], ""
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            needed.append(f"*{one.name}")
        elif one.kind is one.VAR_KEYWORD:
            rest = f"**{one.name}"
        elif one.default is one.empty:
            needed.append(one.name)
        else:
            others.append(f"{one.name}=...")
    shown = others if len(others) <= _OPTIONAL else [*others[:_OPTIONAL], "..."]
    return [*needed, *shown, *([rest] if rest else [])]
