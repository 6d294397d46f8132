"""The base of all formats of files: reads the rows of a file from any place in it on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import SourceError
from penstock.serdes import Serde
from penstock.sources.files.texts import UTF_8

BLOCK = 8 << 20
"""How many bytes of text are read at once."""


@dataclass(frozen=True)
class Wanted:
    """The records that the rows of files become.

    Attributes:
        key: the column or field with the keys; None for none.
        types: the types of keys and values.
        delimiter: the character between the values of a row of CSV.
        columns: the columns of CSV without a first row of names.
        where: names the file in messages.
        encoding: that of JSON lines and CSV.
        warn: tells the user what may be a mistake.
    """

    key: str | None
    types: tuple[Serde, Serde]
    delimiter: str
    columns: tuple[str, ...] | None
    where: str
    encoding: str = UTF_8
    warn: Callable[[str], None] = lambda said: None

    def refused(self, why: object) -> SourceError:
        """Return the error for a file that cannot be read."""
        return SourceError(f"{self.where}: {str(why).partition(chr(10))[0].rstrip('.')}. Correct the file")


class Rows(ABC):
    """Reads the rows of one file.

    Args:
        at: the place to begin at, which ``read`` returned before.
        packed: how the file is packed; None if it is not.
    """

    def __init__(self, open_: Callable[[], Any], at: int, wanted: Wanted, packed: str | None):
        self._unpacked = open_ if packed is None else lambda: pa.CompressedInputStream(open_(), packed)
        self._at = at
        self._wanted = wanted
        self._is_packed = packed is not None
        self._file = self._open()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _open(self) -> Any:
        """Open the file."""
        return self._unpacked()

    @abstractmethod
    def _begin(self) -> None:
        """Go to the place."""

    @abstractmethod
    def read(self, most: int) -> tuple[Any, int] | None:
        """Return some records as a table, and the place behind them; None at the end of the file."""

    def close(self) -> None:
        self._file.close()


def column_of(batch: Any, name: str, wanted: Wanted) -> Any:
    """Return a column by its name; raise ``SourceError`` if the file has none."""
    if name not in batch.schema.names:
        raise wanted.refused(f"it has no column {name!r} for the keys; its columns are {', '.join(batch.schema.names)}")
    return batch.column(name)
