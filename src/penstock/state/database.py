"""A task's database on disk: RocksDB with a column family for every store, and one for the offsets.

Rows are written rarely and in large numbers. Each write is one batch over all column families and durable when the call
returns, so that after a crash the data agree with their commit number. Newer changes are in the delta files.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rocksdict import (
    AccessType,
    Cache,
    Checkpoint,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from penstock.errors import PenstockError, StoreError
from penstock.faults import check_disk
from penstock.state.at_disk import at_disk
from penstock.state.database_options import database_options
from penstock.state.folder_lock import in_use
from penstock.state.inventory import DamagedStateError, Inventory, distrust, ref_of, write_inventory
from penstock.storage.base import FileRef, cannot_write

_log = logging.getLogger(__name__)

OFFSETS = "offsets"

BLOCK_BYTES = 32 << 20
LOG_BYTES = 1 << 20
"""The approximate size limit of RocksDB's own log on disk."""
_BLOCK = 512
"""The block size of ``st_blocks``."""
_META = b"meta"
_READ_AT_ONCE = 10_000
_FOR_EVER = 10 * 365 * 86_400
_CACHE_OF_A_LOOK = 1 << 20
_ROWS_A_LOOK = 128
"""The number of rows after which a block checks its size in bytes."""


class Database:
    """One RocksDB, open for reading and writing by this process alone.

    Args:
        path: its folder; created if missing.
        cache_bytes: the size of the cache of blocks read from disk.
        patience: seconds to wait for another process, such as one just killed, to release the folder.

    Raises:
        StoreError: the folder is in use by another process, or damaged.
    """

    def __init__(self, path: Path, cache_bytes: int = 8 << 20, patience: float = 30.0):
        self.path = path
        self._options = _options(cache_bytes)
        self._options.set_wal_ttl_seconds(_FOR_EVER)  # the inventory removes them
        self._inventory, self._db = _open(path, self._options, patience)
        self._write_options = WriteOptions()
        self._write_options.sync = True
        self._families: dict[str, Family] = {}
        try:
            self._take_up()
        except BaseException:
            self.abandon()
            raise

    def _take_up(self) -> None:
        """Check the existing files against what was written."""
        for name in Rdict.list_cf(str(self.path)):
            if name != "default":
                self._families[name] = self._family(self._db.get_column_family(name), name)
        if OFFSETS not in self._families:
            self._families[OFFSETS] = self._new_family(OFFSETS)
        before, found = self._inventory.commit, self.meta().get("commit", -1)
        if found < before:
            raise DamagedStateError(f"{self.path} has the rows of commit {found}, and those of {before} were written")
        self._inventory.opened(self._live())
        self._inventory.record(self._live(), found, durably=True)

    def family(self, name: str) -> Family:
        """The column family of this name; created if missing."""
        if name not in self._families:
            self._families[name] = self._new_family(name)
            self._record()  # if a cut manifest has lost the family, its rows would be missing silently
        return self._families[name]

    def _new_family(self, name: str) -> Family:
        with told(self.path), at_disk:
            return self._family(self._db.create_column_family(name, self._options), name)

    def families(self) -> list[str]:
        """The names of all column families except that of the offsets."""
        return sorted(name for name in self._families if name != OFFSETS)

    def drop(self, name: str) -> None:
        """Drop a column family with all of its rows, at once."""
        with told(self.path), at_disk:
            self._db.drop_column_family(name)  # first, so that memory is not written when its handle closes
        self._families.pop(name).let_go()
        self._record()

    def meta(self) -> dict[str, Any]:
        """The ``meta`` of the last ``write``; empty for a new database."""
        return meta_in(self._families[OFFSETS].get, self.path)

    def write(self, changes: dict[str, Iterator[tuple[bytes, bytes | None]]], meta: dict[str, Any]) -> None:
        """Write rows (None deletes) of several families together with the meta data, durably."""
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
        with told(self.path), at_disk:
            check_disk()
            self._db.write(batch, self._write_options)
        self._inventory.record(self._live(), meta.get("commit", -1))
        self._empty_log()

    def _empty_log(self) -> None:
        """Free the disk blocks of RocksDB's own log when it is large: RocksDB logs all options of each new column
        family, 24 kB for each segment of each window store. The emptied part has no blocks on disk; RocksDB appends
        after it. (Rotating the log with RocksDB's own function would write all options once more.)"""
        log = self.path / "LOG"
        with suppress(OSError):
            if os.stat(log).st_blocks * _BLOCK > LOG_BYTES:
                os.truncate(log, 0)

    def settle(self) -> None:
        """Record the changes that background work has made to the files; cheap if there are none."""
        if self._inventory.is_behind():
            self._record()

    def checkpoint(self, path: Path) -> dict[str, FileRef]:
        """Make an immutable copy of the database on disk from hard links; return the expected checksums of its files.

        Raises:
            DamagedStateError: a file is not what was written.
        """
        self._inventory.prove(self._read_everything)
        with told(self.path), at_disk:
            Checkpoint(self._db).create_checkpoint(str(path))
        self._record()
        _check_copy(path, _options(_CACHE_OF_A_LOOK), self.meta())
        files = {file.name: self._inventory.ref(file.name) or ref_of(file) for file in sorted(path.iterdir())}
        write_inventory(path, files)
        return files

    def _read_everything(self) -> None:
        for family in self._families.values():
            deque(family.blocks(None, None, _READ_AT_ONCE), maxlen=0)

    def close(self) -> None:
        """Close it cleanly, so that any later change of its files is noticed."""
        try:
            self.abandon()
        except Exception as error:  # background work has met a damaged table
            _log.warning("the state database %s is damaged, and is rebuilt at the next start: %s", self.path, error)
            distrust(self.path, str(error))
            return
        tables = [path.name for path in self.path.glob("*.sst")]
        self._inventory.record(tables, self._inventory.commit, is_closed=True, durably=True)

    def abandon(self) -> None:
        """Release it as it is."""
        with at_disk, ExitStack() as all_of_it:  # the rest, too, if one fails
            all_of_it.callback(self._db.close)
            for family in self._families.values():
                all_of_it.callback(family.close)
            self._families.clear()

    def distrust(self, reason: str) -> None:
        """Release it, and mark it to be rebuilt when it is next opened."""
        distrust(self.path, reason)
        with suppress(Exception):  # it is damaged
            self.abandon()

    def _record(self) -> None:
        self._inventory.record(self._live(), self._inventory.commit)

    def _live(self) -> list[str]:
        """The table files that hold the rows."""
        with told(self.path):
            return [file["name"].lstrip("/") for file in self._db.live_files()]

    def _family(self, db: Rdict, name: str) -> Family:
        return Family(db, self._db.get_column_family_handle(name), self.path)


def meta_in(get: Callable[[bytes], bytes | None], path: Path) -> dict[str, Any]:
    """The meta data of the database at a path, from its family of offsets."""
    stored = get(_META)
    try:
        return json.loads(stored) if stored else {}
    except ValueError as error:
        raise DamagedStateError(f"{path} has no legible offsets: {error}") from None


class Family:
    """One column family: bytes in the order of their keys."""

    def __init__(self, db: Rdict, handle: Any, path: Path):
        self._db: Any = db
        self.handle = handle
        self._path = path
        self.is_empty = next(self.scan(None, None), None) is None

    @property
    def approximate_rows(self) -> int:
        """The approximate number of rows, by RocksDB's count."""
        return self._db.property_int_value("rocksdb.estimate-num-keys") or 0

    def get(self, key: bytes) -> bytes | None:
        with told(self._path):
            return self._db.get(key)  # type: ignore[no-any-return]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        order = sorted(range(len(keys)), key=keys.__getitem__)  # so that each block is read once
        with told(self._path):
            sorted_values = self._db.get([keys[i] for i in order])
        values: list[bytes | None] = [None] * len(keys)
        for i, value in zip(order, sorted_values, strict=True):
            values[i] = value
        return values

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The rows with ``low <= key < high`` (None: no bound), sorted by key or backwards."""
        last = None
        if not reverse:
            for last, value in self._db.items(from_key=low):
                if high is not None and last >= high:
                    return
                yield last, value
            self._confirm_end(low, high, last)
        else:
            for last, value in self._db.items(backwards=True, from_key=high):
                if low is not None and last < low:
                    return
                if last != high:
                    yield last, value
            self._confirm_beginning(low, high, last)

    def blocks(self, low: bytes | None, high: bytes | None, count: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """The keys and values of ``scan``, in blocks of at most ``count`` rows or ``BLOCK_BYTES``."""
        rows = self._db.items(from_key=low, read_opt=_up_to(high))
        last = None
        block: list[tuple[bytes, bytes]] = []
        nbytes = 0
        while some := list(islice(rows, min(count - len(block), _ROWS_A_LOOK))):
            block += some
            last = some[-1][0]
            nbytes += sum(len(value) for _, value in some)
            if len(block) >= count or nbytes >= BLOCK_BYTES:
                yield _columns(block)
                block, nbytes = [], 0
        if block:
            yield _columns(block)
        self._confirm_end(low, high, last)

    def _confirm_end(self, low: bytes | None, high: bytes | None, last: bytes | None) -> None:
        """Raise ``DamagedStateError`` if rows after the last one were left out: RocksDB's iterators end at a damaged
        block, and report it only when asked."""
        at = self._db.iter(_up_to(high))
        start = low if last is None else last
        if start is None:
            at.seek_to_first()
        else:
            at.seek(start)
        if last is not None and at.key() == last:
            at.next()
        self._confirm(at)

    def _confirm_beginning(self, low: bytes | None, high: bytes | None, last: bytes | None) -> None:
        """Check that an iterator that ran backwards reached the beginning and did not stop early."""
        at = self._db.iter()
        start = high if last is None else last
        if start is None:
            at.seek_to_last()
        else:
            at.seek_for_prev(start)
        if start is not None and at.key() == start:
            at.prev()
        if low is None or at.key() is None or at.key() >= low:
            self._confirm(at)

    def _confirm(self, at: Any) -> None:
        with told(self._path):
            at.status()
        if at.valid():
            raise DamagedStateError(f"the state database {self._path} has not given all of its rows")

    def firsts(self, ranges: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        """The first key in each range ``low <= key < high`` that is as long as these bounds, or None."""
        at = self._db.iter()
        found: list[bytes | None] = []
        for low, high in ranges:
            at.seek(low)
            key = at.key()
            while key is not None and key < high and len(key) != len(low):
                at.next()
                key = at.key()
            if key is None:
                self._confirm(at)
            found.append(key if key is not None and key < high else None)
        return found

    def approximate_bytes(self) -> int:
        """The approximate size on disk in bytes."""
        return int(self._db.property_int_value("rocksdb.estimate-live-data-size") or 0)

    def approximate_count(self) -> int:
        """The approximate number of rows."""
        return int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)

    def close(self) -> None:
        self._db.close()
        self.handle = None

    def let_go(self) -> None:
        """Release a family that was dropped."""
        self._db = self.handle = None


def _columns(rows: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return [key for key, _ in rows], [value for _, value in rows]


def _up_to(high: bytes | None) -> ReadOptions:
    bound = ReadOptions()
    if high is not None:
        bound.set_iterate_upper_bound(high)
    return bound


def _options(cache_bytes: int) -> Options:
    options = database_options(Cache(cache_bytes), 8 << 20)
    options.set_db_write_buffer_size(16 << 20)
    options.set_max_total_wal_size(32 << 20)
    options.set_keep_log_file_num(2)
    options.set_max_background_jobs(2)
    return options


def _open(path: Path, options: Options, patience: float) -> tuple[Inventory, Rdict]:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the state folder {path}: {error.strerror}. If a file has this path, remove it; "
            "otherwise make the parent folder writable"
        ) from error
    deadline = time.monotonic() + patience
    while True:
        try:
            inventory = Inventory(path)
            names = Rdict.list_cf(str(path)) if (path / "CURRENT").exists() else []
            families = {name: options for name in names if name != "default"}
            with at_disk:
                return inventory, Rdict(str(path), options, column_families=families)
        except PenstockError:
            raise
        except Exception as error:  # rocksdict raises nothing more specific
            if not _IN_USE.search(str(error)):
                raise _trouble(path, error) from None
            if time.monotonic() > deadline:
                raise in_use(path, patience) from None
            time.sleep(0.05)


def _check_copy(path: Path, options: Options, meta: dict[str, Any]) -> None:
    """Raise ``DamagedStateError`` unless a copy opens and has the expected contents: files are copied unread."""
    files = set(path.iterdir())
    with told(path):
        families = {name: options for name in Rdict.list_cf(str(path)) if name != "default"}
        copy = Rdict(str(path), options, column_families=families, access_type=AccessType.read_only())
    try:
        with told(path):
            stored = copy.get_column_family(OFFSETS).get(_META)
            found = {file["name"].lstrip("/") for file in copy.live_files()}
        if found != {file.name for file in files if file.suffix == ".sst"} or json.loads(stored or "{}") != meta:
            raise DamagedStateError(f"the manifest of the state database that {path} is a copy of is damaged")
    finally:
        copy.close()
    for made in set(path.iterdir()) - files:  # by opening it
        made.unlink()


_IN_USE = re.compile(r"While lock file: |lock hold by current process")
_ENVIRONMENT = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "Read-only file system": errno.EROFS,
    "Permission denied": errno.EACCES,
    "Too many open files": errno.EMFILE,
}
"""RocksDB errors that do not mean damaged files."""
_FILE = re.compile(r"(/[^:]+\.(?:sst|log|dbtmp)|/[^:]+/MANIFEST-\d+)")


def _trouble(path: Path, error: Exception) -> StoreError:
    """Classify an error of RocksDB, which has only its text to tell it by."""
    text = str(error)
    for reason, number in _ENVIRONMENT.items():
        if reason in text:
            file = _FILE.search(text)
            return cannot_write(Path(file[1]) if file else path, OSError(number, reason))
    return DamagedStateError(f"the state database {path} is damaged: {text}")


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn errors of RocksDB into errors of the database at a path."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # rocksdict raises nothing more specific
        raise _trouble(path, error) from None
