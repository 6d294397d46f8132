"""What is believed of files that others may write: names stay inside their folder, Arrow data is what it says.

Checksums tell damage, not malice: who writes a file writes its checksum. So every name that comes from a file is
checked before it becomes part of a path, and every record batch before its buffers are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.errors import CorruptDataError

_PART = r"(?!\.{1,2}(?:/|\Z))[^/\\\0]{1,255}"
_NAME = re.compile(_PART)
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")


def file_name(name: str) -> str:
    """The name, if it is that of a file in a folder; raises ``ValueError`` for anything that leads elsewhere.

    >>> file_name("000012.sst")
    '000012.sst'
    >>> file_name("../../.profile")
    Traceback (most recent call last):
    ValueError: '../../.profile' is not the name of a file in this folder
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a file in this folder")
    return name


def inner_path(path: str) -> str:
    """The path, if it leads from a folder to something inside it; raises ``ValueError`` otherwise.

    >>> inner_path("deltas/0_0/7.arrow")
    'deltas/0_0/7.arrow'
    >>> inner_path("/etc/passwd")
    Traceback (most recent call last):
    ValueError: '/etc/passwd' leads out of its folder
    """
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} leads out of its folder")
    return path


class ArrowFile:
    """An Arrow file, of which no record batch is handed out that is not whole and of the form expected.

    Args:
        data: all its bytes.
        schemas: the forms that it may have.
        complete: the columns that have a value in every row.
        where: what it is called in errors.

    Raises:
        CorruptDataError: it is no Arrow file, or one of another form.
    """

    def __init__(self, data: Any, schemas: Sequence[Any], complete: Sequence[str], where: str):
        self._where = where
        self._complete = complete
        self._rows: dict[int, int] = {}
        try:
            self._reader = ipc.open_file(data)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._error(error) from None
        if not any(self._reader.schema.equals(schema) for schema in schemas):
            raise self._error(f"its columns are {', '.join(self._reader.schema.names) or 'none'}")

    def __len__(self) -> int:
        return int(self._reader.num_record_batches)

    @property
    def schema(self) -> Any:
        """Which of the forms it has."""
        return self._reader.schema

    def rows(self, number: int) -> int:
        """How many rows a record batch has; raises as ``batch``."""
        if number not in self._rows:
            self._rows[number] = self.batch(number).num_rows
        return self._rows[number]

    def batch(self, number: int) -> Any:
        """A record batch; raises ``CorruptDataError`` when there is none, or one that contradicts itself."""
        return self.batch_and_metadata(number)[0]

    def batch_and_metadata(self, number: int) -> tuple[Any, Any]:
        """A record batch and what was written with it."""
        try:
            batch, metadata = self._reader.get_batch_with_custom_metadata(number)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise self._error(error) from None
        for name in self._complete:
            if batch.column(name).null_count:
                raise self._error(f"its column {name} has no value in some rows")
        return batch, metadata

    def _error(self, reason: Any) -> CorruptDataError:
        return CorruptDataError(f"{self._where} does not hold what it should: {reason}; restore it from a backup")
