"""The program of ``program.py`` with another topology: tables in stores that a user brings, one of each kind.

python own_stores.py FOLDER --local   process the input of ``program.py --fill`` without Spark
python own_stores.py FOLDER --spark   process it on Spark
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import program

from penstock import KeyValueStore, Materialized, StreamsBuilder, Topology
from support.own_stores import DictStore, SqliteStore, Supplier, TransactionalDictStore


class Journal(DictStore):
    """One of before KIP-892: each put is a line at the end of a file, whole or torn."""

    persistent = True

    def init(self, context: Any, root: Any) -> None:
        super().init(context, root)
        path = context.state_dir / f"{self.name}.journal"
        for key, value in journal_of(path):
            super().put(key, value)
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115 - until it is closed
        self.file.write(b"\n")  # behind a torn line

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self.file.write(f"{key.hex()} {'-' if value is None else value.hex()} .\n".encode())

    def flush(self) -> None:
        os.fsync(self.file.fileno())

    def close(self) -> None:
        super().close()
        self.file.close()


class InMemory(DictStore):
    """One that is gone with its process."""

    def commit(self, changelog_offsets: Any) -> None: ...


def journal_of(path: Path) -> Iterator[tuple[bytes, bytes | None]]:
    """The puts of a journal, without torn ones."""
    for line in path.read_text().splitlines() if path.exists() else ():
        match line.split():
            case [key, value, "."]:
                yield bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)


KINDS: dict[str, type[KeyValueStore[bytes, bytes]]] = {
    "journal": Journal,
    "sqlite": SqliteStore,
    "transactions": TransactionalDictStore,
    "memory": InMemory,
}


def topology() -> Topology:
    """How many clicks a user has made since the last one that takes the row away, in a store of each kind."""
    builder = StreamsBuilder()
    clicks = builder.stream(program.INPUT, key=str, value=dict)
    for name, kind in KINDS.items():
        kept = Materialized.as_(Supplier(kind, name)).with_caching_disabled().with_value(int)
        counted = clicks.group_by_key().aggregate(
            lambda: 0, lambda user, click, total: None if click["n"] % 5 == 0 else total + 1, materialized=kept
        )
        counted.to_stream().to(f"{name}-out")
    return builder.build()


if __name__ == "__main__":
    program.MODES[sys.argv[2]](Path(sys.argv[1]), topology())
