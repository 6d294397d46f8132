"""Sends classes of a script or a notebook to the slots by value.

cloudpickle splits classes into a skeleton and attributes that are set on it afterwards. Three things need help. Names
in annotations exist in the user's ``__main__`` only, so they are sent as the types that they name. msgspec's own data
on a class cannot be pickled, and is created again. The fields of a ``Struct`` or ``TypedDict`` are fixed when the class
is created.
"""

from __future__ import annotations

import inspect
import types
import typing
from enum import Enum
from typing import Any, is_typeddict

import msgspec

_CONFIG = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields",
    "weakref", "dict", "cache_hash", "tag", "tag_field",
)  # fmt: skip

_MADE_BY_PYTHON = frozenset((
    "__module__", "__annotations__", "__slots__", "__dict__", "__weakref__", "__static_attributes__",
    "__firstlineno__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__orig_bases__",
    "__parameters__", "__match_args__",
))  # fmt: skip
_POST_INIT = "__penstock_post_init__"


def needs_own_way(class_: type) -> bool:
    """Return whether cloudpickle cannot split a class."""
    return issubclass(class_, msgspec.Struct) or is_typeddict(class_)


def take_apart(class_: type) -> tuple[Any, ...]:
    """Return the pickle reduction of a ``Struct`` or ``TypedDict``."""
    annotations = _own_annotations(class_)
    if is_typeddict(class_):
        marks = {name: getattr(class_, name) for name in vars(class_) if name.endswith("_keys__")}
        state = {"__annotations__": annotations, "__doc__": class_.__doc__, **marks}
        return _make_typed_dict, (class_.__name__, class_.__qualname__, class_.__total__), state, None, None, _set_all  # type: ignore[attr-defined]
    own = {name: value for name, value in vars(class_).items() if _is_users(name, value)}
    if (post_init := own.pop("__post_init__", None)) is not None:
        own[_POST_INIT] = post_init
    struct: Any = class_
    fields = [field for field in msgspec.structs.fields(struct) if field.name in annotations]
    defaults = {field.name: _default(field) for field in fields}
    config = {name: getattr(struct.__struct_config__, name) for name in _CONFIG}
    config["kw_only"] = bool(fields) and fields[0].name not in struct.__match_args__
    config["rename"] = {field.name: field.encode_name for field in fields}
    bases = getattr(class_, "__orig_bases__", class_.__bases__)
    names = class_.__name__, class_.__qualname__, post_init is not None
    return _make_struct, (names, bases, defaults, config), {"__annotations__": annotations, **own}, None, None, _set_all


def as_it_travels(class_: type, state: dict[str, Any]) -> dict[str, Any]:
    """Return what is set on the skeleton of any other class: without msgspec's data, and with types in place of
    names.
    """
    state = {name: value for name, value in state.items() if not name.startswith("__msgspec_")}
    if "__annotations__" in state and not issubclass(class_, Enum):
        state["__annotations__"] = _own_annotations(class_)
    return state


_META = (
    "gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz", "title", "description",
    "examples", "extra_json_schema", "extra",
)  # fmt: skip


def meta_parts(meta: msgspec.Meta) -> tuple[Any, ...]:
    """Return the pickle reduction of an annotation's constraints."""
    given = {name: value for name in _META if (value := getattr(meta, name)) is not None}
    return _make_meta, (given,)


def _make_meta(given: dict[str, Any]) -> msgspec.Meta:
    return msgspec.Meta(**given)


def _own_annotations(class_: type) -> dict[str, Any]:
    own = inspect.get_annotations(class_)
    try:
        hints = typing.get_type_hints(class_, include_extras=True)
    except (NameError, TypeError, AttributeError):  # names that are local to a function
        return own
    return {name: hints.get(name, annotation) for name, annotation in own.items()}


def _is_users(name: str, value: Any) -> bool:
    """Return whether the user wrote an attribute in a Struct's namespace."""
    if name in _MADE_BY_PYTHON or name.startswith(("__struct_", "__msgspec_")):
        return False
    return not isinstance(value, types.MemberDescriptorType)


def _default(field: Any) -> tuple[str, Any]:
    if field.default is not msgspec.NODEFAULT:
        return "default", field.default
    return ("default_factory", field.default_factory) if field.default_factory is not msgspec.NODEFAULT else ("", None)


def _make_struct(
    names: tuple[str, str, bool], bases: tuple[Any, ...], fields: dict[str, tuple[str, Any]], config: dict[str, Any]
) -> Any:
    """Return a Struct with its fields, whose types and methods are set later."""
    name, qualified, has_post_init = names
    namespace: dict[str, Any] = {"__module__": "__main__", "__qualname__": qualified}
    namespace["__annotations__"] = dict.fromkeys(fields, Any)
    for field, (kind, value) in fields.items():
        if kind:
            namespace[field] = msgspec.field(**{kind: value})
    if has_post_init:  # msgspec looks for it when it creates the class
        namespace["__post_init__"] = _post_init
    config = {option: value for option, value in config.items() if option != "rename" or value}
    return types.new_class(name, bases, config, lambda body: body.update(namespace))


def _post_init(self: Any) -> None:
    getattr(self, _POST_INIT)()


def _make_typed_dict(name: str, qualified: str, total: bool) -> Any:
    made: Any = types.new_class(name, (typing.TypedDict,), {"total": total})
    made.__module__, made.__qualname__ = "__main__", qualified
    return made


def _set_all(class_: Any, state: dict[str, Any]) -> Any:
    for name, value in state.items():
        setattr(class_, name, value)
    return class_
