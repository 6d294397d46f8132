"""Keys in envelopes: the fields of a primary key become a key of a plain type, or JSON of all of them."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import msgspec

from penstock.errors import SerdeError
from penstock.messages import show
from penstock.serdes.base import Serde
from penstock.serdes.formats.base import Format, Texts
from penstock.serdes.json import JsonSerde
from penstock.serdes.primitives import BYTES, FLOAT, INT, STR
from penstock.values.decoding import json_decoder

PLAIN: dict[Serde, type] = {STR: str, INT: int, FLOAT: float}
_values = json_decoder(dict[str, Any]).decode


def is_possible(key: Serde) -> bool:
    """Whether keys in envelopes can be read as a type."""
    return isinstance(key, JsonSerde) or key == BYTES or key in PLAIN


def plain_keys(format: Format, texts: Texts, kind: type) -> list[Any] | None:
    """The only field of each key, without a call for each; None if they must be read one by one."""
    try:
        found = list(map(_values, texts))  # type: ignore[arg-type]
    except msgspec.DecodeError:
        return None
    each = list(map(list, map(dict.values, found)))
    if set(map(len, each)) != {1}:
        return None
    keys = list(map(itemgetter(0), each))
    return keys if set(map(type, keys)) == {kind} else None


def plain_key(format: Format, key: Serde) -> Callable[[bytes | None], Any]:
    """Return a function that reads one key as text or a number."""
    kind = PLAIN[key]

    def read(text: bytes | None) -> Any:
        if text is None:
            return None
        try:
            found = json_decoder(Any).decode(format.key(text) if text.lstrip().startswith(b"{") else text)
        except msgspec.DecodeError:
            if kind is str:  # written as plain text
                return text.decode()
            raise SerdeError(f"{format.name}: the key {show(text, 80)} is not JSON; say key=bytes") from None
        if isinstance(found, dict):
            if len(found) != 1:
                raise SerdeError(
                    f"{format.name}: the key has {len(found)} fields, {show(text, 80)}, where one is expected for "
                    f"key={kind.__name__}; say key=dict, or a class with these fields"
                )
            [found] = found.values()
        return _as(found, kind, text, format)

    return read


def _as(found: Any, kind: type, text: bytes, format: Format) -> Any:
    if found is None or type(found) is kind:
        return found
    if kind is str and type(found) in (int, float):
        return str(found)
    if kind is float and type(found) is int:
        return float(found)
    raise SerdeError(f"{format.name}: the key {show(text, 80)} is no {kind.__name__}; say key={type(found).__name__}")


def json_key(format: Format) -> Callable[[bytes | None], bytes | None]:
    """Return a function that gives the JSON of one key."""

    def read(text: bytes | None) -> bytes | None:
        try:
            return None if text is None else format.key(text)
        except msgspec.DecodeError:
            raise SerdeError(f"{format.name}: the key {show(text, 80)} is no JSON object; say key=str") from None

    return read
