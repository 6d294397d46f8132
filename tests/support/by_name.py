"""Aggregates by name beside the functions that give the same: readings, all aggregates of them, and their results."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock import Count, First, Last, Max, Mean, Min, StreamsBuilder, Sum
from penstock.testing.cuts import CutDriver
from support.flows import pipe_rows


class Reading(msgspec.Struct):
    share: float | None
    text: str


class Stats(msgspec.Struct):
    """What functions keep: fields as aggregates by name give them, and the number behind the mean."""

    n: int
    total: float | None
    mean: float | None
    least: str
    most: float | None
    first: str
    last: float | None
    shares: int


NAMED: dict[str, Any] = {
    "n": Count(),
    "total": Sum("share"),
    "mean": Mean("share"),
    "least": Min("text"),
    "most": Max("share"),
    "first": First("text"),
    "last": Last("share"),
    "shares": Count("share"),
}


def results(table: Any, builder: StreamsBuilder, rows: list[Any], chunk: int) -> list[Any]:
    """The updates of a table of stats, whose rows come in two commits."""
    table.to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk) as driver:
        half = len(rows) // 2
        pipe_rows(driver, rows[:half])
        driver.commit()
        pipe_rows(driver, rows[half:])
        return [
            (str(record.key), repr(record.value and msgspec.structs.astuple(record.value)), record.timestamp)
            for record in driver.read_output("out")
        ]
