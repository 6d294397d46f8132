"""A copy of one task's store for readers while its program runs: updated commit by commit.

Each commit is written as one batch or a few, and readers see none of it before the next ``frozen``, whose result uses
snapshots of RocksDB that later writes do not touch. So any number of threads keep reading their version while the copy
is updated, and neither waits for the other.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from rocksdict import Cache, Options, Rdict, WriteBatch, WriteOptions

from penstock.state.database import OFFSETS, Database, meta_in, told
from penstock.state.database_options import database_options
from penstock.state.delta import read_delta
from penstock.state.ownership import Owner
from penstock.state.snapshot import TaskBase, read_snapshot
from penstock.state.store import StateStore
from penstock.state.task_state import STREAM_TIME, Committed, Numbers
from penstock.state.transactional import Base, ChangeSet
from penstock.storage.base import Storage

_MEMORY_TABLE_BYTES = 8 << 20
_FEWEST, _MOST = 16, 1024
"""The number of rows of a range that are read at once, initially and later."""
_AT_ONCE_BYTES, _ROW_BYTES = 32 << 20, 64
"""The bytes of changes that are in memory at once, and the bytes that a row takes in addition to its value."""
_BLOCK_BYTES = 4 << 20
"""The bytes of values that are read at once."""


class Replica:
    """One task's copy of one store.

    Args:
        folder: the place of the copy; created empty.
        make: creates the store, empty.
        cache: the cache of blocks read from disk, which all copies of a store share.
    """

    def __init__(self, folder: Path, make: Callable[[], StateStore], cache: Cache):
        self.commit = -1
        """The last commit that is complete here."""
        self.is_torn = False
        """True if a part of the next commit is here as well, because something failed."""
        self._folder = folder
        self._make = make
        self._name = make().name
        self._options = _options(cache)
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # a lost copy is rebuilt
        self._numbers: dict[str, int] = {}
        self._families: dict[str, Rdict] = {}
        self._db: Any = None

    # --- moving on -----------------------------------------------------------------------------------------------

    def restore(self, storage: Storage, owner: Owner, snapshot: int, base: TaskBase | None = None) -> None:
        """Start from a snapshot of the task, from the base that the task itself began with, or empty."""
        self._forget()
        has_rows = snapshot >= 0 and (base is None or snapshot != base.commit or bool(base.index))
        if has_rows:
            read_snapshot(storage, owner, snapshot, self._folder, base)
        self._open()
        if has_rows:
            with told(self._folder):
                meta = meta_in(self._db.get_column_family(OFFSETS).get, self._folder)
            self._take_numbers(meta.get("numbers", {}))
        self.commit = snapshot
        self.is_torn = False

    def move(self, steps: Sequence[Committed], storage: Storage) -> None:
        """Apply the changes of later commits, in order; readers do not see them yet.

        Rows that several commits changed are written once, as far as they fit into memory together.
        """
        if not steps:
            return
        self.is_torn = True
        store, size = self._make(), 0
        for changes in chain.from_iterable(self._changes_of(step, storage) for step in steps):
            store.apply(changes)
            size += changes.values.data.nbytes + _ROW_BYTES * len(changes.keys)
            if size >= _AT_ONCE_BYTES:
                self._write(store)
                store, size = self._make(), 0
        self._write(store)
        for step in steps:
            self._take_numbers(step.numbers)
        self.commit = steps[-1].commit
        self.is_torn = False

    def frozen(self) -> StateStore:
        """Return the store as it is now, for any number of threads; it no longer changes."""
        store = self._opened(cast(Database, _Frozen(self._families, self._folder)))
        self._restore_numbers(store)
        return store

    def close(self) -> None:
        """Remove its files; frozen stores stay readable."""
        self._forget()

    # --- inside --------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        names = Rdict.list_cf(str(self._folder)) if (self._folder / "CURRENT").exists() else []
        families = {name: self._options for name in names if name != "default"}
        with told(self._folder):
            self._db = Rdict(str(self._folder), self._options, column_families=families)
            own = (name for name in families if self._is_own(name))
            self._families = {name: self._db.get_column_family(name) for name in own}

    def _is_own(self, family: str) -> bool:
        return family == self._name or family.startswith(f"{self._name}/")

    def _opened(self, database: Database) -> StateStore:
        """Open the store over a database, without loading anything into memory."""
        store = self._make()
        is_in_memory = getattr(store, "in_memory", False)
        if is_in_memory:
            store.in_memory = False
        store.open(database)
        if is_in_memory:
            store.in_memory = True
        return store

    def _changes_of(self, step: Committed, storage: Storage) -> Iterator[ChangeSet]:
        """Yield the changes of a commit in this store, in pieces."""
        if step.delta is not None:
            where = f"{storage.shown}/{step.delta.name}"
            pieces = read_delta(storage.read_verified(step.delta), where)
            yield from (changes for name, changes in pieces if name == self._name)

    def _write(self, store: StateStore) -> None:
        """Write the rows of a store that has only new rows, in the store's layout on disk."""
        batch = WriteBatch(raw_mode=True)
        for name, piece in store.families().items():
            if not (piece.dirty_count() and self._is_own(name)):
                continue
            if name not in self._families:
                self._families[name] = self._db.create_column_family(name, self._options)
            put, delete, handle = batch.put, batch.delete, self._db.get_column_family_handle(name)
            for key, value in piece.dirty_rows():
                if value is None:
                    delete(key, handle)
                else:
                    put(key, value, handle)
        with told(self._folder):
            self._db.write(batch, self._write_options)

    def _take_numbers(self, numbers: Numbers) -> None:
        """Set the store's own numbers, and drop the segments that have expired by them."""
        store = self._make()
        own = numbers.get(store.name, {})
        self._numbers = {name: number for name, number in own.items() if name != STREAM_TIME} or self._numbers
        self._restore_numbers(store)
        oldest = getattr(store, "oldest_live_segment", None)
        prefix = f"{store.name}/"
        gone = [name for name in self._families if oldest and name.startswith(prefix)]
        for name in gone:
            if int(name.removeprefix(prefix)) < oldest():  # type: ignore[misc]
                with told(self._folder):
                    self._db.drop_column_family(name)  # frozen stores keep it
                del self._families[name]

    def _restore_numbers(self, store: StateStore) -> None:
        if self._numbers:
            store.restore_state(self._numbers)

    def _forget(self) -> None:
        self._families.clear()
        self._db = None  # it is closed when no frozen store uses it any longer
        shutil.rmtree(self._folder, ignore_errors=True)


class _Frozen:
    """The column families of a database at one moment, for stores to open."""

    def __init__(self, families: dict[str, Rdict], folder: Path):
        self._families = {name: FrozenFamily(family, folder) for name, family in families.items()}

    def families(self) -> list[str]:
        return sorted(self._families)

    def family(self, name: str) -> Base:
        return self._families.get(name) or _Nothing()


class FrozenFamily:
    """A column family as it was at one moment, for any number of threads.

    Iterators that rocksdict makes from a snapshot show the present rows. An iterator that was made at that moment shows
    the rows of that moment, wherever it is moved. So all readers share that one, some rows at a time.
    """

    is_empty = False  # or its rows would count as rows in memory

    def __init__(self, family: Rdict, folder: Path):
        self._cursor: Any = family.iter()
        self._snapshot: Any = family.snapshot()
        self._family = family
        self._folder = folder
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self._cursor = None  # first: it must not outlive the database, and does not keep it alive

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._snapshot[key]  # type: ignore[no-any-return]
        except Exception as error:  # rocksdict raises nothing more specific, and this for a missing key
            if str(error) == "key not found":
                return None
            with told(self._folder):
                raise

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        count, has_more = _FEWEST, True
        while has_more:
            with self._lock, told(self._folder):
                rows, has_more = self._some(low, high, reverse, count)
            yield from rows
            if has_more:
                low, high = (low, rows[-1][0]) if reverse else (rows[-1][0] + b"\x00", high)
                count = min(count * 4, _MOST)

    def blocks(self, low: bytes | None, high: bytes | None, count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        rows = self.scan(low, high)
        while some := list(islice(rows, min(count, _MOST))):
            yield [key for key, _ in some], [value for _, value in some]

    def approximate_count(self) -> int:
        return sum(1 for _ in self.scan(None, None))

    def approximate_bytes(self) -> int:
        return sum(len(key) + len(value) for key, value in self.scan(None, None))

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        return [next((key for key, _ in self.scan(*one) if len(key) == len(one[0])), None) for one in ranges]

    def _some(
        self, low: bytes | None, high: bytes | None, reverse: bool, count: int
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        """The first, or the last, ``count`` rows of a range; and True if there may be more."""
        cursor, room = self._cursor, _BLOCK_BYTES
        rows: list[tuple[bytes, bytes]] = []
        (self._to_end if reverse else self._to_begin)(high if reverse else low)
        move = cursor.prev if reverse else cursor.next
        while (key := cursor.key()) is not None:
            if (low is not None and key < low) or (high is not None and key >= high):
                return rows, False
            if len(rows) == count or room <= 0:
                return rows, True
            rows.append((key, cursor.value()))
            room -= len(rows[-1][1])
            move()
        cursor.status()  # it reports that it ended at damage only now
        return rows, False

    def _to_begin(self, low: bytes | None) -> None:
        """Move the cursor to the first row at or after a key."""
        if low is None:
            self._cursor.seek_to_first()
        else:
            self._cursor.seek(low)

    def _to_end(self, high: bytes | None) -> None:
        """Move the cursor to the last row before a key."""
        if high is None:
            self._cursor.seek_to_last()
        else:
            self._cursor.seek_for_prev(high)
            if self._cursor.key() == high:
                self._cursor.prev()


class _Nothing:
    """A column family that no commit has written to."""

    is_empty = True

    def get(self, key: bytes) -> bytes | None:
        return None

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return [None] * len(keys)

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def blocks(self, low: bytes | None, high: bytes | None, count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        return iter(())

    def approximate_count(self) -> int:
        return 0

    def approximate_bytes(self) -> int:
        return 0

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        return [None] * len(ranges)


def _options(cache: Cache) -> Options:
    options = database_options(cache, _MEMORY_TABLE_BYTES)
    options.set_db_write_buffer_size(_MEMORY_TABLE_BYTES)
    options.set_keep_log_file_num(1)
    options.set_max_background_jobs(1)
    return options
