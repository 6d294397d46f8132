"""A program that awaits a function and has two sinks in an SQLite database, and what they have."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

from penstock import StreamsBuilder, Topology, produce
from penstock.sinks import SqliteSink


async def answered(number: int) -> int:
    await asyncio.sleep(0.001)
    return number


def topology(folder: Path, topic: str = "in") -> Topology:
    """Each record as a row once its answer is there, and counts by user."""
    builder = StreamsBuilder()
    stream = builder.stream(topic, key=str, value=int).map_values_async(answered)
    stream.to_sink(SqliteSink(folder / "shop.db", "rows"), "rows", key="user", value="n", timestamp=None)
    counts = stream.group_by_key().count("counts")
    counts.to_sink(SqliteSink(folder / "shop.db", "totals"), "totals", key="user", value="n", timestamp=None)
    return builder.build()


def run(folder: Path, engine: str = "local", log: Any = None, topic: str = "in", **more: Any) -> None:
    """Process what is there."""
    places = {"log": log or folder / "log", "state_dir": folder / "state"}
    streams = topology(folder, topic).start("shop", engine=engine, slots=1, trigger="available-now", **places, **more)
    streams.await_termination()


def asked(folder: Path, question: str) -> list[Any]:
    with sqlite3.connect(folder / "shop.db") as database:
        return database.execute(question).fetchall()


def rows(folder: Path) -> list[int]:
    return [n for (n,) in asked(folder, "select n from rows order by n")]


def totals(folder: Path) -> dict[str, int]:
    return dict(asked(folder, "select user, n from totals"))


def feed(folder: Path, start: int, end: int, **more: Any) -> None:
    """Seven users, by turns."""
    produce([(f"u{n % 7}", n) for n in range(start, end)], "in", key=str, value=int, log=folder / "log", **more)
