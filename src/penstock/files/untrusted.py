"""Checks files that others may write: names must stay inside their folder, Arrow data must be consistent.

Checksums detect damage, not malice: the writer of a file writes its checksum. So every name from a file is checked
before it becomes part of a path, and every record batch before its buffers are read.
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
    """Return the name of a file in a folder; raises ``ValueError`` for anything that leads elsewhere.

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
    """Return the path, if it leads from a folder to something inside it; raises ``ValueError`` otherwise.

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
    """An Arrow file that returns only record batches that are complete and of an expected schema.

    Args:
        data: all its bytes.
        schemas: the possible schemas.
        complete: the columns that have a value in every row.
        where: the file's name in errors.

    Raises:
        CorruptDataError: it is no Arrow file, or one of another schema.
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
        """Its schema, one of those expected."""
        return self._reader.schema

    def rows(self, number: int) -> int:
        """Return how many rows a record batch has; raises like ``batch``."""
        if number not in self._rows:
            self._rows[number] = self.batch(number).num_rows
        return self._rows[number]

    def batch(self, number: int) -> Any:
        """Return a record batch; raises ``CorruptDataError`` if it does not exist, or contradicts itself."""
        return self.batch_and_metadata(number)[0]

    def batch_and_metadata(self, number: int) -> tuple[Any, Any]:
        """Return a record batch and its metadata."""
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
