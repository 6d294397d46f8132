"""Rows a second of the PostgreSQL sink beside a bare client that writes the same rows with COPY, or COPY and an upsert.

    python -m bench.postgres_sink URL [ROWS] [--kinds append,upsert] [--turns N] [--kills N]

The sink reads its records from a topic, decodes them, and keeps its number in each transaction. The bare client has its
rows as tuples in memory and cuts them into as many transactions. Both have their turns, one after the other. The ratio
is the median of the turns' ratios. The tables are dropped.

With kills, the sink is in a process of its own, which is killed at even distances of rows and started again. The time
is that of all starts. In the end, the table has each row once. From a million rows on, the same million comes again.
"""

from __future__ import annotations

import argparse
import subprocess
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

LIMIT = 0.5
KINDS = ("append", "upsert")
_MILLION = 1_000_000
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
    with tempfile.TemporaryDirectory() as checkpoint:
        start = time.perf_counter()
        hand_on(url, kind, log, Path(checkpoint))
        return time.perf_counter() - start


def hand_on(url: str, kind: str, log: Path, checkpoint: Path) -> None:
    """Hand all records on that the sink lacks."""
    builder = StreamsBuilder()
    sink = PostgresSink(url, _TABLE)
    if kind == "append":
        builder.stream("in", key=str, value=Order).to_sink(sink, kind, key="number", timestamp=None)
    else:
        builder.table("in", key=str, value=Order).to_sink(sink, kind, key="number", timestamp=None)
    sinks = Sinks(builder.build().owned_by("bench"), "bench", FileLog(log))
    sinks.begin(None, LocalStorage(checkpoint), False)
    sinks.process_sinks()
    sinks.stop()


def with_kills(url: str, kind: str, log: Path, count: int, kills: int) -> float:
    """Hand all records on in processes, all but the last of which are killed; return the seconds of all."""
    import psycopg

    with tempfile.TemporaryDirectory() as checkpoint, psycopg.connect(url, autocommit=True) as watching:
        given = f"hand_on({url!r}, {kind!r}, Path({str(log)!r}), Path({checkpoint!r}))"
        command = [sys.executable, "-c", f"from bench.postgres_sink import Path, hand_on; {given}"]
        start = time.perf_counter()
        for kill in range(1, kills + 1):
            with subprocess.Popen(command) as program:
                while _number(watching) < count * kill // (kills + 1):
                    assert program.poll() is None, "the program ended before it was killed"
                    time.sleep(0.01)
                program.kill()
        subprocess.run(command, check=True)
        return time.perf_counter() - start


def _number(connection: Any) -> int:
    """Return the number that the sink has."""
    if connection.execute("SELECT to_regclass('penstock_sinks')").fetchone() == (None,):
        return 0
    found = connection.execute("SELECT max(number) FROM penstock_sinks").fetchone()
    return int(found[0] or 0)


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


def measure(url: str, count: int, kinds: list[str], turns: int, kills: int) -> None:
    """Print the figures of both, and their ratio."""
    different = min(count, _MILLION)
    rounds, keys_of = count // different, {"append": different, "upsert": different // 2}
    count = rounds * different
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        for kind in kinds:
            rows = _filled(log, kind, list(orders(different, keys_of[kind])) * rounds)
            ways: dict[str, Callable[[], float]] = {
                "bare": lambda kind=kind, rows=rows: bare(url, kind, rows),  # type: ignore[misc]
                "sink": lambda kind=kind: (  # type: ignore[misc]
                    with_kills(url, kind, log, count, kills) if kills else with_sink(url, kind, log)
                ),
            }
            found: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(turns):
                for name, way in ways.items():
                    emptied(url, kind)
                    found[name].append(way())
                    _check(url, keys_of[kind], rounds if kind == "append" else 1)
            emptied(url, kind)
            print(_figures(kind, count, kills, found), flush=True)


def _filled(log: Path, kind: str, records: list[tuple[str, Order]]) -> list[tuple[Any, ...]]:
    """Write the sink's topic; return the rows for the bare client."""
    produce(records, f"bench-{kind}-sink", key=str, value=Order, log=log, partitions=1)
    return [(key, *vars(order).values()) for key, order in records]


def _check(url: str, keys: int, rounds: int) -> None:
    """Check that the table has each key so often."""
    import psycopg

    counts = f"SELECT count(*) AS n FROM {_TABLE} GROUP BY number"
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT count(*), min(n), max(n) FROM ({counts}) AS counts").fetchone()
    assert found == (keys, rounds, rounds), f"keys, and rows of each: {found}; expected {keys:,}, and {rounds} of each"


def _figures(kind: str, count: int, kills: int, found: dict[str, list[float]]) -> str:
    """Return the figures of both ways in a line."""
    spans = ", ".join(
        f"{name} {count / median(one):,.0f} ({count / max(one):,.0f} to {count / min(one):,.0f})"
        for name, one in found.items()
    )
    ratio = median(alone / sink for sink, alone in zip(found["sink"], found["bare"], strict=True))
    took = " and ".join(f"{median(one):.1f} s" for one in found.values())
    return (
        f"{kind}: {count:,} rows in {took}, {kills} kills; rows a second: {spans}; "
        f"ratio {ratio:.2f}, to be at least {LIMIT}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("rows", type=int, nargs="?", default=500_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--kills", type=int, default=0, help="how often the sink is killed in each turn")
    given = parser.parse_args()
    measure(given.url, given.rows, given.kinds.split(","), given.turns, given.kills)


if __name__ == "__main__":
    main()
