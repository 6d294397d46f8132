"""Output on a terminal and in a pipe: consoles, tables, JSON, numbers, times, bytes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from math import isfinite
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock.cli.logs import logs_are_json
from penstock.query.plain import CONTROL, as_json, literal, text_of
from penstock.record import Windowed
from penstock.values.times import moment

_log = logging.getLogger("penstock.cli")


def stdout() -> Console:
    """Return the console for results."""
    return Console(highlight=False)


def stderr() -> Console:
    """Return the console for everything else: progress and errors."""
    return Console(stderr=True, highlight=False)


def say(message: str, style: str = "") -> None:
    """Print a message separate from the results; log it where logs are JSON."""
    if logs_are_json():
        _log.info(message)
        return
    stderr().print(message, style=style, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print_json_line(as_json(value))


def print_json_line(line: bytes) -> None:
    """Print a line of JSON in UTF-8, whatever the encoding of the terminal."""
    if (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8":
        sys.stdout.write(line.decode() + "\n")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(line + b"\n")


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str]], right: Iterable[str] = ()) -> None:
    """Print a table; in a pipe without a width limit.

    Args:
        right: the columns that are aligned to the right.
    """
    console = stdout()
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    if not console.is_terminal:
        console.width = 10_000
    console.print(table, markup=False)


# --- values -------------------------------------------------------------------------------------------------------


_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def count(number: int, noun: str) -> str:
    """Return a number of things in words.

    >>> count(1, "record"), count(12345, "record")
    ('1 record', '12,345 records')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(nbytes: int) -> str:
    """Return a number of bytes in readable form.

    >>> size(0), size(1500), size(5 * 1024**3)
    ('0 B', '1.5 KB', '5.0 GB')
    """
    if nbytes < 1024:
        return f"{nbytes} B"
    steps = min(nbytes.bit_length() - 1, 59) // 10
    return f"{nbytes / 1024**steps:.1f} {_UNITS[steps]}"


def readable(value: Any) -> str:
    """A key or a value as text on one line.

    >>> readable({"a": 1}), readable(None), readable(b"ok"), readable(b"\\x00\\xff"), readable("two\\nlines")
    ('{"a":1}', 'null', 'ok', '0x00ff', 'two\\\\nlines')
    >>> readable(Windowed("JFK", 0, 1000)), readable(float("inf"))
    ('JFK@1970-01-01T00:00:00Z/1970-01-01T00:00:01Z', 'Infinity')
    """
    if isinstance(value, Windowed):
        return f"{readable(value.key)}@{moment(value.start)}/{moment(value.end)}"
    if isinstance(value, bytes):
        text = text_of(value)
        return f"0x{value.hex()}" if text is None else text
    if isinstance(value, float) and not isfinite(value):
        return literal(value)
    text = value if isinstance(value, str) else as_json(value).decode()
    return CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


__all__ = [
    "count",
    "moment",
    "print_json",
    "print_json_line",
    "print_table",
    "readable",
    "say",
    "size",
    "stderr",
    "stdout",
]
