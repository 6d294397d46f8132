"""A task's database on disk: RocksDB with a column family for every store, and one for the offsets.

Rows come here seldom and many at a time. Each such write is one batch over all column families, durable when the call
returns, so that after a crash the data and the commit number they belong to agree; what is newer lies in the delta
files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from penstock.errors import StoreError

OFFSETS = "offsets"

BLOCK_BYTES = 32 << 20
_READ_AT_ONCE = 128  # rows: after so many a block looks at its bytes
_META = b"meta"


class Database:
    """One RocksDB, open for reading and writing by this process alone.

    Args:
        path: its folder, made when it is not there.
        cache_bytes: the size of the cache of blocks read from disk.
        patience: seconds to wait for another process, such as one just killed, to let go of the folder.

    Raises:
        StoreError: the folder is in use by another process, or damaged.
    """

    def __init__(self, path: Path, cache_bytes: int = 8 << 20, patience: float = 30.0):
        self.path = path
        self._options = _options(cache_bytes)
        self._db = _open(path, self._options, patience)
        self._write_options = WriteOptions()
        self._write_options.sync = True
        self._families: dict[str, Family] = {}
        for name in Rdict.list_cf(str(path)):
            if name != "default":
                self._families[name] = self._family(self._db.get_column_family(name), name)
        if OFFSETS not in self._families:
            self.family(OFFSETS)

    def family(self, name: str) -> Family:
        """The column family of this name, made when it is not there."""
        if name not in self._families:
            self._families[name] = self._family(self._db.create_column_family(name, self._options), name)
        return self._families[name]

    def families(self) -> list[str]:
        """The names of all column families but that of the offsets."""
        return sorted(name for name in self._families if name != OFFSETS)

    def drop(self, name: str) -> None:
        """Drop a column family with all it holds, at once."""
        self._db.drop_column_family(name)  # first, or what is in memory would be written before the handle is closed
        self._families.pop(name).let_go()

    def meta(self) -> dict[str, Any]:
        """What ``write`` was last given as ``meta``; empty for a new database."""
        stored = self._families[OFFSETS].get(_META)
        return json.loads(stored) if stored else {}

    def write(self, changes: dict[str, Iterator[tuple[bytes, bytes | None]]], meta: dict[str, Any]) -> None:
        """Write rows (None deletes) of several families together with the meta data, and make them durable."""
        batch = WriteBatch(raw_mode=True)
        for name, rows in changes.items():
            family = self.family(name)
            put, delete, handle = batch.put, batch.delete, family.handle
            for key, value in rows:
                if value is None:
                    delete(key, handle)
                else:
                    put(key, value, handle)
            family.is_empty = False
        batch.put(_META, json.dumps(meta).encode(), self._families[OFFSETS].handle)
        self._db.write(batch, self._write_options)

    def checkpoint(self, path: Path) -> None:
        """An immutable copy of the database as it is on disk, made of hard links."""
        Checkpoint(self._db).create_checkpoint(str(path))

    def close(self) -> None:
        for family in self._families.values():
            family.close()
        self._families.clear()
        self._db.close()

    def _family(self, db: Rdict, name: str) -> Family:
        return Family(db, self._db.get_column_family_handle(name))


class Family:
    """One column family: bytes in the order of their keys."""

    def __init__(self, db: Rdict, handle: Any):
        self._db: Any = db
        self.handle = handle
        self.is_empty = next(iter(db.keys()), None) is None

    def get(self, key: bytes) -> bytes | None:
        return self._db.get(key)  # type: ignore[no-any-return]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return self._db.get(keys)  # type: ignore[no-any-return]

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The rows with ``low <= key < high`` (None: no bound), in order of their keys or backwards."""
        if not reverse:
            for key, value in self._db.items(from_key=low):
                if high is not None and key >= high:
                    return
                yield key, value
        else:
            for key, value in self._db.items(backwards=True, from_key=high):
                if low is not None and key < low:
                    return
                if key != high:
                    yield key, value

    def blocks(self, low: bytes | None, high: bytes | None, count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """The same rows in order, at most so many or ``BLOCK_BYTES`` at a time: their keys and their values."""
        bound = ReadOptions()
        if high is not None:
            bound.set_iterate_upper_bound(high)
        rows = self._db.items(from_key=low, read_opt=bound)
        block: list[tuple[bytes, bytes]] = []
        nbytes = 0
        while some := list(islice(rows, min(count - len(block), _READ_AT_ONCE))):
            block += some
            nbytes += sum(len(value) for _, value in some)
            if len(block) >= count or nbytes >= BLOCK_BYTES:
                yield _columns(block)
                block, nbytes = [], 0
        if block:
            yield _columns(block)

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        """The first key in each range ``low <= key < high`` that is as long as these two; None where there is none."""
        at = self._db.iter()
        found: list[bytes | None] = []
        for low, high in ranges:
            at.seek(low)
            key = at.key()
            while key is not None and key < high and len(key) != len(low):
                at.next()
                key = at.key()
            found.append(key if key is not None and key < high else None)
        return found

    def close(self) -> None:
        self._db.close()
        self.handle = None

    def let_go(self) -> None:
        """Let go of a family that was dropped."""
        self._db = self.handle = None


def _columns(rows: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return [key for key, _ in rows], [value for _, value in rows]


def _options(cache_bytes: int) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    blocks.set_block_cache(Cache(cache_bytes))
    blocks.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(8 << 20)
    options.set_db_write_buffer_size(16 << 20)
    options.set_max_total_wal_size(32 << 20)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_background_jobs(2)
    return options


def _open(path: Path, options: Options, patience: float) -> Rdict:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the state folder {path}: {error.strerror}") from error
    deadline = time.monotonic() + patience
    while True:
        try:
            names = Rdict.list_cf(str(path)) if (path / "CURRENT").exists() else []
            return Rdict(str(path), options, column_families={name: options for name in names if name != "default"})
        except Exception as error:  # rocksdict raises nothing more specific
            if "lock" not in str(error).lower():
                raise StoreError(
                    f"cannot open the state database {path}: {error}; remove the folder to have it rebuilt "
                    "from the snapshot and the delta files: nothing is lost"
                ) from error
            if time.monotonic() > deadline:
                raise StoreError(
                    f"the state database {path} is in use by another process after {patience:g} s of waiting: "
                    "stop the other program that runs under this application id"
                ) from error
            time.sleep(0.05)
