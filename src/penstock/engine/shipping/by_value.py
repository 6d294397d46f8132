"""Pickles objects of a script or a notebook by value that pickle would send by name, or not at all.

Their names exist in the user's ``__main__`` only. A cached function is sent with its parameters, without its cached
results.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
import weakref
from collections.abc import Callable
from enum import Enum
from typing import Any

from cloudpickle import cloudpickle

_Cached = type(functools.lru_cache(len))
_OF_ENUM = ("_name_", "_value_", "_sort_order_", "__objclass__")
"""Attributes that the class creates on a member of an ``Enum``."""

Reduced = tuple[Any, ...]


def goes_by_name(thing: Any) -> bool:
    """Return whether an object can be imported under its name in other processes."""
    module = getattr(thing, "__module__", None)
    found: Any = None if module == "__main__" else sys.modules.get(module or "")
    for name in str(getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "")).split("."):
        found = getattr(found, name, None)
    return found is thing


def reduced(thing: Any) -> Reduced | None:
    """Return the pickle reduction of an object; None for objects that need no help."""
    reduce = _REDUCERS.get(type(thing))
    if reduce is None or (type(thing) in _NAMED and goes_by_name(thing)):
        return None
    return reduce(thing)


def _cached(thing: Any) -> Reduced:
    given = thing.cache_parameters()
    return _make_cached, (thing.__wrapped__, given["maxsize"], given["typed"]), vars(thing)


def _make_cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


def _cached_property(thing: Any) -> Reduced:
    state = {"attrname": thing.attrname, "__doc__": thing.__doc__}
    return functools.cached_property, (thing.func,), state


def _new_type(thing: Any) -> Reduced:
    return _make_new_type, (thing.__name__, thing.__supertype__, thing.__qualname__)


def _make_new_type(name: str, supertype: Any, qualified: str) -> Any:
    new_type: Any = typing.NewType
    made = new_type(name, supertype)
    made.__module__, made.__qualname__ = "__main__", qualified
    return made


def _type_alias(thing: Any) -> Reduced:
    return type(thing), (thing.__name__, thing.__value__)


def _of_name(thing: Any) -> Reduced:
    return type(thing), (thing.__name__,)


def _weak(thing: Any) -> Reduced:
    return type(thing), (dict(thing.items()),)


def _code(thing: Any) -> Reduced:
    """Keep the name of the file, which cloudpickle replaces: messages name the user's line."""
    make, arguments = cloudpickle._code_reduce(thing)
    return make, tuple(thing.co_filename if one == _NO_FILE else one for one in arguments)


_NO_FILE = "<dynamic-code>"


def _mark(thing: Any) -> Reduced:
    """Return a mark of dataclasses under its name: a field without a default has the one mark, not a copy of it."""
    return getattr, (dataclasses, next(name for name, value in vars(dataclasses).items() if value is thing))


_REDUCERS: dict[Any, Callable[[Any], Reduced]] = {
    _Cached: _cached,
    functools.cached_property: _cached_property,
    types.CodeType: _code,
    type(dataclasses.MISSING): _mark,
    type(dataclasses.KW_ONLY): _mark,
    typing.NewType: _new_type,
    typing.ParamSpec: _of_name,
    typing.TypeVarTuple: _of_name,
    weakref.WeakKeyDictionary: _weak,
    weakref.WeakValueDictionary: _weak,
}
if hasattr(typing, "TypeAliasType"):
    _REDUCERS[typing.TypeAliasType] = _type_alias
_NAMED = {_Cached, typing.NewType, typing.ParamSpec, typing.TypeVarTuple, getattr(typing, "TypeAliasType", None)}
"""Objects with a name to be imported by."""


def with_members(class_: type, state: Reduced, set_state: Callable[[Any, Any], Any]) -> tuple[Reduced, Any]:
    """Return what is set on the skeleton of an ``Enum``, and the function that sets it.

    The members keep what ``__init__`` and ``__new__`` gave them; these are not called again.
    """
    if not issubclass(class_, Enum):
        return state, set_state
    attributes, slots = state
    attributes = {name: value for name, value in attributes.items() if name not in class_.__members__}
    members = {
        member.name: {key: value for key, value in vars(member).items() if key not in _OF_ENUM} for member in class_
    }
    aliases = {alias: member.name for alias, member in class_.__members__.items() if alias not in members}
    return (set_state, (attributes, slots), members, aliases), _set_enum


def _set_enum(class_: Any, state: Any) -> Any:
    set_state, own_state, members, aliases = state
    made = set_state(class_, own_state)
    for name, own in members.items():
        vars(made[name]).update(own)
    for alias, name in aliases.items():
        if alias not in made.__members__:
            setattr(made, alias, made[name])
            made._member_map_[alias] = made[name]
    return made
