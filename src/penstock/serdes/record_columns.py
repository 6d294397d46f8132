"""The columns that the records of a stream become outside of Penstock: in sinks, and in tables of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.serdes.arrow_columns import TIME, fields_of, flat_columns
from penstock.serdes.base import Serde


@dataclass(frozen=True)
class RecordColumns:
    """The columns: structs become their fields, and a windowed key its key, start and end.

    Attributes:
        keys: the columns of the key; none if it is left out.
        values: the columns of the value.
        time: the column of the record's time, or None.
    """

    key: Serde
    value: Serde
    keys: Any
    values: Any
    time: str | None

    @classmethod
    def of(cls, types: tuple[Serde, Serde], names: tuple[str | None, str, str | None]) -> RecordColumns:
        """Return the columns for types of keys and values.

        Args:
            names: the column of keys or None, of values that have no fields, and of times or None.
        """
        key, value, time = names
        keys = pa.schema([] if key is None else fields_of(types[0], key))
        return cls(*types, keys, pa.schema(fields_of(types[1], value)), time)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*self.keys.names, *self.values.names, *([] if self.time is None else [self.time])]

    @property
    def repeated(self) -> str | None:
        """A name that two columns have; None if each has its own."""
        return next((name for name in self.names if self.names.count(name) > 1), None)

    @property
    def schema(self) -> Any:
        """All columns: of the key, of the value, and the time."""
        return pa.schema([*self.keys, *self.values, *([] if self.time is None else [pa.field(self.time, TIME)])])

    def flat(self, key: Any, value: Any) -> list[Any]:
        """Return the columns of keys and values, from their bytes."""
        return [*(flat_columns(self.key, key) if self.keys.names else []), *flat_columns(self.value, value)]

    def batch(self, key: Any, value: Any, timestamp: Any) -> Any:
        """Return records, whose keys and values are bytes, as an Arrow record batch."""
        times = [] if self.time is None else [pa.array(timestamp, pa.int64()).cast(TIME)]
        return pa.record_batch([*self.flat(key, value), *times], schema=self.schema)
