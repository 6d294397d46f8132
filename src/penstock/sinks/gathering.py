"""How many records sinks of files gather for a batch, and for how long."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.values.durations import Duration, to_ms

ROWS = 500_000
EVERY: Duration = "5 minutes"


def gathering(kind: str, rows: Any, every: Any) -> tuple[int, int]:
    """Return ``gather_rows`` and ``gather_ms`` of a sink.

    Args:
        kind: the sink's class, for messages.

    Raises:
        ConfigError: an argument is not valid.

    >>> gathering("ParquetSink", 500_000, "5 minutes")
    (500000, 300000)
    """
    if type(rows) is not int or rows < 1:
        raise ConfigError(f"{kind}: rows is a number of records from 1 on; got {show(rows)}")
    return rows, to_ms(every, f"{kind}: every")
