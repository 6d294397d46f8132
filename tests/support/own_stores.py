"""Stores as users write them: of before KIP-892, and with transactions and offsets."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from penstock import (
    AbstractTransactionalStore,
    BufferedTransaction,
    KeyValueStore,
    TimestampedBytesStore,
    TopicPartition,
)


class DictStore(KeyValueStore[bytes, bytes]):
    """All rows in a dictionary; what it does for a commit is up to classes that extend it."""

    persistent = False
    is_open = False

    def __init__(self, name: str = "own"):
        self.name = name
        self.rows: dict[bytes, bytes] = {}

    def init(self, context: Any, root: Any) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def put(self, key: bytes, value: bytes | None) -> None:
        self.rows = {k: v for k, v in {**self.rows, key: value}.items() if v is not None}

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def range(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        for key, value in sorted(self.rows.items()):
            if (low is None or key >= low) and (high is None or key <= high):
                yield key, value


class TransactionalDictStore(AbstractTransactionalStore, DictStore):
    """The same with transactions; ``offsets`` are those that it was last committed with."""

    is_open = AbstractTransactionalStore.is_open

    def __init__(self, name: str = "own"):
        super().__init__(name)
        self.offsets: dict[Any, int] = {}

    def create_transaction(self) -> BufferedTransaction:
        return BufferedTransaction(self, self.write)

    def write(self, changes: Any, changelog_offsets: Any) -> None:
        self.rows = {k: v for k, v in {**self.rows, **changes}.items() if v is not None}
        self.offsets = {**self.offsets, **changelog_offsets}


class OldStore(DictStore):
    """One of before KIP-892: it has ``flush``, and knows neither transactions nor offsets. Rows lie in a file."""

    persistent = True

    def init(self, context: Any, root: Any) -> None:
        super().init(context, root)
        self.path = context.state_dir / f"{self.name}.json"
        text = self.path.read_text() if self.path.exists() else "{}"
        self.rows = {bytes.fromhex(key): bytes.fromhex(value) for key, value in json.loads(text).items()}

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self.flush()  # so that a kill leaves half of a commit behind

    def flush(self) -> None:
        self.path.write_text(json.dumps({key.hex(): value.hex() for key, value in self.rows.items()}))


class SqliteStore(AbstractTransactionalStore, KeyValueStore[bytes, bytes], TimestampedBytesStore):
    """One that keeps rows and offsets in a database of its own."""

    persistent = True

    def __init__(self, name: str = "own"):
        self.name = name

    def init(self, context: Any, root: Any) -> None:
        super().init(context, root)
        self._database = sqlite3.connect(context.state_dir / f"{self.name}.db")
        self._database.execute("create table if not exists entries (key blob primary key, value blob not null)")
        self._database.execute("create table if not exists offsets (changelog text primary key, at integer not null)")

    def close(self) -> None:
        super().close()
        self._database.close()

    def manages_offsets(self) -> bool:
        return True

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        row = self._database.execute("select at from offsets where changelog = ?", [str(topic_partition)]).fetchone()
        return row and row[0]

    def create_transaction(self) -> BufferedTransaction:
        return BufferedTransaction(self, self.write)

    def write(self, changes: Any, changelog_offsets: Any) -> None:
        with self._database as database:  # a transaction of SQLite's
            for key, value in changes.items():
                if value is None:
                    database.execute("delete from entries where key = ?", [key])
                else:
                    database.execute("insert or replace into entries values (?, ?)", [key, value])
            for changelog, at in changelog_offsets.items():
                database.execute("insert or replace into offsets values (?, ?)", [str(changelog), at])

    def put(self, key: bytes, value: bytes | None) -> None:
        self.write({key: value}, {})

    def get(self, key: bytes) -> bytes | None:
        row = self._database.execute("select value from entries where key = ?", [key]).fetchone()
        return row and row[0]

    def range(self, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        rows = self._database.execute(
            "select key, value from entries where key >= ? and (? is null or key <= ?) order by key",
            [low or b"", high, high],
        )
        return iter(rows.fetchall())


class Supplier:
    """Gives new objects of a class, and remembers them."""

    def __init__(self, kind: Any, name: str = "own"):
        self.kind = kind
        self.name = name
        self.made: list[Any] = []

    def get(self) -> Any:
        self.made.append(self.kind(self.name))
        return self.made[-1]

    @property
    def opened(self) -> list[Any]:
        """Those that were ever opened, in order."""
        return [store for store in self.made if getattr(store, "was_opened", store.is_open)]
