"""The inventory of a task's database: what its files were when it was last written. It is stored next to them.

RocksDB finds a flipped bit when it reads the block. But it takes a truncated manifest for a shorter one, and opens with
rows of other commits. The inventory has the lengths of the manifest and the write-ahead logs, and the commit that they
belong to; a shorter file is damaged. RocksDB moves logs that it no longer needs into a folder. They are removed from
there after the inventory has been updated, so a log in neither place was lost. The inventory also has the checksum of
each table file, taken when it was new, so that no damaged file gets into a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import xxhash

from penstock.errors import CorruptDataError, StoreError
from penstock.files.plain_files import kind_of, read_plain
from penstock.storage.base import FileRef, checksum, map_file, replace_file, seal, unseal

NAME = "penstock.inventory"
_CURRENT = "CURRENT"
_DONE = "archive"
"""Where RocksDB moves logs whose rows are in tables, if it is configured to keep them."""


class DamagedStateError(StoreError):
    """The files of a database are not as they were written. The database is a copy, which can be rebuilt from the
    checkpoint."""


def check_files(folder: Path) -> None:
    """Check that RocksDB finds only regular files, and writes to none that has a hard link elsewhere.

    Raises:
        DamagedStateError: a link, a pipe, or a folder is in the place of a file.
    """
    for found in os.scandir(folder):
        path, is_file = Path(found.path), found.is_file(follow_symlinks=False)
        if not is_file and not (found.name == _DONE and found.is_dir(follow_symlinks=False)):
            raise DamagedStateError(f"{path} is {kind_of(path) or 'no file'}, and a file belongs there")
        is_written_once = path.suffix in (".sst", ".log")  # unfinished snapshots share these
        if is_file and not is_written_once and found.stat(follow_symlinks=False).st_nlink > 1:
            replace_file(path, read_plain(path))


class _Files(msgspec.Struct, frozen=True, omit_defaults=True):
    """The inventory in its form on disk."""

    commit: int = -1
    """The commit of the last write."""
    manifest: FileRef | None = None
    """The manifest's name, its size, and the checksum of that many bytes; it may have grown since. None while it is
    created."""
    tables: list[FileRef] = []
    logs: dict[str, int] = {}
    """The sizes of the write-ahead logs, which may have grown since."""
    is_closed: bool = False
    """True if the database was closed, so that no file can have grown."""
    doubt: str = ""
    """Damage that was found while the database was open."""


class Inventory:
    """The inventory of the database in a folder.

    Raises:
        DamagedStateError: the files are not as they were written.
    """

    def __init__(self, folder: Path):
        check_files(folder)
        self._folder = folder
        self._path = folder / NAME
        self._manifest = FileRef("", 0, 0)
        self._hash = xxhash.xxh3_64()
        self._tables: dict[str, FileRef] = {}
        self._before = {path.name for path in folder.glob("*.sst")}
        self.unproven: set[str] = set()
        """Tables that were created before a kill and are missing from the inventory, so that their checksum is
        unknown."""
        self.commit = -1
        self._check(self._load())

    def opened(self, live: Iterable[str]) -> None:
        """Note that the database is open with these tables."""
        self.unproven = self._before.intersection(live).difference(self._tables)

    def is_behind(self) -> bool:
        """True if the database's manifest is longer than the inventory says."""
        try:
            return (self._folder / self._manifest.name).stat().st_size != self._manifest.size
        except OSError:
            return True

    def record(self, live: Iterable[str], commit: int, is_closed: bool = False, durably: bool = False) -> None:
        """Record the files as they are now, after a write for this commit."""
        try:
            self._read_manifest()
        except OSError as error:
            raise DamagedStateError(f"cannot read {error.filename}: {error.strerror}") from None
        logs = {path.name: size for path in self._folder.glob("*.log") if (size := _size(path)) is not None}
        known = (self._table(name) for name in live if name not in self.unproven)
        self._tables = {ref.name: ref for ref in known if ref is not None}
        self.commit = commit
        files = _Files(commit, self._manifest, list(self._tables.values()), logs, is_closed)
        done = list((self._folder / _DONE).glob("*.log"))
        replace_file(self._path, seal(files), durably)
        for path in done:
            if path.name not in logs:
                path.unlink(missing_ok=True)

    def prove(self, scan: Callable[[], None]) -> None:
        """Accept the tables with unknown checksums once all of them have been read without an error."""
        if self.unproven:
            scan()
            self.unproven = set()

    def ref(self, name: str) -> FileRef | None:
        """The size and checksum of a table when it was new; None if unknown."""
        return self._tables.get(name)

    def _table(self, name: str) -> FileRef | None:
        try:
            return self._tables.get(name) or ref_of(self._folder / name)
        except FileNotFoundError:  # merged into others since
            return None

    def _read_manifest(self) -> None:
        """Read what was appended to the manifest."""
        name = (self._folder / _CURRENT).read_text(errors="replace").strip()
        if not name.startswith("MANIFEST-"):
            raise DamagedStateError(f"{self._folder / _CURRENT} names no manifest")
        if name != self._manifest.name:
            self._manifest, self._hash = FileRef(name, 0, 0), xxhash.xxh3_64()
        with open(self._folder / name, "rb") as file:
            file.seek(self._manifest.size)
            more = file.read()
        self._hash.update(more)
        self._manifest = FileRef(name, self._manifest.size + len(more), self._hash.intdigest() >> 1)

    # --- what was there before -----------------------------------------------------------------------------------

    def _load(self) -> _Files:
        try:
            return unseal(read_plain(self._path), _Files, str(self._path))
        except FileNotFoundError:
            if self._before or (self._folder / _CURRENT).exists():
                raise DamagedStateError(f"{self._path} is missing") from None
            replace_file(self._path, seal(_Files()))
            return _Files()
        except CorruptDataError:
            raise DamagedStateError(f"{self._path} is damaged") from None

    def _check(self, files: _Files) -> None:
        if files.doubt:
            raise DamagedStateError(files.doubt)
        if files.manifest is None:
            return
        try:
            self._check_manifest(files)
            self._check_sizes(files)
        except OSError as error:
            raise DamagedStateError(f"cannot read {error.filename}: {error.strerror}") from None
        self.commit = files.commit
        self._tables = {ref.name: ref for ref in files.tables}

    def _check_manifest(self, files: _Files) -> None:
        assert files.manifest is not None
        current = self._folder / _CURRENT
        if current.read_bytes() != f"{files.manifest.name}\n".encode():
            raise DamagedStateError(f"{current} does not name {files.manifest.name}")
        path = self._folder / files.manifest.name
        data = read_plain(path)
        if len(data) < files.manifest.size or (files.is_closed and len(data) > files.manifest.size):
            raise DamagedStateError(f"{path} has {len(data)} bytes and had {files.manifest.size}")
        if checksum(data[: files.manifest.size]) != files.manifest.checksum:
            raise DamagedStateError(f"{path} is damaged: its checksum is not the one it was written with")

    def _check_sizes(self, files: _Files) -> None:
        """Check that remaining tables have their recorded sizes, and that logs exist and are not shorter."""
        for ref in files.tables:
            path = self._folder / ref.name
            if path.exists():
                if path.stat().st_size != ref.size:
                    raise DamagedStateError(f"{path} has {path.stat().st_size} bytes and had {ref.size}")
            elif files.is_closed:
                raise DamagedStateError(f"{path} is missing")
        for name, size in files.logs.items():
            path = self._folder / name
            if not path.exists() and not files.is_closed:
                path = self._folder / _DONE / name
            if path.stat().st_size < size:
                raise DamagedStateError(f"{path} has {path.stat().st_size} bytes and had {size}")


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # in tables by now
        return None


def ref_of(path: Path) -> FileRef:
    """Name, size and checksum of a file as it is now."""
    data = map_file(path)
    return FileRef(path.name, len(data), checksum(data))


def distrust(folder: Path, reason: str) -> None:
    """Mark the database in a folder to be rebuilt when it is next opened."""
    replace_file(folder / NAME, seal(_Files(doubt=reason)))


def write_inventory(folder: Path, files: dict[str, FileRef]) -> None:
    """Write the inventory of a database that was copied file by file."""
    named = {name: FileRef(name, ref.size, ref.checksum) for name, ref in files.items()}
    manifest = next((ref for name, ref in named.items() if name.startswith("MANIFEST-")), None)
    tables = [ref for name, ref in named.items() if name.endswith(".sst")]
    logs = {name: ref.size for name, ref in named.items() if name.endswith(".log")}
    replace_file(folder / NAME, seal(_Files(-1, manifest, tables, logs, is_closed=True)))
