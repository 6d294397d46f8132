"""Text in any encoding as UTF-8, with marks in place of bytes that do not decode."""

from __future__ import annotations

import codecs
from typing import Any

from penstock.errors import ConfigError
from penstock.messages import show

UTF_8 = "utf-8"
MARK = "\U0010fffe"
"""Is put before the hexadecimal digits of a byte that does not decode. Unicode reserves it, so no text has it."""
_AS_MARKS, _AS_BYTES = "penstock-marks", "penstock-bytes"
_BROKEN = "\udcff"
"""Becomes the byte 0xFF, which UTF-8 never has."""
_PIECE = 1 << 20
"""How many bytes are decoded at once."""


def _marked(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"{MARK}{byte:02x}" for byte in error.object[error.start : error.end]), error.end


def _broken(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _BROKEN, error.end


codecs.register_error(_AS_MARKS, _marked)
codecs.register_error(_AS_BYTES, _broken)


def encoding_named(name: Any, what: str) -> str:
    """Return the usual name of an encoding.

    Raises:
        ConfigError: Python does not know it, or it is none of text.

    >>> encoding_named("Latin1", "encoding"), encoding_named("UTF8", "encoding")
    ('iso8859-1', 'utf-8')
    """
    try:
        "".encode(name)
        found = codecs.lookup(name)
    except (LookupError, TypeError, UnicodeError, ValueError):
        found = None
    if found is None or found.incrementaldecoder is None:
        raise ConfigError(f"{what} is an encoding that Python knows, such as 'cp1252' or 'utf-16'; got {show(name)}")
    return found.name


def shown(text: str) -> str:
    r"""Return text with the bytes that did not decode as they are written in Python.

    >>> print(shown(f"caf{MARK}e9"))
    caf\xe9
    """
    return text.replace(MARK, "\\x")


class Utf8:
    """A file of text in any encoding, to read as UTF-8.

    Args:
        file: a file of bytes.
        has_marks: whether ``MARK`` and hexadecimal digits stand for bytes that do not decode. Otherwise a byte stands
            there that is no UTF-8.

    Attributes:
        is_marked: whether a mark was set so far.
    """

    def __init__(self, file: Any, encoding: str, has_marks: bool):
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(_AS_MARKS if has_marks else _AS_BYTES)
        self._decoded = bytearray()
        self._is_over = False
        self.is_marked = False
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, fewer only at the end of the file: Arrow takes the first block for whole lines."""
        while not self._is_over and not 0 <= size <= len(self._decoded):
            piece = self._file.read(_PIECE)
            self._is_over = not piece
            text = self._decoder.decode(piece, final=self._is_over)
            self.is_marked = self.is_marked or MARK in text
            self._decoded += text.encode("utf-8", "surrogateescape")
        some = bytes(self._decoded if size < 0 else memoryview(self._decoded)[:size])
        del self._decoded[: len(some)]
        return some

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self._file.close()

    def __enter__(self) -> Utf8:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
