"""Window, session and versioned stores as users write them: in memory, of before KIP-892, and in SQLite with
transactions and offsets."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from penstock import (
    AbstractTransaction,
    AbstractTransactionalStore,
    SessionKey,
    SessionStore,
    TimestampedBytesStore,
    VersionedBytesStore,
    VersionedKeyValueStore,
    VersionedRecord,
    Windowed,
    WindowStore,
)

NEVER = 2**62


class Rows:
    """Rows by key and two numbers, sorted, in a dictionary; where they are kept is up to classes that extend it."""

    persistent = False
    is_open = False

    def __init__(self, name: str):
        self.name = name
        self.rows: dict[tuple[bytes, int, int], bytes] = {}
        self.asked: list[Any] = []

    def init(self, context: Any, root: Any) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def commit(self, changelog_offsets: Any) -> None: ...

    def set(self, key: bytes, first: int, second: int, value: bytes | None) -> None:
        if value is None:
            self.rows.pop((key, first, second), None)
        else:
            self.rows[key, first, second] = value

    def found(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[tuple[bytes, int, int], bytes]]:
        self.asked.append((low, high))
        for row in sorted(self.rows):
            if (low is None or row[0] >= low) and (high is None or row[0] <= high):
                yield row, self.rows[row]

    def shown(self) -> dict[Any, bytes]:
        """All rows, whatever keeps them."""
        return dict(self.found(None, None))


class Flushed(Rows):
    """Of before KIP-892: it has ``flush``, and knows neither transactions nor offsets. Each write is a line in a
    file."""

    persistent = True
    commit = WindowStore.commit

    def init(self, context: Any, root: Any) -> None:
        super().init(context, root)
        self.path = context.state_dir / f"{self.name}.lines"
        self.rows = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            if line.endswith("]"):
                key, first, second, value = json.loads(line)
                super().set(bytes.fromhex(key), first, second, None if value is None else bytes.fromhex(value))
        self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - until it is closed
        self.file.write(b"\n")  # behind a torn line

    def set(self, key: bytes, first: int, second: int, value: bytes | None) -> None:
        super().set(key, first, second, value)
        line = json.dumps([key.hex(), first, second, None if value is None else value.hex()])
        self.file.write(f"{line}\n".encode())

    def flush(self) -> None: ...

    def close(self) -> None:
        super().close()
        self.file.close()


class Sql(Rows, AbstractTransactionalStore):
    """Rows and offsets in SQLite, whose transaction is that of the store."""

    persistent = True
    is_open = AbstractTransactionalStore.is_open
    commit = AbstractTransactionalStore.commit

    def init(self, context: Any, root: Any) -> None:
        AbstractTransactionalStore.init(self, context, root)
        self.database = sqlite3.connect(context.state_dir / f"{self.name}.db", isolation_level=None)
        self.database.execute("pragma synchronous = off")  # a power cut is not what tests try
        self.database.execute(
            "create table if not exists entries (key blob, first int, second int, value blob, "
            "primary key (key, first, second))"
        )
        self.database.execute("create table if not exists offsets (changelog text primary key, at int)")

    def close(self) -> None:
        AbstractTransactionalStore.close(self)
        self.database.close()

    def create_transaction(self) -> Any:
        return Doing(self)

    def manages_offsets(self) -> bool:
        return True

    def committed_offset(self, topic_partition: Any) -> int | None:
        row = self.database.execute("select at from offsets where changelog = ?", [str(topic_partition)]).fetchone()
        return None if row is None else row[0]

    def set(self, key: bytes, first: int, second: int, value: bytes | None) -> None:
        if value is None:
            self.database.execute(
                "delete from entries where key = ? and first = ? and second = ?", [key, first, second]
            )
        else:
            self.database.execute("insert or replace into entries values (?, ?, ?, ?)", [key, first, second, value])

    def found(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[tuple[bytes, int, int], bytes]]:
        self.asked.append((low, high))
        rows = self.database.execute(
            "select * from entries where key >= ? and (? is null or key <= ?) order by key, first, second",
            [low or b"", high, high],
        )
        return (((key, first, second), value) for key, first, second, value in rows.fetchall())


class Doing(AbstractTransaction[Any]):
    """SQLite's transaction: what is not its own is what its store does."""

    def __init__(self, store: Any):
        super().__init__(store)
        store.database.execute("begin")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def commit_transaction(self, offsets: Any) -> None:
        rows = [[str(changelog), at] for changelog, at in offsets.items()]
        self.store.database.executemany("insert or replace into offsets values (?, ?)", rows)
        self.store.database.execute("commit")

    def close_transaction(self) -> None:
        self.store.database.execute("rollback")


class Windows(WindowStore[bytes, bytes]):
    """Windows in ``Rows``: key, start, 0."""

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        self.set(key, window_start, 0, value)

    def fetch(self, key: bytes, time_from: int = 0, time_to: int = NEVER) -> Iterator[tuple[int, bytes]]:
        return ((start, value) for (_, start, _), value in self.found(key, key) if time_from <= start <= time_to)

    def fetch_range(
        self, low: bytes | None = None, high: bytes | None = None, time_from: int = 0, time_to: int = NEVER
    ) -> Iterator[tuple[Windowed[bytes], bytes]]:
        for (key, start, _), value in self.found(low, high):
            if time_from <= start <= time_to:
                yield Windowed(key, start, start + 1), value


class Duplicates(Windows):
    """Every value of a key and start, with its number among them."""

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        if value is not None:
            self.set(key, window_start, sum(1 for _ in self.fetch(key, window_start, window_start)), value)


class Sessions(SessionStore[bytes, bytes]):
    """Sessions in ``Rows``: key, end, start."""

    def put(self, session: SessionKey, aggregate: bytes | None) -> None:
        self.set(session.key, session.end, session.start, aggregate)

    def find_sessions(
        self, key: bytes, earliest_end: int = 0, latest_start: int = NEVER
    ) -> Iterator[tuple[SessionKey, bytes]]:
        return self.find_sessions_in_range(key, key, earliest_end, latest_start)

    def find_sessions_in_range(
        self, low: bytes | None = None, high: bytes | None = None, earliest_end: int = 0, latest_start: int = NEVER
    ) -> Iterator[tuple[SessionKey, bytes]]:
        for (key, end, start), value in self.found(low, high):
            if end >= earliest_end and start <= latest_start:
                yield SessionKey(key, start, end), value


class Versions(VersionedKeyValueStore[bytes, bytes]):
    """All versions of a key in ``Rows``: key, time, 0 for a deletion and 1 for a value; none is ever too old."""

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        self.set(key, timestamp, int(value is None), None)
        self.set(key, timestamp, int(value is not None), value or b"")
        return -1

    def get(self, key: bytes, as_of: int | None = None) -> VersionedRecord[bytes] | None:
        there = [(time, kind, value) for (_, time, kind), value in self.found(key, key)]
        before = [version for version in there if as_of is None or version[0] <= as_of]
        if not before or not before[-1][1]:
            return None
        after = there[len(before) :]
        return VersionedRecord(before[-1][2], before[-1][0], after[0][0] if after else None)

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord[bytes] | None:
        before = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return before


class BytesVersions(VersionedBytesStore):
    """The same with the bytes of KIP-914 for each version: its timestamp, then its value."""

    put = Versions.put

    def get(self, key: bytes, as_of: int | None = None) -> bytes | None:
        found = Versions.get(self, key, as_of)
        return None if found is None else found.timestamp.to_bytes(8, "big") + found.value

    def delete(self, key: bytes, timestamp: int) -> bytes | None:
        before = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return before


SHAPES: dict[str, type] = {
    "window": Windows, "duplicates": Duplicates, "session": Sessions, "versions": Versions, "bytes": BytesVersions,
}  # fmt: skip
MEDIUMS: dict[str, type] = {"memory": Rows, "flushed": Flushed, "sqlite": Sql}


def kind_of(medium: str, shape: str) -> type:
    """A class of this shape that keeps its rows there."""
    marks = () if shape == "bytes" else (TimestampedBytesStore,)
    return type(f"{medium}_{shape}", (MEDIUMS[medium], SHAPES[shape], *marks), {})


class TimedSupplier:
    """Gives new stores of a class, remembers them, and tells what Kafka Streams' suppliers tell."""

    def __init__(self, medium: str, shape: str, name: str = "own", retention: int = 86_400_000, size: int = 10):
        self.medium, self.shape = medium, shape
        self.name = name
        self.retention_period = self.history_retention_ms = retention
        self.window_size = size
        self.retain_duplicates = shape == "duplicates"
        self.made: list[Any] = []

    def get(self) -> Any:
        self.made.append(kind_of(self.medium, self.shape)(self.name))
        return self.made[-1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": []}
