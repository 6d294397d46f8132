"""The program of ``program.py`` with results in sinks: each click appended, counts by user as a table with deletions.

python sinks.py FOLDER --hand-on   hand the input of ``program.py --fill`` on to the sinks, as threads of a program do
python sinks.py FOLDER --slots     process it in slots of this machine
python sinks.py FOLDER --spark     process it on Spark

They go into SQLite, or into what the variable ``SINKS`` says: the URL of a PostgreSQL or of a service behind HTTP, or
``duckdb``, ``delta``, ``iceberg`` or ``parquet``. The clicks alone go into Parquet files.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import program
import pyarrow as pa
import pyarrow.parquet as pq

from penstock import StreamsBuilder, Topology, produce
from penstock.engine.sinks.sinks import Sinks
from penstock.log.file.log import FileLog
from penstock.sinks import DeltaSink, DuckDbSink, HttpSink, IcebergSink, ParquetSink, PostgresSink, Sink, SqliteSink
from penstock.storage.base import LocalStorage

PARQUET, DUCKDB, DELTA, ICEBERG = "parquet", "duckdb", "delta", "iceberg"

_ROWS = 400
"""How many records sinks of files gather."""


def sink(folder: Path, table: str) -> Sink:
    """The sink of a table."""
    where = os.environ.get("SINKS", "")
    if where.startswith("http"):
        return HttpSink(f"{where}/{table}")
    return PostgresSink(where, table) if where.startswith("postgres") else _IN_FILES[where](folder, table)


def _iceberg(folder: Path, table: str) -> Sink:
    with _catalog(folder) as catalog:
        catalog.create_namespace_if_not_exists("shop")
    return IcebergSink(_properties(folder), f"shop.{table}", rows=_ROWS)


def _properties(folder: Path) -> dict[str, str]:
    return {"name": "lake", "type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}


def _catalog(folder: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog(**_properties(folder))


_IN_FILES: dict[str, Callable[[Path, str], Sink]] = {
    "": lambda folder, table: SqliteSink(folder / "sinks.db", table),
    DUCKDB: lambda folder, table: DuckDbSink(folder / "sinks.duckdb", table),
    DELTA: lambda folder, table: DeltaSink(folder / table, rows=_ROWS),
    ICEBERG: _iceberg,
    PARQUET: lambda folder, table: ParquetSink(folder / "lake", rows=_ROWS),
}


def topology(folder: Path) -> Topology:
    """Clicks appended; of each user the number of the last click, without a row behind each third."""
    builder = StreamsBuilder()
    clicks = builder.stream(program.INPUT, key=str, value=dict)
    numbers = clicks.map_values(lambda click: click["n"], value=int)
    numbers.to_sink(sink(folder, "clicks"), "all-clicks", key="user", value="n")
    if os.environ.get("SINKS") == PARQUET:
        return builder.build()
    last = numbers.map_values(lambda n: None if n % 3 == 0 else n, value=int).to_table("last")
    last.to_sink(sink(folder, "last"), "last-clicks", key="user", value="n")
    return builder.build()


def hand_on(folder: Path) -> None:
    """Hand the records of both sinks on that are there already."""
    log = FileLog(folder / "log")
    owned = topology(folder).owned_by(program.APPLICATION)
    sinks = Sinks(owned, program.APPLICATION, log)
    sinks.begin(None, LocalStorage(folder / "state" / "checkpoint"), False)
    sinks.process_sinks()
    sinks.stop()


def fill_directly(folder: Path, count: int) -> None:
    """Write what the program would write into the topics of its sinks, as many commits."""
    for start in range(0, count, 100):
        numbers = range(start, min(start + 100, count))
        rows = [(f"user-{n * n % 37}", n) for n in numbers]
        produce(rows, "crash-all-clicks-sink", key=str, value=int, log=folder / "log", partitions=2)
        changes = [(user, None if n % 3 == 0 else n) for user, n in rows]
        produce(changes, "crash-last-clicks-sink", key=str, value=int, log=folder / "log", partitions=2)


CLICKS = 'select "user", n from clicks order by n, "user" collate "C"'
LAST = 'select "user", n from last order by "user" collate "C"'


def rows_in(folder: Path) -> dict[str, list[Any]]:
    """What the sinks have in files."""
    if (where := os.environ.get("SINKS", "")) in _READ:
        return {table: _sorted(_READ[where](folder, table)) for table in ("clicks", "last")}
    with sqlite3.connect(folder / "sinks.db") as database:
        database.create_collation("C", lambda one, other: (one > other) - (one < other))
        return {"clicks": database.execute(CLICKS).fetchall(), "last": database.execute(LAST).fetchall()}


def numbers_in(folder: Path, table: str) -> list[int]:
    """The numbers in a table of a sink in files."""
    if (where := os.environ.get("SINKS", "")) in _READ:
        return sorted(_READ[where](folder, table)["n"].to_pylist())
    with sqlite3.connect(folder / "sinks.db") as database:
        return [n for (n,) in database.execute(f"select n from {table} order by n")]


def _of_duckdb(folder: Path, table: str) -> Any:
    import duckdb

    with duckdb.connect(str(folder / "sinks.duckdb")) as database:
        return database.table(table).to_arrow_table()


def _of_delta(folder: Path, table: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(folder / table).to_pyarrow_table()


def _of_iceberg(folder: Path, table: str) -> Any:
    with _catalog(folder) as catalog:
        return catalog.load_table(f"shop.{table}").scan().to_arrow()


_READ = {DUCKDB: _of_duckdb, DELTA: _of_delta, ICEBERG: _of_iceberg}


def _sorted(table: Any) -> list[Any]:
    """The rows of a table: clicks by their number, the last ones by user, as both are unique."""
    rows = [(row["user"], row["n"]) for row in table.select(["user", "n"]).to_pylist()]
    return sorted(rows) if len({user for user, _ in rows}) == len(rows) else sorted(rows, key=lambda row: row[1])


def parquet_rows(folder: Path, is_committed: bool) -> list[tuple[str, int]]:
    """The clicks in Parquet files: in all that are there, or in those that manifests name."""
    lake = folder / "lake"
    notes = [json.loads(note.read_text()) for note in lake.glob("_penstock/*/*/*/*.json")]
    named = [lake / file["path"] for note in notes for file in note["files"]]
    files = named if is_committed else list(lake.rglob("*.parquet"))
    return _sorted(pa.concat_tables([pq.ParquetFile(file).read(["user", "n"]) for file in files]))


def expected(clicks: list[tuple[str, int]]) -> dict[str, list[Any]]:
    """What the sinks have to have, from the clicks in order of their offsets in each partition."""
    last: dict[str, int] = {}
    for user, n in clicks:
        if n % 3 == 0:
            last.pop(user, None)
        else:
            last[user] = n
    return {"clicks": sorted(clicks, key=lambda one: (one[1], one[0])), "last": sorted(last.items())}


if __name__ == "__main__":
    folder, mode, *rest = sys.argv[1:]
    if mode == "--fill":
        fill_directly(Path(folder), int(rest[0]))
    elif mode == "--hand-on":
        hand_on(Path(folder))
    else:
        program.MODES[mode](Path(folder), topology(Path(folder)))
