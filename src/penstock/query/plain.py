"""Keys and values as JSON has them."""

from __future__ import annotations

import base64
import re
from typing import Any

from penstock.record import Windowed

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What is no text that people read."""


def plain(value: Any) -> Any:
    """A key or a value as JSON has it; bytes that are no text as an object with their base64.

    >>> plain(Windowed("JFK", 0, 1000)), plain(b"ok"), plain(b"\\xff")
    ({'key': 'JFK', 'start': 0, 'end': 1000}, 'ok', {'base64': '/w=='})
    """
    if isinstance(value, Windowed):
        return {"key": plain(value.key), "start": value.start, "end": value.end}
    if isinstance(value, bytes):
        text = text_of(value)
        return {"base64": base64.b64encode(value).decode()} if text is None else text
    return value


def text_of(data: bytes) -> str | None:
    """Bytes as the text they are, if they are one."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if CONTROL.search(text) else text
