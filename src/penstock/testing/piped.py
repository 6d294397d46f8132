"""Encodes keys and values that tests pipe in, as a producer would."""

from __future__ import annotations

from typing import Any

from penstock.arrays import Binary, binary
from penstock.errors import SerdeError
from penstock.serdes import Serde


def piped(value: Any, serde: Serde, what: str, topic: str) -> Binary:
    """Return one value of a topic's type as a column; bytes stay unchanged, since a topic may contain any bytes.

    >>> from penstock.serdes import INT
    >>> piped(1, INT, "value", "in").to_pylist(), piped(b"no int", INT, "value", "in").to_pylist()
    ([b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01'], [b'no int'])

    Raises:
        SerdeError: the value is not of the type.
    """
    if type(value) is bytes:
        return binary([value])
    try:
        return serde.encode_all([value])
    except SerdeError as error:
        raise SerdeError(
            f"pipe_input into {topic!r}: {error}. The source reads {what}s of type {serde.name}; where another one is "
            f"meant, say {what}={_type_name(value)} where the topic is read"
        ) from None


def _type_name(value: Any) -> str:
    return type(value).__name__
