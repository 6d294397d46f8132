"""JSON into dicts and lists, dataclasses, msgspec Structs, TypedDicts."""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import msgspec.inspect

from penstock.arrays import Binary, binary
from penstock.errors import SerdeError
from penstock.serdes.base import Serde


class JsonSerde(Serde):
    """JSON of one type; ``Any`` takes whatever JSON can say.

    >>> JsonSerde(dict).decode(b'{"a": 1}'), JsonSerde(dict).encode({"a": 1})
    ({'a': 1}, b'{"a":1}')
    """

    def __init__(self, type_: Any = Any):
        self.type = type_
        self.name = "json" if type_ is Any else f"json[{getattr(type_, '__name__', str(type_))}]"
        try:
            self._decode = msgspec.json.Decoder(type_).decode
        except TypeError as error:
            raise SerdeError(f"JSON cannot be read into {type_!r}: {error}") from None
        if isinstance(msgspec.inspect.type_info(type_), msgspec.inspect.CustomType):
            raise SerdeError(f"JSON cannot be read into {type_!r}: it does not say what its fields are")
        self._encode = msgspec.json.Encoder().encode
        self._immutable = _is_immutable(type_, _SCALARS)
        self._exact = type_ if type_ not in _SCALARS and _is_immutable(type_, _EXACT) else None

    @property
    def immutable(self) -> bool:
        return self._immutable

    @property
    def exact(self) -> type | None:
        return self._exact

    def encode(self, value: Any) -> bytes:
        try:
            return self._encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise SerdeError(f"cannot write {value!r} as JSON: {error}") from None

    def decode(self, data: bytes) -> Any:
        try:
            return self._decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SerdeError(f"{error}; the bytes are {_shorten(data)}") from None

    @property
    def converters(self) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        return self._encode, self._decode

    def encode_all(self, values: list[Any]) -> Binary:
        encode = self._encode
        try:
            return binary([None if value is None else encode(value) for value in values])
        except (TypeError, ValueError, OverflowError):
            return super().encode_all(values)

    def decode_all(self, data: Binary) -> list[Any]:
        decode = self._decode
        try:
            return [None if item is None else decode(item) for item in data.to_pylist()]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return super().decode_all(data)

    def __reduce__(self) -> Any:
        return JsonSerde, (self.type,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSerde) and self.type == other.type

    def __hash__(self) -> int:
        return hash((JsonSerde, self.name))


_SCALARS = frozenset((str, int, float, bool, bytes, type(None)))
_EXACT = frozenset((str, int, bool, type(None)))
"""Scalars of which JSON makes no others; a float without a fraction may have been an int."""


def _is_immutable(type_: Any, scalars: frozenset[Any]) -> bool:
    """Whether values of a type are frozen through and through: frozen classes of scalars."""
    if get_origin(type_) in (Union, UnionType):
        return all(_is_immutable(one, scalars) for one in get_args(type_))
    if type_ in scalars:
        return True
    config = getattr(type_, "__struct_config__", None) or getattr(type_, "__dataclass_params__", None)
    if config is None or not config.frozen:
        return False
    return all(_is_immutable(field, scalars) for field in get_type_hints(type_).values())


def _shorten(data: bytes) -> str:
    return repr(data if len(data) <= 80 else data[:80] + b"...")
