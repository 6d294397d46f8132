"""What option objects have in common: they are values, and each of their methods keeps what was said before (KS-11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from penstock.errors import ConfigError, TopologyError
from penstock.java_names import KafkaNames
from penstock.plan.functions import caller, check_type
from penstock.serdes import Serde, of
from penstock.signatures import telling

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Options")


@dataclass(frozen=True)
class Options(KafkaNames):
    """An option object: a frozen dataclass whose defaults say nothing, and whose methods are all ``option``s.

    A method never makes its result from scratch; it changes what it names, by ``_but``, and the class's
    ``__post_init__`` refuses what does not go together. So nothing depends on the order in which things are said.
    """

    @classmethod
    def _nothing_said(cls) -> Self:
        """What a method called on the class itself begins with."""
        return cls()

    def _but(self, **changes: Any) -> Self:
        """A copy with these fields changed, checked as a new one is."""
        return replace(self, **changes)


def types_given(**types: Any) -> dict[str, Serde]:
    """Those that were given, as serdes.

    Raises:
        ConfigError: one is no type that can be written; the message names it.
    """
    return {name: of(given, name) for name, given in types.items() if given is not None}


def named_first(method: str, names: tuple[str, ...], given: tuple[Any, ...], said: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a method whose first one may be left out, as in ``with_(name, key, value)``, by their names.

    Raises:
        ConfigError: there are too few or too many, or one is given twice.

    >>> named_first("Painted.with_", ("name", "colour", "coats"), ("red", 2), {})
    {'colour': 'red', 'coats': 2}
    """
    placed = dict(zip(names if len(given) == len(names) else names[1:], given, strict=False))
    if len(given) not in (0, len(names) - 1, len(names)) or not said.keys() <= set(names) - placed.keys():
        every = [*map(repr, given), *(f"{name}={value!r}" for name, value in said.items())]
        raise ConfigError(f"{method} takes ({', '.join(names)}) or ({', '.join(names[1:])}); got ({', '.join(every)})")
    return placed | said


def in_place_of(kind: type[T], first: Any, given: T | None, method: str, keyword: str) -> tuple[T | None, Any]:
    """An option object, which may stand where Kafka Streams has it, in the place of a method's next keyword.

    Args:
        kind: the class of the object.
        first: what stands in that place: an option object, or what the keyword is for.
        given: what was given by the object's own keyword.
        keyword: that keyword.

    Returns:
        The object, and what was given for the keyword in whose place it may stand.

    Raises:
        TopologyError: there are two objects.
    """
    if not isinstance(first, kind):
        return given, first
    if given is not None:
        raise TopologyError(f"{method} at {caller()}: give {keyword}= once; got {first!r} and {given!r}")
    return first, None


def said_once(method: str, keyword: str, given: T | None, said: T) -> T:
    """What was said in an option object and by the keywords beside it, in one.

    Args:
        method: the method that was given both.
        keyword: the one for the object.
        given: the object, if there is one.
        said: what the other keywords say, as an object of the same kind. A field whose keyword has another name has
            that in its metadata.

    Raises:
        TopologyError: it is an object of another kind, or something was said in both.
    """
    if given is None:
        return said
    check_type(given, type(said), f"{keyword}= of {method}")
    beside = {field: getattr(said, field.name) for field in fields(said) if getattr(said, field.name) != field.default}
    for field, value in beside.items():
        if getattr(given, field.name) != field.default:
            name = field.metadata.get("keyword", field.name)
            raise TopologyError(
                f"{method} at {caller()}: give {name}= once, not in {keyword}= as well; got {value!r} and "
                f"{getattr(given, field.name)!r}"
            )
    return given._but(**{field.name: value for field, value in beside.items()})


class option(Generic[P, R]):  # noqa: N801 - a decorator, as property is
    """A method of an option class: of what was said so far, or of nothing when it is called on the class.

    >>> @dataclass(frozen=True)
    ... class Painted(Options):
    ...     colour: str | None = None
    ...     coats: int = 1
    ...     @option
    ...     def in_colour(self, colour: str) -> Painted:
    ...         return self._but(colour=colour)
    ...     @option
    ...     def with_coats(self, coats: int) -> Painted:
    ...         return self._but(coats=coats)
    >>> Painted.in_colour("red").with_coats(2) == Painted.with_coats(2).in_colour("red") == Painted("red", 2)
    True
    """

    def __init__(self, method: Callable[Concatenate[Any, P], R]):
        self._method = telling(method)
        update_wrapper(cast(Any, self), method)

    def __get__(self, instance: Any, owner: type[Options]) -> Callable[P, R]:
        return MethodType(self._method, owner._nothing_said() if instance is None else instance)


class same_kind(option[P, Any]):  # noqa: N801
    """An ``option`` that gives back the kind of option object it was called on, for classes that have subclasses."""

    def __get__(self, instance: T | None, owner: type[T]) -> Callable[P, T]:
        return super().__get__(instance, owner)
