"""Plans and manifests of a partition: the batch that comes next, and the batches that count.

Both are small files of JSON, named by the number before their batch, and each is created at most once. A plan fixes
where a batch ends before its files are written. So every try to write the batch, by any process, writes the same rows
into the same files. The manifest makes the batch count. Many manifests become one, whose name also has the number
behind its last batch, and many such ones become one of the next level. So there are some hundred manifests for each
level, and a level has a hundred times as many batches as the one below.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec

from penstock.errors import CorruptDataError
from penstock.faults import crash_point
from penstock.sinks.protocol import SinkPartition
from penstock.storage.base import Storage, number_in
from penstock.values.decoding import from_json

FOLDER = "_penstock"
"""The folder of manifests and plans, which readers of a folder of Parquet files pass over."""

_MANIFEST, _PLAN = ".json", ".plan"

MANY = 100
"""How many manifests of one level become one of the next."""

_MERGED = re.compile(r"(\d{16})-(\d{16})(?:-(\d+))?\.json", re.ASCII)


class ParquetFile(msgspec.Struct, frozen=True):
    """A file that counts: where it is in the folder, its rows and its size."""

    path: str
    rows: int
    bytes: int


class Plan(msgspec.Struct, frozen=True):
    """A batch to write: some of its files may be there already."""

    topic: str
    before: int
    number: int
    paths: list[str]


class Manifest(msgspec.Struct, frozen=True):
    """A batch that counts.

    Attributes:
        topic: the id of the topic that the numbers are offsets of.
        before: the number before the batch.
        number: the number behind it.
    """

    topic: str
    before: int
    number: int
    files: list[ParquetFile]

    @property
    def paths(self) -> set[str]:
        return {file.path for file in self.files}


Note = TypeVar("Note", Plan, Manifest)


class _Span(NamedTuple):
    """A manifest in a listing: the batches behind ``before``, up to ``end`` as far as the name tells.

    Attributes:
        level: how often its batches were merged.
    """

    before: int
    end: int
    name: str
    level: int

    def is_within(self, others: list[_Span]) -> bool:
        """Return whether one of higher level has its batches."""
        return any(one.level > self.level and one.before <= self.before and self.end <= one.end for one in others)


def _spans(names: list[str]) -> list[_Span]:
    """Return the manifests of a listing, oldest first."""
    found = []
    for name in names:
        before = number_in(name) if name.endswith(_MANIFEST) else None
        if before is not None:
            merged = _MERGED.fullmatch(name.rpartition("/")[2])
            end, level = (before + 1, 0) if merged is None else (int(merged[2]), int(merged[3] or 1))
            found.append(_Span(before, end, name, level))
    return sorted(found)


def _encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


class Manifests:
    """The plans and manifests of one partition."""

    def __init__(self, storage: Storage, partition: SinkPartition):
        self._storage = storage
        self._folder = f"{FOLDER}/{partition.id}"

    def found(self) -> tuple[Manifest | None, Plan | None]:
        """Return the newest manifest, and the plan of the batch behind it; finish what is left of older ones."""
        names = self._storage.list(self._folder)
        spans = _spans(names)
        last = self._read(max(spans, key=lambda one: (one.end, one.before)).name, Manifest) if spans else None
        number = 0 if last is None else last.number
        plan = None
        for name in names:
            before = number_in(name) if name.endswith(_PLAN) else None
            if before == number:
                plan = self.plan_behind(number)
            elif before is not None and before < number:
                self.settle(before)
        return last, plan

    def begin(self, plan: Plan) -> bool:
        """Create the plan, unless there is one for this batch. Return whether this call created it."""
        return self._storage.create(self._name(plan.before, _PLAN), msgspec.json.encode(plan))

    def commit(self, manifest: Manifest) -> bool:
        """Create the manifest, unless the batch counts already. Return whether this call created it."""
        return self._storage.create(self._name(manifest.before, _MANIFEST), _encoded(manifest))

    def plan_behind(self, number: int) -> Plan | None:
        """Return the plan of the batch behind a number, if it has one."""
        with suppress(FileNotFoundError):
            return self._read(self._name(number, _PLAN), Plan)
        return None

    def has_passed(self, before: int) -> bool:
        """Return whether the batch behind a number counts already."""
        return any(one.end > before for one in _spans(self._storage.list(self._folder)))

    def _manifest_of(self, before: int) -> Manifest | None:
        """Return the manifest with the batch behind a number, if the batch counts."""
        for one in _spans(self._storage.list(self._folder)):
            if one.before <= before < one.end:
                return self._read(one.name, Manifest)
        return None

    def merge(self) -> None:
        """Make one of the oldest manifests of a level if it has many; remove those of which an earlier call made one.

        Both are in the folder for the time of a batch at least, so that a reader of the folder misses no file.
        """
        spans = _spans(self._storage.list(self._folder))
        levels: dict[int, list[_Span]] = {}
        for one in spans:
            if one.is_within(spans):
                self._storage.delete(one.name)
            else:
                levels.setdefault(one.level, []).append(one)
        for level, some in levels.items():
            if len(some) > MANY:
                self._merge([self._read(one.name, Manifest) for one in some[:MANY]], level + 1)

    def _merge(self, some: list[Manifest], level: int) -> None:
        first, last = some[0], some[-1]
        files = [file for one in some for file in one.files]
        ending = _MANIFEST if level == 1 else f"-{level}{_MANIFEST}"
        name = f"{self._folder}/{first.before:016d}-{last.number:016d}{ending}"
        crash_point("in-sink")
        self._storage.create(name, _encoded(Manifest(last.topic, first.before, last.number, files)))

    def settle(self, before: int, manifest: Manifest | None = None) -> None:
        """Remove the plan of a batch that counts, and files of earlier tries that have other names.

        Args:
            manifest: the one with the batch, if it is at hand.
        """
        plan, manifest = self.plan_behind(before), manifest or self._manifest_of(before)
        if plan is not None and manifest is not None:
            for path in sorted(set(plan.paths) - manifest.paths):
                self._storage.delete(path)
            self._storage.delete(self._name(before, _PLAN))

    def plan_name(self, before: int) -> str:
        """The place of the plan of a batch, for messages."""
        return f"{self._storage.shown}/{self._name(before, _PLAN)}"

    def _name(self, before: int, ending: str) -> str:
        return f"{self._folder}/{before:016d}{ending}"

    def _read(self, name: str, type_: type[Note]) -> Note:
        data = self._storage.read(name)
        try:
            return from_json(data, type_)
        except msgspec.DecodeError as error:
            raise CorruptDataError(
                f"{self._storage.shown}/{name} is damaged: {error}; restore it from a backup"
            ) from None
