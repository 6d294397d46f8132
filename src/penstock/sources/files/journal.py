"""Which files appeared, in which order: lists in the checkpoint, each made once, so that every start reads the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from penstock.errors import SourceError
from penstock.sources.files.places import Listed, Place
from penstock.storage.base import Storage, inside, number_in, seal, unseal

T = TypeVar("T")

_MOST_FILES = 5_000
"""How many files a list has at most."""
_MOST_LISTS = 64
"""How many lists that are read are put together."""


class _List(msgspec.Struct, frozen=True):
    files: list[Listed]


class _Seen(msgspec.Struct, frozen=True):
    names: list[str]


class Journal:
    """The files of a source, as lists with the numbers 1, 2, 3.

    A name is listed once. Two programs that look at once have the same lists, as a list is created only if it does not
    exist.

    Args:
        storage: that of the checkpoint.
        folder: where in it.
    """

    def __init__(self, storage: Storage, folder: str):
        self._storage = storage
        self._folder = f"{folder}/lists"
        self._sums = f"{folder}/sums"
        self._lists: dict[int, list[Listed]] = {}
        self._seen: set[str] = set()
        self._summed = 0
        """The number of the last list that is only known by the names in it."""
        self._read()

    def _read(self) -> None:
        sums = _numbers(self._storage.list(self._sums))
        if sums:
            self._summed = max(sums)
            self._seen.update(self._load(self._sum(self._summed), _Seen).names)
        for number in sorted(_numbers(self._storage.list(self._folder))):
            if number > self._summed:
                self._add(number, self._load(self._list(number), _List).files)
            else:  # what a killed process left
                self._storage.delete(self._list(number))

    def _add(self, number: int, files: list[Listed]) -> None:
        for one in files:
            inside(one.name)  # others may have written the list
        self._lists[number] = files
        self._seen.update(one.name for one in files)

    def _load(self, name: str, kind: type[T]) -> T:
        return unseal(self._storage.read(name), kind, f"{self._storage.shown}/{name}")

    def files(self, number: int) -> list[Listed]:
        """Return the files of a list that was read in part."""
        if number not in self._lists:
            raise SourceError(
                f"list {number:,} of the source's files is not in the checkpoint, and the log has records of it: the "
                "checkpoint is another one, or was restored from an older copy. Restore it, or start the program "
                "under another application id to read all files again"
            )
        return self._lists[number]

    def find(self, number: int, place: Place, is_meant: Callable[[Listed], bool]) -> list[Listed] | None:
        """Return the files of a list, which is made of what has appeared, if it does not exist; None if nothing has."""
        if number in self._lists:
            return self._lists[number]
        new = [one for one in place.files() if one.name not in self._seen and is_meant(one)]
        if not new:
            return None
        new.sort(key=lambda one: (one.at, one.name))
        name = self._list(number)
        if self._storage.create(name, seal(_List(new[:_MOST_FILES]))):
            self._add(number, new[:_MOST_FILES])
        else:  # another program was faster
            self._add(number, self._load(name, _List).files)
        return self._lists[number]

    def forget(self, before: int) -> None:
        """Keep only the names of the files in lists before this one, if there are many."""
        done = [number for number in self._lists if number < before]
        if len(done) < _MOST_LISTS:
            return
        last = max(done)
        names = self._seen - {one.name for number, files in self._lists.items() if number > last for one in files}
        self._storage.create(self._sum(last), seal(_Seen(sorted(names))))
        for number in done:
            self._storage.delete(self._list(number))
            del self._lists[number]
        if self._summed:
            self._storage.delete(self._sum(self._summed))
        self._summed = last

    def _list(self, number: int) -> str:
        return f"{self._folder}/{number:016d}.json"

    def _sum(self, number: int) -> str:
        return f"{self._sums}/{number:016d}.json"


def _numbers(names: Iterable[str]) -> list[int]:
    return [number for name in names if (number := number_in(name)) is not None]
