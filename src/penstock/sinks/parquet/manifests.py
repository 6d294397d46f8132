"""Plans and manifests of a partition: the batch that comes next, and the batches that count.

Both are small files of JSON, named by the number before their batch, and each is created at most once. A plan fixes
where a batch ends before its files are written. So every try to write the batch, by any process, writes the same rows
into the same files. The manifest makes the batch count.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec

from penstock.errors import CorruptDataError
from penstock.sinks.protocol import SinkPartition
from penstock.storage.base import Storage, number_in
from penstock.values.decoding import from_json

FOLDER = "_penstock"
"""The folder of manifests and plans, which readers of a folder of Parquet files pass over."""

_MANIFEST, _PLAN = ".json", ".plan"


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


class Manifests:
    """The plans and manifests of one partition."""

    def __init__(self, storage: Storage, partition: SinkPartition):
        self._storage = storage
        self._folder = f"{FOLDER}/{partition.id}"

    def found(self) -> tuple[Manifest | None, Plan | None]:
        """Return the newest manifest, and the plan of the batch behind it; finish what is left of older ones."""
        names = self._storage.list(self._folder)
        manifests = [name for name in names if name.endswith(_MANIFEST) and number_in(name) is not None]
        last = self._read(manifests[-1], Manifest) if manifests else None
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
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        return self._storage.create(self._name(manifest.before, _MANIFEST), data)

    def plan_behind(self, number: int) -> Plan | None:
        """Return the plan of the batch behind a number, if it has one."""
        with suppress(FileNotFoundError):
            return self._read(self._name(number, _PLAN), Plan)
        return None

    def manifest_behind(self, number: int) -> Manifest | None:
        """Return the manifest of the batch behind a number, if the batch counts."""
        with suppress(FileNotFoundError):
            return self._read(self._name(number, _MANIFEST), Manifest)
        return None

    def settle(self, before: int) -> None:
        """Remove the plan of a batch that counts, and files of earlier tries that have other names."""
        plan, manifest = self.plan_behind(before), self.manifest_behind(before)
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
