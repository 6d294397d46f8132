"""Notices fields that a step reads by name, and that no value has: a missing field counts as None, without an error."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from penstock.columns.column import BytesColumn, Column, ValuesColumn
from penstock.messages import nearest
from penstock.plan.fields import MISSING, found_at

_log = logging.getLogger(__name__)

_ENOUGH = 10
"""How many values without the field are enough to tell, unless one of their fields has a similar name."""
_LOOKED_AT = 100
_told: set[tuple[str, tuple[str, ...]]] = set()
"""The places and fields that this process has told of."""


class Lacking:
    """Looks at the first values that reach a step, until it has found each field or has warned.

    Args:
        step: the step with its line, as messages name it.
        paths: the fields.
    """

    def __init__(self, step: str, paths: Iterable[tuple[str, ...]]):
        self._step = step
        self._left = set(paths)
        self._seen = 0

    @property
    def is_done(self) -> bool:
        return not self._left

    def look(self, column: Column) -> None:
        """Look at a chunk of values."""
        if not isinstance(column, BytesColumn | ValuesColumn):  # its type has the fields
            self._left.clear()
        values = [value for value in _first(column) if value is not None]
        self._seen += len(values)
        self._left = {path for path in self._left if all(found_at(value, path) is MISSING for value in values)}
        fields = list(dict.fromkeys(name for value in values for name in _fields(value)))
        for path in [*self._left] if values else ():
            name = ".".join(path)
            guess = nearest(name, fields)
            if guess or self._seen >= _ENOUGH:
                self._left.remove(path)
                self._tell(path, f"{name!r}{guess}", ", ".join(map(repr, fields)) or "no fields")

    def _tell(self, path: tuple[str, ...], name: str, fields: str) -> None:
        if (self._step, path) in _told:
            return
        _told.add((self._step, path))
        _log.warning(
            "%s reads the field %s, and no value has had it so far; the values have %s. A missing field counts as "
            "None: check the name",
            *(self._step, name, fields),
        )


def _first(column: Column) -> list[Any]:
    """Return the first values of a column; none if they do not decode, which is told elsewhere."""
    if isinstance(column, ValuesColumn):
        return column.decoded()[:_LOOKED_AT]
    if isinstance(column, BytesColumn):
        with suppress(Exception):
            return column.serde.decode_all(column.encoded()[:_LOOKED_AT])
    return []


def _fields(value: Any) -> Iterable[str]:
    named = value if isinstance(value, dict) else getattr(value, "__struct_fields__", None)
    return map(str, getattr(value, "__dataclass_fields__", ()) if named is None else named)
