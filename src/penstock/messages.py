"""Shows arbitrary values and errors in messages: never long, and without failing."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from penstock.errors import PenstockError

_MOST = 200


def show(value: Any, most: int = _MOST) -> str:
    """Return the repr of a value, cut off if it is long.

    >>> show("text"), show(b"x" * 100, 6)
    ("'text'", "b'xxxxxx...'")
    """
    try:
        if type(value) is str:
            return _plain(repr(value if len(value) <= most else value[:most] + "..."))
        if type(value) is bytes:
            return repr(value if len(value) <= most else value[:most] + b"...")
        text = repr(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's __repr__ failed, or the value is nested too deeply
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return _plain(text if len(text) <= most else text[:most] + "...")


def said(error: BaseException) -> str:
    """Return the message of an error."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return f"(its message cannot be shown: __str__ raises {type(problem).__name__})"


def describe(error: BaseException) -> str:
    """Return the message of an error, with its type if it is not one of ours.

    >>> describe(KeyError("name"))
    "KeyError: 'name'"
    """
    text = said(error)
    if isinstance(error, PenstockError):
        return _plain(text)
    return _plain(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def nearest(name: str, known: Iterable[str]) -> str:
    """Guess which known name was meant.

    >>> nearest("on_eror", ["on_error", "log_dir"]), nearest("x", ["on_error"])
    (" (did you mean 'on_error'?)", '')
    """
    found = get_close_matches(name, list(known), 1, 0.7)
    return f" (did you mean {found[0]!r}?)" if found else ""


def partitions_to(count: int) -> str:
    """Return the numbers of a topic's partitions.

    >>> partitions_to(1), partitions_to(4)
    ('it has partition 0 alone', 'it has the partitions 0 to 3')
    """
    return "it has partition 0 alone" if count == 1 else f"it has the partitions 0 to {count - 1}"


def _plain(text: str) -> str:
    """Return text that can always be encoded: half a surrogate pair is no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
