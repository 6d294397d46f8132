"""Decoders of msgspec, made one at a time.

msgspec learns what a class of Struct holds when it meets the class for the first time. While it does, a second thread
that decodes the same class sees what is half done, and the process dies of a segmentation fault. So decoders are made
here, under a lock, and all that decodes into a class takes its decoder from here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

_making = threading.Lock()
_made: dict[tuple[Any, Any, Any], Any] = {}


def json_decoder(type_: Any, hook: Hook | None = None) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type from JSON. Raise ``TypeError`` for a type that msgspec does not know.

    Args:
        hook: makes values of types that msgspec does not know.

    >>> json_decoder(list[int]).decode(b"[1, 2]")
    [1, 2]
    """
    return cast("msgspec.json.Decoder[Any]", _decoder(msgspec.json.Decoder, type_, hook))


def from_json(data: Any, type_: type[T]) -> T:
    """Return a value of a type from its JSON; raises ``msgspec.DecodeError``.

    >>> from_json(b'{"a": 1}', dict[str, int])
    {'a': 1}
    """
    return cast("T", json_decoder(type_).decode(data))


def from_msgpack(data: Any, type_: type[T]) -> T:
    """Return a value of a type from its MessagePack; raises ``msgspec.DecodeError``.

    >>> from_msgpack(msgspec.msgpack.encode([1, 2]), list[int])
    [1, 2]
    """
    return cast("T", _decoder(msgspec.msgpack.Decoder, type_).decode(data))


def converted(value: Any, type_: type[T], **options: Any) -> T:
    """Return a value of a type from dicts, lists and scalars, as ``msgspec.convert`` does.

    >>> converted({"a": 1.0}, dict[str, float])
    {'a': 1.0}
    """
    _decoder(msgspec.msgpack.Decoder, type_)
    return cast("T", msgspec.convert(value, type_, **options))


def _decoder(kind: Any, type_: Any, hook: Hook | None = None) -> Any:
    """Return a decoder. It is whole, since a decoder is known only once it has been made."""
    key = kind, type_, hook
    try:
        found = _made.get(key)
    except TypeError:  # a type that cannot be a key: the metadata of an Annotated may be a list
        with _making:
            return kind(type_, dec_hook=hook)
    if found is None:
        with _making:
            found = _made[key] = kind(type_, dec_hook=hook)
    return found
