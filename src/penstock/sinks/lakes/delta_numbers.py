"""The number that a table of Delta Lake has of a partition.

It is a transaction identifier of Delta. A commit that restores an older version of the rows leaves it as it is. So each
commit also says its number in its own entry of the history. Where a restore is newer than that entry, the number
is that of the restored version.
"""

from __future__ import annotations

from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from penstock.errors import SinkError

NUMBERS = "penstock"
"""The field in an entry of the history with the numbers of partitions."""

_LOOKS = (10, 100, 1_000, None)
"""How many entries are read until one of them tells; each is a file."""


def number_of(table: DeltaTable, id: str) -> int:
    """Return the number that the rows of a table have; 0 for none.

    Args:
        id: the partition's.

    Raises:
        SinkError: the rows were restored, and the number that they have cannot be known.
    """
    at = table
    while (number := at.transaction_version(id)) is not None:
        restore = _newest_restore(table, at.version(), id)
        if restore is None:
            return int(number)
        at = _restored(table, restore.get("operationParameters", {}).get("version"), id)
    return 0


def _newest_restore(table: DeltaTable, version: int, id: str) -> dict[str, Any] | None:
    """Return the entry of the newest restore behind the newest number of a partition, or None.

    Args:
        version: up to which the history counts.
    """
    for most in _LOOKS:
        entries = table.history(most)
        for entry in (one for one in entries if one["version"] <= version):
            if entry["operation"] == "RESTORE":
                return dict(entry)
            if id in (entry.get(NUMBERS) or {}):
                return None
        if most is None or len(entries) < most:
            break
    return None


def _restored(table: DeltaTable, version: str | int | None, id: str) -> DeltaTable:
    """Return the table as of the version that was restored."""
    try:
        if version is not None:
            return DeltaTable(table.table_uri, version=int(version), storage_options=table._storage_options)
    except DeltaError as error:
        reason = f"version {version} cannot be read: {str(error).partition(chr(10))[0]}"
    else:
        reason = "it does not say which version"
    raise SinkError(
        f"the table was restored from an older version, and the number of its rows of {id!r} is unknown, as {reason}. "
        "Restore the table to a version that is there, by the version's number"
    )
