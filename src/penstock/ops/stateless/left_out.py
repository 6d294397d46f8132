"""Notices fields of records that the type of a source does not have, where values of that type are written again."""

from __future__ import annotations

import logging

import msgspec
import numpy as np

from penstock.columns.column import BytesColumn, Column

_log = logging.getLogger(__name__)

_LOOKED_AT = 8
"""How many records of a chunk are looked at: to look at all would take as long as to decode them."""
_MOST_NAMED = 10

_told: dict[str, set[str]] = {}
"""By topic, the fields that this process has told of."""


class LeftOut:
    """Looks at a few records of each chunk, and warns once of each field that is left out.

    Args:
        topics: the topics of the source, as messages name them.
        where: the line at which it is read.
    """

    def __init__(self, topics: str, where: str):
        self._topics, self._where = topics, where
        self._known = _told.setdefault(topics, set())

    def look(self, column: Column) -> None:
        if not isinstance(column, BytesColumn) or len(self._known) >= _MOST_NAMED:
            return
        data = column.encoded()
        rows = np.unique(np.linspace(0, len(data) - 1, _LOOKED_AT, dtype=np.int64)) if len(data) else ()
        found = dict.fromkeys(name for row in rows for name in _left_out(column, data[int(row)].as_py()))
        news = [name for name in found if name not in self._known][:_MOST_NAMED]
        if news:
            self._known.update(news)
            _log.warning(
                "topic %s, read at %s: its records have fields that %s lacks: %s. These fields are left out, so the "
                "values of that type that this program writes lack them. Add them to the type, or read the topic as "
                "dict. value=JsonSerde(..., unknown_fields='refuse') refuses such records, 'ignore' ends this warning",
                *(self._topics, self._where, column.serde.name, ", ".join(map(repr, news))),
            )


def _left_out(column: BytesColumn, data: bytes | None) -> list[str]:
    try:
        return [] if data is None else column.serde.left_out(data)
    except msgspec.DecodeError:  # it does not decode, which is told elsewhere
        return []
