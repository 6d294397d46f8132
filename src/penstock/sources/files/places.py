"""Where files appear: a folder, or a bucket of an object store."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from penstock.errors import ConfigError, LogError, SourceError
from penstock.files.locations import checkpoint_place, folder, scheme_of
from penstock.files.plain_files import open_plain
from penstock.messages import show
from penstock.storage.objects import store_at
from penstock.values.masking import masked

_REQUEST_SECONDS = 30.0
_HIDDEN = (".", "_")
"""How names begin that are nobody's business: unfinished files, manifests, and what tools keep for themselves."""


class Listed(msgspec.Struct, frozen=True):
    """A file that appeared.

    Attributes:
        name: its path below the place.
        tag: tells its content from another one under the same name.
        at: when it was changed last, in ms.
    """

    name: str
    size: int
    tag: str
    at: int


class Place(ABC):
    """Where files appear."""

    @abstractmethod
    def files(self) -> Iterator[Listed]:
        """Yield all files, in any order."""

    @abstractmethod
    def look(self, name: str) -> Listed | None:
        """Return a file as it is now; None if it is gone."""

    @abstractmethod
    def open(self, name: str) -> Any:
        """Return a file to read and seek in, as Arrow has them."""


class Folder(Place):
    """A folder of this machine, with those in it."""

    def __init__(self, root: Path):
        self._root = root

    def files(self) -> Iterator[Listed]:
        yield from self._below("")

    def _below(self, inside: str) -> Iterator[Listed]:
        with os.scandir(self._root / inside) as entries:
            for entry in entries:
                name = f"{inside}{entry.name}"
                if entry.name.startswith(_HIDDEN):
                    continue
                if "\\" in entry.name or not _is_text(entry.name):
                    raise SourceError(f"the name {name!r} is no UTF-8, or has a backslash: rename the file")
                if entry.is_dir(follow_symlinks=False):
                    yield from self._below(f"{name}/")
                elif (found := self.look(name)) is not None:
                    yield found

    def look(self, name: str) -> Listed | None:
        try:
            found = os.stat(self._root / name)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return Listed(name, found.st_size, f"{found.st_mtime_ns:x}-{found.st_size:x}", found.st_mtime_ns // 1_000_000)

    def open(self, name: str) -> Any:
        return pa.PythonFile(os.fdopen(open_plain(self._root / name, os.O_RDONLY), "rb"), mode="r")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes of another encoding
        return False
    return True


class Bucket(Place):
    """A bucket of an object store, or what is below a path in it."""

    def __init__(self, url: str):
        import obstore

        self._obstore = obstore
        self._store = store_at(url, _REQUEST_SECONDS)

    def files(self) -> Iterator[Listed]:
        with self._plain_errors():
            for page in self._obstore.list(self._store):
                for meta in page:
                    if not any(part.startswith(_HIDDEN) for part in meta["path"].split("/")):
                        yield _listed(meta)

    def look(self, name: str) -> Listed | None:
        try:
            with self._plain_errors():
                return _listed(self._obstore.head(self._store, name))
        except FileNotFoundError:
            return None

    def open(self, name: str) -> Any:
        with self._plain_errors():
            return pa.PythonFile(_Reading(self._obstore.open_reader(self._store, name), self._plain_errors), mode="r")

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Raise errors of the store without what may have keys in it."""
        try:
            yield
        except FileNotFoundError:
            raise
        except self._obstore.exceptions.BaseError as error:
            said = masked(str(error).partition("\n")[0])
            raise LogError(f"the store did not answer: {said}") from None


class _Reading:
    """A file of a store as Python has files."""

    def __init__(self, reader: Any, plain_errors: Callable[[], AbstractContextManager[None]]):
        self._reader = reader
        self._plain_errors = plain_errors
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        with self._plain_errors():
            return bytes(self._reader.read(size) if size >= 0 else self._reader.readall())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def size(self) -> int:
        return int(self._reader.size)

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self._reader.close()


def _listed(meta: Any) -> Listed:
    changed = int(meta["last_modified"].timestamp() * 1000)
    return Listed(meta["path"], meta["size"], meta["e_tag"] or f"{changed:x}-{meta['size']:x}", changed)


def place_at(where: Any, what: str) -> Place:
    """Return the place with a path or a URL.

    Raises:
        ConfigError: it is none, or an object store and obstore is not installed.
    """
    if not isinstance(where, Path | str) or not str(where):
        raise ConfigError(f"{what} is a folder or the URL of an object store; got {show(where)}")
    text = checkpoint_place(where, what)
    if scheme_of(text) in (None, "file"):
        return Folder(folder(text, what).absolute())
    shown = text.partition("://")[0] + "://..."  # the rest may contain keys
    try:
        import obstore
    except ImportError:
        raise ConfigError(f"{what} {shown} needs obstore: pip install 'penstock-streams[obstore]'") from None
    try:
        return Bucket(text.rstrip("/"))
    except (obstore.exceptions.BaseError, ValueError):
        raise ConfigError(
            f"{what} {shown} is no URL that obstore can open; write it like s3://bucket/app, gs://bucket/app, "
            "az://container/app or file:///folder"
        ) from None
