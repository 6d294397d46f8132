"""Files that get their name when their content is whole, and that can be made ahead of time.

Nobody ever sees half of one, and of a process that is killed none is left (Linux's ``O_TMPFILE``). To make a file is
the longest part of writing a small one on some file systems (ext4 without a journal looks past all that were removed
within a minute), so a program that waits for others makes those meanwhile that it will need next.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from pathlib import Path

_MOST_FOLDERS = 16
"""In so many folders files are made ahead at most; with more, each is needed too seldom."""
_MOST_AHEAD = 4
_OF_THIS_PROCESS = "/proc/self/fd"
_UNNAMED = getattr(os, "O_TMPFILE", 0)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
"""What file systems say that have no such files."""


class Unnamed:
    """A file in a folder, without a name. It holds the folder, so it never gets into another one in its place."""

    def __init__(self, folder: str):
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.descriptor = os.open(".", _UNNAMED | os.O_RDWR, 0o666, dir_fd=self._folder)
        except BaseException:
            os.close(self._folder)
            raise

    @property
    def path(self) -> str:
        """How to open it for writing."""
        return f"{_OF_THIS_PROCESS}/{self.descriptor}"

    def is_in(self, folder: str) -> bool:
        """Whether the folder is still the one that it is in."""
        try:
            now, own = os.stat(folder), os.fstat(self._folder)
        except OSError:
            return False
        return (now.st_ino, now.st_dev) == (own.st_ino, own.st_dev)

    def name(self, name: str) -> None:
        """Give it its name; ``FileExistsError`` where that is taken, ``FileNotFoundError`` in a removed folder."""
        # with a folder for the source Python asks for the file behind the link that the path is, and not for the link
        os.link(self.path, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=True)

    def remove(self, name: str) -> None:
        """Remove the file of a name from the folder."""
        os.unlink(name, dir_fd=self._folder)

    def close(self) -> None:
        """Let go of it; without a name it is gone."""
        os.close(self.descriptor)
        os.close(self._folder)


class _Pool:
    """The files of this process that are made ahead, and those that are not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead: dict[str, list[Unnamed]] = {}
        self._used: Counter[str] = Counter()
        """How many were taken since files were last made ahead, by folder."""
        self._used_before: Counter[str] = Counter()
        self._works: dict[int, bool] = {}
        """Devices, and whether they have such files, and let them be named."""

    def take(self, folder: Path) -> Unnamed | None:
        place = os.fspath(folder)
        with self._lock:
            self._used[place] += 1
            made = self._ahead.get(place)
            ahead = made.pop() if made else None
        if ahead is not None:
            if ahead.is_in(place):
                return ahead
            ahead.close()
        return self._new(place)

    def make_ahead(self) -> None:
        with self._lock:
            used, before = self._used, self._used_before
            self._used, self._used_before = Counter(), used
            wanted = {folder: min(used[folder], _MOST_AHEAD) for folder in used.keys() & before.keys()}
            if len(wanted) > _MOST_FOLDERS:
                wanted = {}
            lacking = [f for f, count in wanted.items() for _ in range(count - len(self._ahead.get(f, ())))]
            gone = [one for folder in self._ahead.keys() - used.keys() for one in self._ahead.pop(folder)]
        for one in gone:
            one.close()
        for folder in lacking:
            new = self._new(folder)
            if new is not None:
                with self._lock:
                    self._ahead.setdefault(folder, []).append(new)

    def close(self) -> None:
        for made in self._ahead.values():
            for one in made:
                one.close()

    def _new(self, folder: str) -> Unnamed | None:
        try:
            device = os.stat(folder).st_dev
            if not self._works.get(device, True):
                return None
            if device not in self._works:
                self._works[device] = _can_be_named(Unnamed(folder))
            return Unnamed(folder) if self._works[device] else None
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                self._works[device] = False
            return None


def _can_be_named(file: Unnamed) -> bool:
    """Whether a file system lets unnamed files be named, and this process may look into its own files."""
    name = f".tmp-{os.urandom(8).hex()}"
    try:
        file.name(name)
        file.remove(name)
        return True
    except OSError:
        return False
    finally:
        file.close()


_pool = _Pool()


def take(folder: Path) -> Unnamed | None:
    """A file in a folder; None where there is no such folder, or such files are not to be had there.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> file = take(folder)
    >>> [path.name for path in folder.iterdir()]
    []
    """
    return _pool.take(folder) if _UNNAMED else None


def make_ahead() -> None:
    """Make the files that this process will need next, if it does as it did: for when it waits for others."""
    _pool.make_ahead()


def _begin_anew() -> None:
    """What was made ahead belongs to the process that this one is a copy of."""
    global _pool
    before, _pool = _pool, _Pool()
    before.close()


os.register_at_fork(after_in_child=_begin_anew)
