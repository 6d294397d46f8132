"""A program that awaits a function and has two sinks, and what they have: in an SQLite database, or in a lake."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import StreamsBuilder, Topology, produce
from penstock.sinks import Sink, SqliteSink
from support.lakes import Lake

ToTable = Callable[[str], Sink]
"""Makes the sink of a table."""


async def answered(number: int) -> int:
    await asyncio.sleep(0.001)
    return number


def topology(folder: Path, topic: str = "in", sink: ToTable | None = None) -> Topology:
    """Each record as a row once its answer is there, and counts by user."""
    to_table = sink or (lambda table: SqliteSink(folder / "shop.db", table))
    builder = StreamsBuilder()
    stream = builder.stream(topic, key=str, value=int).map_values_async(answered)
    stream.to_sink(to_table("rows"), "rows", key="user", value="n", timestamp=None)
    counts = stream.group_by_key().count("counts")
    counts.to_sink(to_table("totals"), "totals", key="user", value="n", timestamp=None)
    return builder.build()


def run(
    folder: Path,
    engine: str = "local",
    log: Any = None,
    topic: str = "in",
    sink: ToTable | None = None,
    application_id: str = "shop",
    **more: Any,
) -> None:
    """Process what is there."""
    given = {"log": log or folder / "log", "state_dir": folder / "state", "slots": 1, "trigger": "available-now"}
    topology(folder, topic, sink).start(application_id, engine=engine, **given, **more).await_termination()


def asked(folder: Path, question: str) -> list[Any]:
    with sqlite3.connect(folder / "shop.db") as database:
        return database.execute(question).fetchall()


def rows(folder: Path) -> list[int]:
    return [n for (n,) in asked(folder, "select n from rows order by n")]


def totals(folder: Path) -> dict[str, int]:
    return dict(asked(folder, "select user, n from totals"))


def rows_in(lake: Lake) -> list[int]:
    """The rows that a lake has."""
    return sorted(lake.arrow("rows")["n"].to_pylist())


def totals_in(lake: Lake) -> dict[str, int]:
    """The counts that a lake has."""
    found = lake.arrow("totals").select(["user", "n"]).to_pylist()
    counts = {row["user"]: row["n"] for row in found}
    assert len(counts) == len(found), f"a key has several rows: {found}"
    return counts


def feed(folder: Path, start: int, end: int, **more: Any) -> None:
    """Seven users, by turns."""
    produce([(f"u{n % 7}", n) for n in range(start, end)], "in", key=str, value=int, log=folder / "log", **more)
