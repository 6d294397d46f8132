"""Columns of records as values and types of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.messages import show

NUMBERS = "penstock_sinks"
"""The table with the number of each partition."""

APPEND, UPSERT = "append", "upsert"


def quoted(name: str) -> str:
    """Return a name as SQL writes it.

    >>> quoted('an "x"-ray')
    '"an ""x""-ray"'
    """
    return '"{}"'.format(name.replace('"', '""'))


def checked_name(name: Any, what: str) -> str:
    """Return a table's name, perhaps with a schema before a dot.

    Raises:
        ConfigError: it is no such name.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[^.\s\"\0]+(\.[^.\s\"\0]+)?", name):
        raise ConfigError(f"{what}: table is a name, such as 'totals' or 'shop.totals'; got {show(name)}")
    return name


def table_name(name: str) -> str:
    """Return a table's name as SQL writes it.

    >>> table_name("shop.totals")
    '"shop"."totals"'
    """
    return ".".join(map(quoted, name.split(".")))


def is_nested(type_: Any) -> bool:
    """Return whether an Arrow type is a list, a struct or a map, which SQL keeps as JSON."""
    return bool(pa.types.is_nested(type_))


def values_of(column: Any, convert: Callable[[Any], Any] | None = None) -> list[Any]:
    """Return the values of an Arrow column; nested ones are JSON text."""
    if pa.types.is_nested(column.type):
        encode = msgspec.json.Encoder().encode
        return [None if one is None else encode(one).decode() for one in column.to_pylist()]
    values = column.to_pylist()
    return values if convert is None else [None if one is None else convert(one) for one in values]


def mode_of(is_table: bool, keys: Sequence[str], where: str) -> str:
    """Return how records get into a table: changes of a table by key, others appended.

    Raises:
        ConfigError: there is no key to find rows by.
    """
    if is_table and not keys:
        raise ConfigError(f"{where}: the rows of a table are found by their key; name its column: key=...")
    return UPSERT if is_table else APPEND
