"""The columns that the records of a stream become in a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.serdes import Serde
from penstock.serdes.arrow_columns import TIME, fields_of, flat_columns


@dataclass(frozen=True)
class SinkColumns:
    """The columns: structs become their fields, and a windowed key its key, start and end.

    Attributes:
        keys: the columns of the key; none where the sink leaves it out.
        values: the columns of the value.
        time: the column of the record's time, or None.
    """

    key: Serde
    value: Serde
    keys: Any
    values: Any
    time: str | None

    @classmethod
    def of(cls, where: str, types: tuple[Serde, Serde], names: tuple[str | None, str, str | None]) -> SinkColumns:
        """Return the columns for types of keys and values.

        Args:
            where: the user's call, for messages.
            names: the column of keys or None, of values that have no fields, and of times or None.

        Raises:
            ConfigError: two columns have one name.
        """
        key, value, time = names
        keys = pa.schema([] if key is None else fields_of(types[0], key))
        found = cls(*types, keys, pa.schema(fields_of(types[1], value)), time)
        every = found.schema.names
        twice = next((name for name in every if every.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(
                f"{where}: two columns are called {twice!r}. Give the key's another name (key=...), or that of the "
                "time (timestamp=..., or None to leave it out)"
            )
        return found

    @property
    def schema(self) -> Any:
        """All columns: of the key, of the value, and the time."""
        return pa.schema([*self.keys, *self.values, *([] if self.time is None else [pa.field(self.time, TIME)])])

    def batch(self, key: Any, value: Any, timestamp: Any) -> Any:
        """Return records, whose keys and values are bytes, as an Arrow record batch."""
        found = flat_columns(self.key, key) if self.keys.names else []
        found += flat_columns(self.value, value)
        if self.time is not None:
            found.append(pa.array(timestamp, pa.int64()).cast(TIME))
        return pa.record_batch(found, schema=self.schema)
