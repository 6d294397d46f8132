"""Calls with wrong arguments: the message shows the call and its correct form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from penstock.errors import ArgumentsError
from penstock.messages import nearest, show
from penstock.usage.callers import caller

F = TypeVar("F", bound=Callable[..., Any])

_TOLD = "__penstock_told__"
_SHOWN = 60
"""How many characters of an argument a message shows."""
_OPTIONAL = 6
"""How many optional arguments a message names."""

_LATE = "to drop all late records"


def _made(kind: str, what: str, argument: str) -> str:
    return f"write {kind}.of_{what}_and_grace({argument}, grace), or {kind}.of_{what}_with_no_grace({argument}) {_LATE}"


_SIZE = _made("TimeWindows", "size", "size")
_GAP = _made("SessionWindows", "inactivity_gap", "gap")
_SLIDING = _made("SlidingWindows", "time_difference", "difference")
_JOINED = _made("JoinWindows", "time_difference", "difference")
_ID = "the application id names the state and the internal topics, such as 'my-application'"
_TAKEN_OUT = "a row that changes is taken out of its old group by the subtractor"
_JOINER = "the joiner is a function of (left, right)"
_WINDOWS = "JoinWindows.of_time_difference_and_grace(difference, grace)"
_WAYS = {
    "TimeWindows": _SIZE,
    "TimeWindows.of_size_and_grace": _SIZE,
    "SlidingWindows": _SLIDING,
    "SlidingWindows.of_time_difference_and_grace": _SLIDING,
    "JoinWindows": _JOINED,
    "JoinWindows.of_time_difference_and_grace": _JOINED,
    "SessionWindows": _GAP,
    "SessionWindows.of_inactivity_gap_and_grace": _GAP,
    "Topology.start": _ID,
    "Topology.run_batch": _ID,
    "KGroupedTable.aggregate": _TAKEN_OUT,
    "KGroupedTable.reduce": _TAKEN_OUT,
    **dict.fromkeys(("KStream.join", "KStream.left_join"), f"{_JOINER}; two streams also need {_WINDOWS}"),
    "KStream.outer_join": f"{_JOINER}, and the windows say how far apart the two records may be, such as {_WINDOWS}",
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
    missing a required argument: 'colour'; got paint(coats=2); expected paint(colour, coats=...)
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
        problem = f"there is no argument {unknown!r}{_meant(_snake(unknown), [one.name for one in parameters])}"
    called = _called(function, of)
    way = next((_WAYS[name] for name in _names(function, of) if name in _WAYS), "")
    given = [*map(_shown, arguments), *(f"{key}={_shown(one)}" for key, one in named.items())]
    form = f"; expected {called}({', '.join(_form(parameters))})"
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


def _shown(argument: Any) -> str:
    """Return an argument as users write it: functions and classes by their names."""
    if isinstance(argument, FunctionType | type):
        return "lambda" if argument.__name__ == "<lambda>" else argument.__name__
    return show(argument, _SHOWN)


def _meant(name: str, known: list[str]) -> str:
    """Guess which argument was meant: a similar one, or the first word of the name, as in ``value_serde``."""
    first = name.partition("_")[0]
    return nearest(name, known) or (f" (did you mean {first!r}?)" if first in known else "")


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
