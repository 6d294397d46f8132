"""User functions: checked when the topology is built, called in a tight loop when it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from penstock.errors import ConfigError, TopologyError
from penstock.messages import show
from penstock.serdes import Serde
from penstock.usage.callers import caller as caller
from penstock.usage.callers import is_own_file as is_own_file
from penstock.usage.callers import is_same_call as is_same_call
from penstock.usage.calls import why_not_awaited, why_unusable
from penstock.usage.signatures import telling
from penstock.values.topic_names import check_topic_name

_ROW_BY_ROW = ("flat_map", "flat_map_values", "reduce", "aggregate", "timestamp", "map_values_async", "filter_async")
_ITERATED = ("flat_map", "flat_map_values")
"""Methods that iterate over the results of their functions, and so accept generators."""
_AWAITED = {"map_values_async": "map_values", "filter_async": "filter"}
"""Methods that await the results of their functions, with those that take plain ones."""
_BY_NAME = ("reduce",)
"""Methods in which an extra argument is only the context if it says so: users may think that the key comes first."""
_ANOTHER = "did you mean"
"""Begins hints for functions with other arguments, which say nothing to an argument that is no function."""
_MARK = "__penstock_columnar__"


@telling
def columnar(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that works on whole columns: it gets Arrow arrays where others get one value.

    A columnar function takes and returns ``pyarrow`` arrays of one length (or a pair of them, where the plain function
    returns a pair). Windowed keys come as an object with the arrays ``key``, ``start`` and ``end``. Use it where a
    plain function's call for every record costs too much.

    >>> import pyarrow.compute as pc
    >>> @columnar
    ... def is_large(key, value):
    ...     return pc.greater(value, 100)

    Raises:
        ConfigError: the argument is not a function, or it cannot be marked, such as Python's built-in functions.
    """
    if not callable(function):
        raise ConfigError(f"columnar takes a function; got {show(function)} of type {type(function).__name__}")
    try:
        setattr(function, _MARK, True)
    except (AttributeError, TypeError):
        raise ConfigError(
            f"columnar cannot mark {show(function)} of type {type(function).__name__}; give a function of your own "
            "that calls it"
        ) from None
    return function


@dataclass(frozen=True)
class UserFunction:
    """A function of the user's, and the facts about it."""

    call: Callable[..., Any]
    arity: int
    columnar: bool
    where: str
    """The user's file and line of the DSL call that received it."""
    wants_context: bool = False
    """True if the record's context is its last argument, which ``arity`` does not count."""
    method: str = ""
    """The DSL method that received it."""

    @property
    def name(self) -> str:
        return getattr(self.call, "__qualname__", None) or repr(self.call)

    @property
    def is_ours(self) -> bool:
        """Whether it is a method of an object of this package, whose name tells the user nothing."""
        return type(getattr(self.call, "__self__", None)).__module__.startswith("penstock.")

    def location(self) -> str:
        """The file and line where the user wrote the function, or gave one of this package's."""
        code = getattr(self.call, "__code__", None)
        if code is None or (is_own_file(code.co_filename) and self.where):
            return self.where
        return f"{code.co_filename}:{code.co_firstlineno}"

    def returns(self) -> Any:
        """Its return annotation, or itself if it is a class; None if there is neither."""
        return _returned(self.call)


class Maker(NamedTuple):
    """A function, and the type that the step gives to its results."""

    function: UserFunction
    type: Serde


def user_function(
    call: Any, method: str, *parameters: tuple[str, ...], hint: str = "", context: bool = False, why_not: str = ""
) -> UserFunction:
    """Check a function against the argument lists that the method allows, and return it.

    Args:
        context: True if it may take the record's context as one more argument, see ``_wants_context``.
        why_not: the reason why it may not.

    Raises:
        TopologyError: it is not callable, takes another number of arguments, or is columnar where that is impossible.
    """
    where = caller()
    forms = _forms(parameters)
    if not callable(call):
        hint = _instead(call) or ("" if hint.startswith(_ANOTHER) else hint)
        raise TopologyError(
            f"{method} at {where} takes a function {forms}; got {show(call)} of type {type(call).__name__}; "
            f"{hint or _written(parameters[0])}"
        )
    refuse_unusable(call, method, where)
    arities = [len(names) for names in parameters]
    wants_context = context and _wants_context(call, max(arities), method)
    fitting = [arity for arity in arities if accepts(call, arity + wants_context)]
    if not fitting:
        signature, name = inspect.signature(call), getattr(call, "__name__", call)
        if name == "<lambda>" and parameters[0]:
            hint = hint or _written(parameters[0])
        raise TopologyError(
            f"{method} at {where} takes a function {forms}; got {name!r} of {signature}{'; ' + hint if hint else ''}"
        )
    if not context and _is_context(_needed(call)):
        raise TopologyError(
            f"{method} at {where} takes a function {forms}, without the context of a "
            f"record{why_not and ': '}{why_not}; the last argument of {getattr(call, '__name__', call)!r} is that "
            "context. Remove it, or rename it if it is not the context"
        )
    columnar = bool(getattr(call, _MARK, False))
    if columnar and method in _ROW_BY_ROW:
        raise TopologyError(
            f"{method} at {where} calls its function once for each record; got the columnar function "
            f"{getattr(call, '__name__', call)!r}; remove @columnar"
        )
    if columnar and wants_context:
        raise TopologyError(
            f"{method} at {where}: the columnar function {getattr(call, '__name__', call)!r} works on whole columns, "
            "which have no context; remove @columnar or the argument"
        )
    return UserFunction(call, fitting[0], columnar, where, wants_context, method)


def _forms(parameters: Sequence[tuple[str, ...]]) -> str:
    """Return the argument lists as a phrase: ``of (value) or (key, value)``."""
    if parameters == ((),):
        return "without arguments"
    return "of " + " or ".join(f"({', '.join(names)})" for names in parameters)


def _instead(given: Any) -> str:
    """Return what to give in place of a column of PySpark; empty for anything else."""
    if type(given).__name__ == "Column" and type(given).__module__.startswith("pyspark."):
        return "this is a column of PySpark; `from penstock import col` has those of Penstock"
    return ""


def _written(names: tuple[str, ...]) -> str:
    return f"write lambda{' ' * bool(names)}{', '.join(names)}: ..."


def refuse_unusable(call: Any, method: str, where: str) -> None:
    """Raise ``TopologyError`` for a generator function whose results the step does not iterate over, and for an async
    function; in a step that awaits, for all others."""
    plain = _AWAITED.get(method)
    why = why_not_awaited(call, plain) if plain else why_unusable(call, iterated=method in _ITERATED)
    if why:
        raise TopologyError(f"{method} at {where}: {called(call)} is {why}")


def called(call: Any) -> str:
    """A function's name and place, for messages."""
    function = UserFunction(call, 0, False, "")
    place = function.location()
    return f"{function.name} at {place}" if place else function.name


def _wants_context(call: Callable[..., Any], most: int, method: str) -> bool:
    """True if a function asks for the record's context: its last argument is required, and it is called ``context``, is
    annotated as ``RecordContext``, or is one more than the method could otherwise pass."""
    needed = _needed(call)
    if len(needed) < 2 or len(needed) > most + 1:
        return False
    return _is_context(needed) or (len(needed) == most + 1 and method not in _BY_NAME)


def _needed(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """The arguments that must be passed by position."""
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (ValueError, TypeError):  # some builtins have no signature
        return []
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one for one in parameters if one.kind in plain and one.default is inspect.Parameter.empty]


def _is_context(needed: list[inspect.Parameter]) -> bool:
    """True if the last of several arguments declares itself as the record's context."""
    if len(needed) < 2:
        return False
    last = needed[-1]
    is_annotated = getattr(last.annotation, "__name__", last.annotation) in ("RecordContext", "penstock.RecordContext")
    return last.name == "context" or is_annotated


def _returned(call: Any) -> Any:
    while isinstance(call, partial):
        call = call.func
    if isinstance(call, type):
        return call
    if not hasattr(call, "__annotations__") or not hasattr(call, "__name__"):
        call = getattr(type(call), "__call__", None)  # noqa: B004 - of an object it is the method that is annotated
    try:
        annotation = inspect.get_annotations(call).get("return")
        if isinstance(annotation, str):  # postponed: others may name unknown types
            annotation = eval(annotation, getattr(inspect.unwrap(call), "__globals__", {}))
    except Exception:
        return None
    return annotation


def accepts(call: Callable[..., Any], arity: int) -> bool:
    """True if the object can be called with ``arity`` arguments."""
    try:
        signature = inspect.signature(call)
    except (ValueError, TypeError):  # some builtins have no signature
        return True
    try:
        signature.bind(*[None] * arity)
    except TypeError:
        return False
    return True


def check_type(given: Any, type_: type, what: str, hint: str = "") -> None:
    """Raise ``TopologyError`` unless an argument of a DSL call has the given type."""
    if not isinstance(given, type_) or isinstance(given, bool):
        got = f"the function {called(given)}" if isinstance(given, FunctionType) else repr(given)
        raise TopologyError(
            f"{what} at {caller()} must be of type {type_.__name__}; got {got} of type {type(given).__name__}"
            f"{'; ' + hint if hint else ''}"
        )


def check_flag(given: Any, what: str) -> None:
    """Raise ``TopologyError`` unless an argument of a DSL call is True or False."""
    if not isinstance(given, bool):
        raise TopologyError(f"{what} at {caller()} is True or False; got {given!r} of type {type(given).__name__}")


def check_topic(topic: Any, what: str, hint: str = "") -> None:
    """Raise ``TopologyError`` unless an argument of a DSL call is the name of a topic."""
    check_type(topic, str, what, hint)
    try:
        check_topic_name(topic)
    except ConfigError as error:
        raise TopologyError(f"{what} at {caller()}: {error}") from None
