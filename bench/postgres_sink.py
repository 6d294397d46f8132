"""Rows a second of the PostgreSQL sink beside a bare client that writes the same rows with COPY, or COPY and an upsert.

    python -m bench.postgres_sink URL [ROWS]

The sink reads its records from a topic, decodes them, and keeps its number in each transaction. The bare client has its
rows as tuples in memory and cuts them into as many transactions. Both have nine turns, one after the other. The ratio
is the median of the turns' ratios. The tables are dropped.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from penstock import StreamsBuilder, produce
from penstock.engine.sinks.sinks import Sinks
from penstock.log.file.log import FileLog
from penstock.log.rows import BATCH_ROWS
from penstock.sinks import PostgresSink
from penstock.storage.base import LocalStorage

TURNS = 9
LIMIT = 0.5
KINDS = ("append", "upsert")
_COLUMNS = "number text {}, item text, pieces bigint, price double precision, paid boolean"
_NAMES = "number, item, pieces, price, paid"
_TABLE = "penstock_bench"


@dataclass
class Order:
    item: str
    pieces: int
    price: float
    paid: bool


def orders(count: int, keys: int) -> Iterator[tuple[str, Order]]:
    """Orders, of which those with the same number replace each other in a table."""
    for n in range(count):
        yield f"order-{n * 7_919 % keys}", Order(f"item {n % 1_000}", n % 9 + 1, n % 10_000 / 100, n % 2 == 0)


def with_sink(url: str, kind: str, log: Path) -> float:
    """Hand all records on to the sink; return the seconds that it took."""
    builder = StreamsBuilder()
    sink = PostgresSink(url, _TABLE)
    if kind == "append":
        builder.stream("in", key=str, value=Order).to_sink(sink, kind, key="number", timestamp=None)
    else:
        builder.table("in", key=str, value=Order).to_sink(sink, kind, key="number", timestamp=None)
    sinks = Sinks(builder.build().owned_by("bench"), "bench", FileLog(log))
    with tempfile.TemporaryDirectory() as checkpoint:
        start = time.perf_counter()
        sinks.begin(None, LocalStorage(Path(checkpoint)), False)
        sinks.process_sinks()
        seconds = time.perf_counter() - start
        sinks.stop()
    return seconds


def bare(url: str, kind: str, rows: list[tuple[Any, ...]]) -> float:
    """Write all rows as a client of PostgreSQL does; return the seconds that it took."""
    import psycopg

    start = time.perf_counter()
    with psycopg.connect(url) as connection:
        if kind == "upsert":
            connection.execute(f"CREATE TEMPORARY TABLE batch ({_COLUMNS.format('')}) ON COMMIT DELETE ROWS")
        left = iter(rows)
        while some := list(islice(left, BATCH_ROWS)):
            if kind == "upsert":
                some = list({row[0]: row for row in some}.values())
            table = "batch" if kind == "upsert" else _TABLE
            with connection.cursor().copy(f"COPY {table} ({_NAMES}) FROM STDIN") as copy:
                for row in some:
                    copy.write_row(row)
            if kind == "upsert":
                sets = ", ".join(f"{name} = excluded.{name}" for name in _NAMES.split(", ")[1:])
                connection.execute(
                    f"INSERT INTO {_TABLE} SELECT * FROM batch ON CONFLICT (number) DO UPDATE SET {sets}"
                )
            connection.commit()
    return time.perf_counter() - start


def emptied(url: str, kind: str) -> None:
    """Have an empty table, and no number."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {_TABLE}, penstock_sinks")
        connection.execute(f"CREATE TABLE {_TABLE} ({_COLUMNS.format('PRIMARY KEY' if kind == 'upsert' else '')})")
        connection.execute("CHECKPOINT")


def measure(url: str, count: int) -> None:
    """Print the figures of both, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        keyed = {"append": list(orders(count, count)), "upsert": list(orders(count, count // 2))}
        for kind, records in keyed.items():
            produce(records, f"bench-{kind}-sink", key=str, value=Order, log=log, partitions=1)
            rows = [(key, *vars(order).values()) for key, order in records]
            ways: dict[str, Callable[[], float]] = {
                "bare": lambda kind=kind, rows=rows: bare(url, kind, rows),  # type: ignore[misc]
                "sink": lambda kind=kind: with_sink(url, kind, log),  # type: ignore[misc]
            }
            found: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(TURNS):
                for name, way in ways.items():
                    emptied(url, kind)
                    found[name].append(count / way())
            emptied(url, kind)
            speeds = {name: median(speed) for name, speed in found.items()}
            ratio = median(sink / alone for sink, alone in zip(found["sink"], found["bare"]))
            spans = ", ".join(
                f"{name} {speeds[name]:,.0f} ({min(one):,.0f} to {max(one):,.0f})" for name, one in found.items()
            )
            print(f"{kind}: rows a second: {spans}; ratio {ratio:.2f}, to be at least {LIMIT}")


if __name__ == "__main__":
    url, *rest = sys.argv[1:]
    measure(url, int(rest[0]) if rest else 500_000)
