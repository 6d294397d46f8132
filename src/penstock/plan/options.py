"""What option objects have in common: they are values, and each of their methods keeps what was said before (KS-11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from penstock.serdes import Serde, of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Options")


@dataclass(frozen=True)
class Options:
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
        self._method = method
        update_wrapper(cast(Any, self), method)

    def __get__(self, instance: Any, owner: type[Options]) -> Callable[P, R]:
        return MethodType(self._method, owner._nothing_said() if instance is None else instance)


class same_kind(option[P, Any]):  # noqa: N801
    """An ``option`` that gives back the kind of option object it was called on, for classes that have subclasses."""

    def __get__(self, instance: T | None, owner: type[T]) -> Callable[P, T]:
        return super().__get__(instance, owner)
