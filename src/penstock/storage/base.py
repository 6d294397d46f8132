"""The storage of an application's commits: delta files, manifests, snapshots. One small interface, two implementations.

A local (or shared) folder is the default; any object store that ``obstore`` supports can be used instead (``s3://``,
``gs://``, ``az://``), with the extra ``penstock-streams[obstore]``.
"""

from __future__ import annotations

import errno
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import xxhash

from penstock.errors import CorruptDataError, PenstockError, StoreError
from penstock.faults import check_disk
from penstock.files.plain_files import new_file, read_plain, readable_bytes
from penstock.files.untrusted import inner_path
from penstock.storage.syncing import is_durable_later, sync_path
from penstock.values.decoding import from_json
from penstock.values.masking import masked

_SMALL = 128 << 10
"""Files up to this size are read: mapping a file, and above all its release, costs more than copying so many bytes."""


class FileRef(msgspec.Struct, frozen=True, array_like=True):
    """A finished file: its name, its size and the checksum of all its bytes."""

    name: str
    size: int
    checksum: int

    def __post_init__(self) -> None:
        if self.name:  # an unfinished file has no name
            inner_path(self.name)

    def verify(self, data: Any, where: str) -> None:
        """Raise ``CorruptDataError`` unless the bytes are the written ones."""
        if len(data) != self.size:
            raise CorruptDataError(
                f"{where}/{self.name} is torn: {self.size} bytes were written, {len(data)} are there; "
                "restore the file from a backup"
            )
        if checksum(data) != self.checksum:
            raise CorruptDataError(
                f"{where}/{self.name} is damaged: its checksum is not the one it was written with; "
                "restore the file from a backup"
            )


def checksum(data: Any) -> int:
    """Return the checksum of files (XXH3, 63 bits, so that it fits a JSON integer everywhere)."""
    return xxhash.xxh3_64_intdigest(memoryview(data)) >> 1


class Storage(ABC):
    """Named, immutable files: written once, and created at most once where it matters."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Create a small file durably unless it exists. Return whether this call created it."""

    @abstractmethod
    def write(self, name: str, is_asked_for: bool = True) -> Any:
        """Return a context with a file to write into (``pyarrow.NativeFile``); durable at its end.

        Args:
            is_asked_for: whether ``ref`` will be called for it.
        """

    def put(self, name: str, data: Any) -> FileRef:
        """Write these bytes as a file, durably."""
        with self.write(name, is_asked_for=False) as file:
            file.write(data)
        return FileRef(name, len(data), checksum(data))

    def replace(self, name: str, data: Any) -> None:
        """Write these bytes as a file, durably. Readers see the older file or this one, whole."""
        self.put(name, data)

    @abstractmethod
    def read(self, name: str) -> Any:
        """Return all bytes of a file, as a buffer; ``FileNotFoundError`` if it does not exist."""

    def read_part(self, name: str, at: int, size: int) -> Any:
        """Return up to so many bytes of a file, from one place on."""
        return self.read(name)[at : at + size]

    @abstractmethod
    def list(self, prefix: str) -> list[str]:
        """Return the names of all files in a folder, sorted; hidden files do not belong to this library."""

    def changed_at(self, folder: str) -> int | None:
        """Return when a file of a folder was last made or removed, in nanoseconds; None if only a listing can tell."""
        return None

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file, if it exists."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove unfinished files of killed processes."""

    is_remote = False
    """Whether large files take so long that nothing should wait for them."""

    def check(self) -> None:  # noqa: B027 - a folder can
        """Raise ``ConfigError`` if the storage lacks an operation that commits rely on."""

    def take_counts(self) -> dict[str, int]:
        """Return the requests and bytes since the last call, by the names of ``penstock.figures.metrics``."""
        return {}

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL that opens the same storage elsewhere with ``open_storage``."""

    @property
    def shown(self) -> str:
        """The place of the files for messages: without keys or passwords."""
        return masked(self.url)

    def ref(self, name: str) -> FileRef:
        """Return the reference of a file just written."""
        data = self.read(name)
        return FileRef(name, len(data), checksum(data))

    def read_verified(self, ref: FileRef, at: int = -1) -> Any:
        """Return the verified bytes of a file, or of its part that begins at ``at``; raises ``CorruptDataError``."""
        try:
            data = self._part(ref.name, at, ref.size)
            ref.verify(data, self.shown)
        except FileNotFoundError:
            missing = (
                f"{self.shown}/{ref.name} is missing: {ref.size} bytes were committed; restore the file from a backup"
            )
            raise self._misplaced(ref, at, missing) from None
        except CorruptDataError as error:
            raise self._misplaced(ref, at, str(error)) from None
        return data

    def _part(self, name: str, at: int, size: int) -> Any:
        return self.read(name) if at < 0 else self.read_part(name, at, size)

    def namesakes(self, name: str) -> Iterator[str]:
        """Yield the files of the same name in neighbouring folders, such as those of other tasks."""
        folder, _, file = name.rpartition("/")
        above = folder.rpartition("/")[0]
        for other in self.list(above) if above else ():
            if other != name and other.rpartition("/")[2] == file and other.count("/") == name.count("/"):
                yield other

    def _misplaced(self, ref: FileRef, at: int, damage: str) -> CorruptDataError:
        """Return the error for a file with wrong content, which may be in another file's place."""
        for other in self.namesakes(ref.name):
            try:
                ref.verify(self._part(other, at, ref.size), self.shown)
            except (OSError, PenstockError):
                continue
            return CorruptDataError(exchanged(damage, self.shown, ref.name, other))
        return CorruptDataError(damage)


class LocalStorage(Storage):
    """Files in a folder of this machine, or of a file system that all machines share."""

    def __init__(self, root: Path):
        self.root = root
        self._folders: dict[str, str] = {}

    @property
    def url(self) -> str:
        return str(self.root)

    def create(self, name: str, data: bytes) -> bool:
        return create_file(self._path(name), data)

    @contextmanager
    def write(self, name: str, is_asked_for: bool = True) -> Iterator[Any]:
        path = self._path(name)
        with durable_file(path) as file:
            yield file

    def replace(self, name: str, data: Any) -> None:
        path = self._path(name)
        replace_file(path, data, durably=True)
        sync_folder(path.parent)

    def read(self, name: str) -> Any:
        return map_file(self._path(name))

    def list(self, prefix: str) -> list[str]:
        folder = self._path(prefix) if prefix else self.root
        if not folder.is_dir():
            return []
        found = ((where, file) for where, _, files in os.walk(folder) for file in files if not file.startswith("."))
        root = os.path.join(self.root, "")
        return sorted(os.path.join(where, file).removeprefix(root) for where, file in found)

    def changed_at(self, folder: str) -> int | None:
        try:
            return os.stat(self._folders.setdefault(folder, os.fspath(self._path(folder)))).st_mtime_ns
        except FileNotFoundError:
            return 0

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def sweep(self) -> None:
        old = time.time() - _LEFT_SECONDS
        for path in self.root.rglob(f"{TEMPORARY}*"):
            with suppress(OSError):
                if path.stat().st_mtime < old:
                    path.unlink()

    def _path(self, name: str) -> Path:
        return self.root / inside(name)


def exchanged(damage: str, place: str, name: str, other: str) -> str:
    """Extend a damage report if the file's content was found in the place of another file.

    >>> print(exchanged("c/deltas/0_0/7 is damaged; restore it", "c", "deltas/0_0/7", "deltas/0_1/7"))
    c/deltas/0_0/7 is damaged; what was committed as this file is whole, in the place of c/deltas/0_1/7. \
Nothing was changed, and nothing is lost. Stop all programs of the application, exchange the folders c/deltas/0_0 and \
c/deltas/0_1, or these two files alone if others are in their places, and start again
    """
    folders = [f"{place}/{one.rpartition('/')[0]}" for one in (name, other)]
    return (
        f"{damage.partition(';')[0]}; what was committed as this file is whole, in the place of {place}/{other}. "
        "Nothing was changed, and nothing is lost. Stop all programs of the application, exchange the folders "
        f"{folders[0]} and {folders[1]}, or these two files alone if others are in their places, and start again"
    )


def inside(name: str) -> str:
    """Return the name of a file or folder in a storage; raises ``CorruptDataError`` if it leads out of it."""
    try:
        return inner_path(name)
    except ValueError as error:
        raise CorruptDataError(f"{error}; nothing was read, written or removed there") from None


def number_in(name: str) -> int | None:
    """Return the commit number at the beginning of a file's name; None for foreign files.

    >>> number_in("deltas/0_0/0000000000000007-abc.arrow"), number_in("deltas/0_0/notes.txt")
    (7, None)
    """
    found = _NUMBER.match(name.rpartition("/")[2])
    return int(found[1]) if found else None


_NUMBER = re.compile(r"(\d{16})[.-]", re.ASCII)


# --- small files that say themselves whether they are whole --------------------------------------------------------

T = TypeVar("T")


def seal(content: Any) -> bytes:
    """Return a structure as JSON, after a line with its checksum."""
    body = msgspec.json.encode(content)
    return b"%016x\n" % checksum(body) + body


def unseal(data: Any, type_: type[T], where: str) -> T:
    """Reverse ``seal``; raises ``CorruptDataError`` naming the file."""
    try:
        sum_, body = bytes(data).split(b"\n", 1)
        if sum_ != b"%016x" % checksum(body):
            raise ValueError("its checksum does not match")
        return from_json(body, type_)
    except (ValueError, msgspec.DecodeError) as error:
        raise CorruptDataError(f"{where} is damaged: {error}; restore it from a backup") from None


# --- files of a local disk ----------------------------------------------------------------------------------------

TEMPORARY = ".tmp-"
_LEFT_SECONDS = 3600
"""After this time no process is still writing a small file."""


def create_file(path: Path, data: bytes) -> bool:
    """Create a file durably and atomically unless it exists already. Return whether this call created it."""
    temporary = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        _write(temporary, data, durably=True)
        is_new = _link(temporary, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        _remove(temporary)
    if is_new:
        sync_folder(path.parent)
    return is_new


def replace_file(path: Path, data: bytes, durably: bool = False) -> None:
    """Write a small file, atomically replacing an older one. After a power loss it may be the older one, or damaged."""
    temporary = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}"
    try:
        _write(temporary, data, durably)
        temporary.replace(path)
    except OSError as error:
        _remove(temporary)
        raise cannot_write(path, error) from error


def _write(path: Path, data: bytes, durably: bool) -> None:
    """Write a new file under its temporary name; its folder is created if necessary."""
    check_disk()
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(new_file(path), "wb") as file:
        file.write(data)
        if durably:
            file.flush()
            os.fsync(file.fileno())


def _link(file: Path, name: Path) -> bool:
    """Give a file a name unless the name is taken. Return whether it was free."""
    try:
        os.link(file, name)
    except FileExistsError:
        return False
    return True


@contextmanager
def durable_file(path: Path, parents: bool = True) -> Iterator[Any]:
    """Yield a new file to write into, synced to disk at the end (or by ``SyncTogether``), and removed after an error.

    Its folder is created if necessary, and with ``parents`` the folders above it too.
    """
    try:
        with writing(path):
            path.parent.mkdir(parents=parents, exist_ok=True)
            _remove(path)  # if it is a link, its target is not written
            with pa.OSFile(str(path), "wb") as file:
                yield file
            if not is_durable_later(path):
                sync_file(path)
                sync_folder(path.parent)
    except BaseException:
        _remove(path)
        raise


@contextmanager
def writing(place: Path | str) -> Iterator[None]:
    """Make errors of writing a file name that file, and not another open one."""
    try:
        check_disk()
        yield
    except OSError as error:
        if error.filename is not None and str(error.filename) not in (str(place), str(Path(place).parent)):
            raise
        raise cannot_write(place, error) from error


def _remove(path: Path) -> None:
    """Delete the file if it exists; errors are swallowed so that the original one is reported."""
    with suppress(OSError):
        path.unlink()


def map_file(path: Path) -> Any:
    """Return all bytes of a file, memory-mapped if they are many; raises ``CorruptDataError`` if it is no file."""
    if readable_bytes(path) <= _SMALL:  # opening a pipe would block
        return pa.py_buffer(read_plain(path))
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def sync_file(path: Path) -> None:
    """Make a file's bytes durable."""
    sync_path(path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    sync_file(path)


def cannot_write(place: Path | str, error: OSError) -> StoreError:
    """Return the error for a file that cannot be written: a full disk, a read-only folder."""
    advice = _ADVICE.get(error.errno or 0, "See to it that it can be written")
    found = StoreError(
        f"cannot write {place}: {error.strerror or error}; nothing was committed. {advice}, and start again: the "
        f"application continues where it was"
    )
    if error.errno in _OF_DISKS:
        found.unwritable = str(place)
    return found


_MAKE_ROOM = (
    "Make room on its disk (`penstock topics ls` shows the sizes of topics, `penstock topics retain` removes records "
    "whose retention has passed), or move the folder to a larger one"
)
_ADVICE = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EROFS: "Make its file system writable",
    errno.EACCES: "Let this user write there",
    errno.EPERM: "Let this user write there",
    errno.EMFILE: "Raise the limit of open files (`ulimit -n`)",
    errno.ENFILE: "Raise the limit of open files (`ulimit -n`)",
    errno.ENAMETOOLONG: "Use shorter names",
    errno.EISDIR: "Remove the folder that has its name",
    errno.EEXIST: "Remove what is there instead of its folder",
    errno.ENOTDIR: "Remove what is there instead of its folder",
}
"""The remedy for each error."""

_OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""Errors that another disk would avoid."""
