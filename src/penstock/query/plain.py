"""Keys and values as JSON, with nothing rounded or left out (docs/decisions/0080)."""

from __future__ import annotations

import base64
import re
from math import isfinite, isnan
from typing import Any

import msgspec

from penstock.arrays import Binary
from penstock.errors import PenstockError, SerdeError
from penstock.record import Windowed
from penstock.serdes import Serde

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that make text unreadable, or show it in another order."""

_AS_THEY_ARE = frozenset((str, int, bool, type(None), msgspec.Raw))


def plain(value: Any) -> Any:
    """A key or a value as JSON.

    Floats without a JSON number become text: ``"NaN"``, ``"Infinity"``, ``"-Infinity"``. Bytes that are not text become
    an object with their base64.

    >>> plain(Windowed("JFK", 0, 1000)), plain(b"ok"), plain(b"\\xff"), plain({"a": [float("nan"), 1.5]})
    ({'key': 'JFK', 'start': 0, 'end': 1000}, 'ok', {'base64': '/w=='}, {'a': ['NaN', 1.5]})
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else literal(value)
    if isinstance(value, Windowed):
        return {"key": plain(value.key), "start": value.start, "end": value.end}
    if isinstance(value, bytes):
        text = text_of(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    if kind is dict:
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    found = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=str)
    return found if type(found) is kind else plain(found)


def literal(value: float) -> str:
    """The name of a float that is no JSON number, as Python, JavaScript and Protobuf's JSON write it.

    >>> literal(float("nan")), literal(float("-inf"))
    ('NaN', '-Infinity')
    """
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def as_json(value: Any) -> bytes:
    """Any value as JSON that every JSON parser accepts."""
    return msgspec.json.encode(plain(value), enc_hook=str)


def decoded(serde: Serde, data: Binary) -> list[Any]:
    """The values of a column; bytes stay bytes if they do not decode, whatever error a user's serde raises.

    Raises:
        PenstockError: the data are not at fault: a registry cannot be reached, or a setting is missing.
    """
    try:
        return serde.decode_all(data)
    except Exception:
        return [_decoded(serde, item) for item in data.to_pylist()]


def _decoded(serde: Serde, data: bytes | None) -> Any:
    try:
        return None if data is None else serde.decode(data)
    except Exception as error:
        if isinstance(error, PenstockError) and not isinstance(error, SerdeError):
            raise
        return data


def text_of(data: bytes) -> str | None:
    """Bytes as text; None if they are not text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if CONTROL.search(text) else text
