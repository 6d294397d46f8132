"""All ready sinks in one program: each has every record of a stream in ``clicks``, and those of a table in ``last``."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock import StreamsBuilder, Topology
from penstock.sinks import DuckDbSink, HttpSink, ParquetSink, PostgresSink, Sink, SqliteSink
from support.lakes import DeltaLake, IcebergLake

COUNT = 1_200
_ROWS = 200
"""How many records sinks of files gather."""

IN_FILES = ("sqlite", "duckdb", "delta", "iceberg", "parquet")


def click(n: int) -> tuple[str, int]:
    """The user and the number of a click."""
    return f"user-{n * n % 37}", n


@dataclass(frozen=True)
class EverySink:
    """The sinks of a program, and what they have.

    Attributes:
        folder: where those in files are.
        service: the address of a ``RowsService``, or nothing.
        database: the URL of a database of PostgreSQL, or nothing.
        options: of ``to_sink``.
    """

    folder: Path
    service: str = ""
    database: str = ""

    def of(self, table: str) -> dict[str, Sink]:
        """The sinks of a table, by their kinds."""
        self.folder.mkdir(exist_ok=True)
        found: dict[str, Sink] = {
            "sqlite": SqliteSink(self.folder / "sinks.db", table),
            "duckdb": DuckDbSink(self.folder / "sinks.duckdb", table),
            "delta": DeltaLake(self.folder).sink(table, rows=_ROWS),
            "iceberg": self._iceberg.sink(table, rows=_ROWS),
        }
        if table == "clicks":
            found["parquet"] = ParquetSink(self.folder / "parquet", date=None, rows=_ROWS)
        if self.service:
            found["http"] = HttpSink(f"{self.service}/{table}")
        if self.database:
            found["postgres"] = PostgresSink(self.database, table)
        return found

    @property
    def _iceberg(self) -> IcebergLake:
        return IcebergLake(self.folder / "iceberg")

    def topology(self, topic: str = "in", **options: Any) -> Topology:
        """Clicks appended; of each user the number of the last click, without a row behind each third.

        Args:
            options: of ``to_sink``.
        """
        builder = StreamsBuilder()
        clicks = builder.stream(topic, key=str, value=int)
        last = clicks.map_values(lambda n: None if n % 3 == 0 else n, value=int).to_table("last")
        for stream, table in ((clicks, "clicks"), (last, "last")):
            for kind, sink in self.of(table).items():
                stream.to_sink(sink, f"{kind}-{table}", key="user", value="n", timestamp=None, **options)
        return builder.build()

    def rows(self) -> dict[str, list[tuple[str, int]]]:
        """What the sinks in files have, by kind and table: clicks by number, and the others by user."""
        read: dict[str, Callable[[str], list[Any]]] = {
            "sqlite": self._in_sqlite,
            "duckdb": self._in_duckdb,
            "delta": lambda table: _pairs(DeltaLake(self.folder).arrow(table)),
            "iceberg": lambda table: _pairs(self._iceberg.arrow(table)),
        }
        found = {f"{kind} {table}": rows(table) for kind, rows in read.items() for table in ("clicks", "last")}
        found["parquet clicks"] = self._in_parquet()
        return {name: _ordered(rows, name) for name, rows in found.items()}

    def _in_sqlite(self, table: str) -> list[Any]:
        with sqlite3.connect(self.folder / "sinks.db") as database:
            return database.execute(f"select user, n from {table}").fetchall()

    def _in_duckdb(self, table: str) -> list[Any]:
        import duckdb

        with duckdb.connect(str(self.folder / "sinks.duckdb")) as database:
            return database.sql(f'select "user", n from {table}').fetchall()

    def _in_parquet(self) -> list[Any]:
        lake = self.folder / "parquet"
        notes = [json.loads(note.read_text()) for note in lake.glob("_penstock/*/*/*/*.json")]
        named = {lake / file["path"] for note in notes for file in note["files"]}
        assert named == set(lake.rglob("*.parquet"))
        return _pairs(pa.concat_tables([pq.ParquetFile(file).read(["user", "n"]) for file in named]))


def _pairs(table: Any) -> list[Any]:
    return list(zip(table["user"].to_pylist(), table["n"].to_pylist(), strict=True))


def _ordered(rows: list[Any], name: str) -> list[Any]:
    return sorted(rows, key=lambda row: row[1]) if name.endswith("clicks") else sorted(rows)


def rows_of(count: int = COUNT) -> dict[str, list[tuple[str, int]]]:
    """What each table has to have of so many clicks."""
    clicks = [click(n) for n in range(count)]
    last = dict(clicks)
    return {"clicks": clicks, "last": sorted((user, n) for user, n in last.items() if n % 3)}


def in_files(count: int = COUNT) -> dict[str, list[tuple[str, int]]]:
    """What all sinks in files have to have of so many clicks."""
    wanted = rows_of(count)
    found = {f"{kind} {table}": rows for kind in IN_FILES for table, rows in wanted.items()}
    del found["parquet last"]
    return found
