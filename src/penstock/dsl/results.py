"""The types of a step's results (0073): the given ones, else the annotated ones, else those of the settings, else those
of the step's input. A record that does not fit is refused."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Generator, Iterable
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from penstock.errors import ConfigError, TopologyError
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE, left_open
from penstock.plan.functions import UserFunction
from penstock.serdes import UNSAID, Serde, WindowedSerde, of, plain_type
from penstock.usage.calls import refuse_result


class Annotated(NamedTuple):
    """The annotations of a function's results, or of a part of them; None if there are none."""

    now: Any
    before: Any
    """The annotation as release 0.1.0 understood it, which recognised fewer."""

    @property
    def key(self) -> Annotated:
        """The first element of a pair."""
        return Annotated(_pair(self.now)[0], _pair(self.before)[0])

    @property
    def value(self) -> Annotated:
        """The second element of a pair."""
        return Annotated(_pair(self.now)[1], _pair(self.before)[1])

    @property
    def item(self) -> Annotated:
        """One element of several."""
        arguments = get_args(self.before)
        return Annotated(_item(self.now), _said(arguments[0]) if len(arguments) == 1 else None)


NOT_ANNOTATED = Annotated(None, None)


def annotated(function: UserFunction) -> Annotated:
    """The annotations of a function's results."""
    return Annotated(_said(function.returns()), _said(_returned_before(function.call)))


def value_type(given: Any, said: Annotated, of_input: Serde) -> Serde:
    """The type of a step's result values.

    Args:
        given: the user's ``value=``; None if not given.
        of_input: the type of the step's input values.
    """
    return _type(given, said, of_input, DEFAULT_VALUE)


def key_type(given: Any, said: Annotated, of_input: Serde) -> Serde:
    """The type of a step's result keys. For windowed input it is that of the inner keys, since a function that makes
    keys from windowed ones removes the windows."""
    return _type(given, said, of_input.inner if isinstance(of_input, WindowedSerde) else of_input, DEFAULT_KEY)


def forwarded_type(given: Any, of_input: Serde, default: Serde) -> Serde:
    """The type of the keys or the values that a processor forwards.

    Args:
        default: ``DEFAULT_KEY`` or ``DEFAULT_VALUE``.
    """
    if given is None:
        return left_open(default, of_input, of_input)
    return of(given, "key" if default is DEFAULT_KEY else "value")


def joined_type(given: Any, joiner: UserFunction, left: Serde, right: Serde) -> Serde:
    """The type of a joiner's results: that of both sides' values, if they have the same."""
    return value_type(given, annotated(joiner), left if left == right else UNSAID)


def aggregated_type(given: Any, adders: list[UserFunction], initializer: UserFunction, is_cogroup: bool) -> Serde:
    """The type of aggregates: the given one, else the annotation of the aggregators or the initializer, else the type
    of the initializer's result."""
    every = [annotated(adder) for adder in adders]
    now = next((one.now for one in every if one.now is not None), None)
    before = every[0].before
    if now is None:
        now = _said(initializer.returns())
    if before is None and not is_cogroup and initializer.call in (int, float, str):
        before = initializer.call
    first = _first_type(initializer) if given is None and now is None else UNSAID
    try:
        return value_type(given, Annotated(now, before), first)
    except ConfigError:  # the initializer is a class whose objects JSON cannot create
        if given is not None or now is not initializer.call:
            raise
        return value_type(None, NOT_ANNOTATED, UNSAID)


def agreed(one: Serde, other: Serde) -> Serde | None:
    """The common type of the values of two streams; None if they differ."""
    if one == other:
        return one
    unsaid = [serde for serde in (one, other) if serde == UNSAID]
    return (other if one == UNSAID else one) if unsaid and one.name == other.name else None


def said_type(given: Any, annotation: Any, otherwise: Serde) -> Serde:
    """The given type, else the annotated one, else another."""
    if given is not None:
        return of(given)
    said = _said(annotation)
    return otherwise if said is None else of(plain_type(said))


def _type(given: Any, said: Annotated, otherwise: Serde, default: Serde) -> Serde:
    if given is not None:
        return of(given, "key" if default is DEFAULT_KEY else "value")
    before = default if said.before is None else of(said.before)
    if said.now is None:
        return left_open(default, otherwise, before)
    found = of(plain_type(said.now))
    return found if found == before else left_open(None, found, before)


def _first_type(initializer: UserFunction) -> Serde:
    """The type of the initial aggregate. Errors of the initializer are reported later, when it is needed."""
    try:
        first = initializer.call()
    except Exception:
        return UNSAID
    refuse_result(first, f"{initializer.method} at {initializer.where}: the initializer", TopologyError)
    try:
        return UNSAID if first is None else of(type(first))
    except Exception:
        return UNSAID


def _said(annotation: Any) -> Any:
    """The annotation if it names a type; None otherwise."""
    return None if annotation is Any or isinstance(annotation, str | TypeVar) else annotation


def _returned_before(call: Callable[..., Any]) -> Any:
    try:
        return inspect.get_annotations(call, eval_str=True).get("return")
    except Exception:
        return None


def _pair(annotation: Any) -> tuple[Any, Any]:
    if get_origin(annotation) is tuple and len(get_args(annotation)) == 2:
        key, value = get_args(annotation)
        return (None, None) if value is Ellipsis else (_said(key), _said(value))
    return None, None


def _item(annotation: Any) -> Any:
    """The type of the elements of an iterable."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not isinstance(origin, type) or not issubclass(origin, Iterable) or issubclass(origin, AsyncIterable):
        return None
    if len(arguments) == 1 or issubclass(origin, Generator):
        return _said(arguments[0])
    is_alike = origin is tuple and len(set(arguments) - {Ellipsis}) == 1
    return _said(arguments[0]) if is_alike else None
