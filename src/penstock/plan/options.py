"""The base of option objects: immutable values whose methods each keep the earlier settings (KS-11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from penstock.errors import ConfigError, TopologyError
from penstock.plan.functions import caller, check_type
from penstock.serdes import Serde, of
from penstock.usage.java_names import KafkaNames
from penstock.usage.signatures import telling

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Options")


@dataclass(frozen=True)
class Options(KafkaNames):
    """An option object: a frozen dataclass whose defaults mean "not set", and whose methods are all ``option``s.

    A method never builds its result from scratch: it changes the fields that it names, with ``_but``. The class's
    ``__post_init__`` refuses combinations that do not fit. So the order of the calls does not matter.
    """

    @classmethod
    def _nothing_said(cls) -> Self:
        """The object that a method starts from when it is called on the class itself."""
        return cls()

    def _but(self, **changes: Any) -> Self:
        """A copy with these fields changed, checked like a new object."""
        return replace(self, **changes)


def types_given(**types: Any) -> dict[str, Serde]:
    """Return the types that were given, as serdes.

    Raises:
        ConfigError: one of them is not a type that can be written; the message names it.
    """
    return {name: of(given, name) for name, given in types.items() if given is not None}


def named_first(method: str, names: tuple[str, ...], given: tuple[Any, ...], said: dict[str, Any]) -> dict[str, Any]:
    """Return by name the arguments of a method whose first argument may be left out, as in ``with_(name, key, value)``.

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
    """Accept an option object at the position of a method's next keyword, where Kafka Streams has it.

    Args:
        kind: the class of the object.
        first: the argument in that position: an option object, or the keyword's value.
        given: the object given by its own keyword.
        keyword: the name of the object's own keyword.

    Returns:
        The object, and the value of the keyword whose position it may take.

    Raises:
        TopologyError: there are two objects.
    """
    if not isinstance(first, kind):
        return given, first
    if given is not None:
        raise TopologyError(f"{method} at {caller()}: give {keyword}= once; got {first!r} and {given!r}")
    return first, None


def said_once(method: str, keyword: str, given: T | None, said: T) -> T:
    """Combine the settings of an option object with those of the keywords next to it.

    Args:
        method: the method that was given both.
        keyword: the keyword of the object.
        given: the object, if given.
        said: the other keywords' settings, as an object of the same kind. If a field's keyword has another name, the
            field's metadata has it.

    Raises:
        TopologyError: the object is of another kind, or both set the same field.
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
    """A method of an option class: it starts from the object, or from the defaults if it is called on the class.

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
    """An ``option`` whose result has the kind of option object that it was called on, for classes with subclasses."""

    def __get__(self, instance: T | None, owner: type[T]) -> Callable[P, T]:
        return super().__get__(instance, owner)
