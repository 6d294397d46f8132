"""Snapshots: a task's database as files in the checkpoint storage, for machines that have no copy of it.

Table files never change once written, so a snapshot only uploads those that no earlier one has; they are named by
their checksum.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from penstock.errors import CorruptDataError
from penstock.faults import crash_point
from penstock.state.database import Database
from penstock.storage import FileRef, Storage, checksum, durable_file, map_file, seal, unseal


class Snapshot(msgspec.Struct, frozen=True):
    """The files of one snapshot, by their names in the database's folder."""

    commit: int
    files: dict[str, FileRef]


def write_snapshot(database: Database, storage: Storage, task: str, commit: int) -> None:
    """Publish the database as it is on disk, which is at this commit."""
    copy = database.path.with_name(f"{database.path.name}.snapshot")
    shutil.rmtree(copy, ignore_errors=True)
    database.checkpoint(copy)
    try:
        there = set(storage.list(_folder(task)))
        files = {path.name: _upload(path, storage, task, there) for path in sorted(copy.iterdir())}
        crash_point("during-snapshot")
        snapshot = Snapshot(commit, files)
        storage.create(_index(task, commit), seal(snapshot))
        _forget_older(storage, task, snapshot, there)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def read_snapshot(storage: Storage, task: str, commit: int, path: Path) -> None:
    """Make a database's folder from a snapshot."""
    name = _index(task, commit)
    try:
        snapshot = unseal(storage.read(name), Snapshot, f"{storage.url}/{name}")
    except FileNotFoundError:
        raise CorruptDataError(f"the snapshot {storage.url}/{name} is missing; restore it from a backup") from None
    shutil.rmtree(path, ignore_errors=True)
    for name, ref in snapshot.files.items():
        with durable_file(path / name) as file:
            file.write(storage.read_verified(ref))


def _upload(path: Path, storage: Storage, task: str, there: set[str]) -> FileRef:
    data = map_file(path)
    ref = FileRef(f"{_folder(task)}/{checksum(data):016x}-{len(data)}{path.suffix}", len(data), checksum(data))
    if ref.name not in there:
        with storage.write(ref.name) as file:
            file.write(data)
    return ref


def _forget_older(storage: Storage, task: str, newest: Snapshot, there: set[str]) -> None:
    """Remove what neither this snapshot nor the one before it needs."""
    indexes = sorted(name for name in there if name.endswith(".snapshot"))
    needed = {ref.name for ref in newest.files.values()} | {_index(task, newest.commit)}
    for name in indexes[-1:]:
        before = unseal(storage.read(name), Snapshot, name)
        needed |= {ref.name for ref in before.files.values()} | {name}
    for name in there - needed:
        storage.delete(name)


def _folder(task: str) -> str:
    return f"snapshots/{task}"


def _index(task: str, commit: int) -> str:
    return f"{_folder(task)}/{commit:016d}.snapshot"
