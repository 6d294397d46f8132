"""HTML for notebooks: tables and pictures for light and dark pages, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import islice
from typing import Any

MOST_ROWS = 10
"""How many rows of a long list are shown."""

_CELL = "padding:.2em .8em .2em 0;text-align:left;vertical-align:top"
_LINE = "border-top:1px solid color-mix(in srgb,currentColor 18%,transparent)"


def html_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]], note: str = "") -> str:
    """Return a table with a title above it.

    >>> html_table("two", ["a"], [["<b>"]]).count("&lt;b&gt;")
    1
    """
    head = "".join(f'<th style="{_CELL}">{escape(str(column))}</th>' for column in columns)
    body = "".join(
        f'<tr style="{_LINE}">' + "".join(f'<td style="{_CELL}">{_shown(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = f'<div style="opacity:.65">{escape(note)}</div>' if note else ""
    return (
        f'<div style="font-family:system-ui,sans-serif;font-size:13px;overflow-x:auto"><b>{escape(title)}</b>'
        f'<table style="border-collapse:collapse;margin:.4em 0"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{below}</div>"
    )


def html_rows(title: str, rows: Iterator[dict[str, Any]]) -> str:
    """Return the first of some rows, and a note if there are more."""
    some = list(islice(rows, MOST_ROWS + 1))
    columns = list(dict.fromkeys(name for row in some for name in row))
    cells = ([row.get(name, "") for name in columns] for row in some[:MOST_ROWS])
    note = "no rows" if not some else f"the first {MOST_ROWS} rows" if len(some) > MOST_ROWS else ""
    return html_table(title, columns, cells, note)


def _shown(cell: Any) -> str:
    text = cell if isinstance(cell, str) else repr(cell) if cell is not None else ""
    return escape(text if len(text) <= 200 else f"{text[:199]}…")
