"""Which rows of a table belong into the folder of which day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a date, by the name that readers know from Hive."""


def is_date(type_: Any) -> bool:
    """Return whether rows can be split by a column of an Arrow type."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def by_date(table: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each day in UTC with its rows, in order of the days; the order of its rows stays.

    >>> times = pa.array([86_400_000, None, -1, 5, None], pa.timestamp("ms", tz="UTC"))
    >>> [(day, rows["n"].to_pylist()) for day, rows in by_date(pa.table({"t": times, "n": [0, 1, 2, 3, 4]}), "t")]
    [('1969-12-31', [2]), ('1970-01-01', [3]), ('1970-01-02', [0]), ('__HIVE_DEFAULT_PARTITION__', [1, 4])]
    """
    days, codes = np.unique(_days(table[name]), return_inverse=True)
    if len(days) == 1:
        yield _said(days[0]), table
        return
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(days)))
    for day, start, end in zip(days, [0, *ends[:-1]], ends, strict=True):
        yield _said(day), table.take(pa.array(order[start:end]))


def _days(column: Any) -> Any:
    """Return days since 1970; those of nulls are NaT, which is one value and sorts last."""
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp(column.type.unit))  # the time in UTC
    return column.combine_chunks().to_numpy(zero_copy_only=False).astype("datetime64[D]")


def _said(day: Any) -> str:
    return NO_DATE if np.isnat(day) else str(day)
