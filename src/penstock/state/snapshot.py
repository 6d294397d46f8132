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
from penstock.untrusted import file_name


class Snapshot(msgspec.Struct, frozen=True):
    """The files of one snapshot, by their names in the database's folder."""

    commit: int
    files: dict[str, FileRef]

    def __post_init__(self) -> None:
        for name in self.files:
            file_name(name)


def write_snapshot(database: Database, storage: Storage, task: str, commit: int, referred: int = -1) -> None:
    """Publish the database as it is on disk, which is at this commit.

    Args:
        referred: the snapshot that the newest manifest names, -1 for none. After a crash that is not always the
            newest one, and it stays until a manifest names another.
    """
    copy = database.path.with_name(f"{database.path.name}.snapshot")
    shutil.rmtree(copy, ignore_errors=True)
    database.checkpoint(copy)
    try:
        before = _newest(storage, task)
        files = {path.name: _upload(path, storage, task, before) for path in sorted(copy.iterdir())}
        crash_point("during-snapshot")
        storage.create(_index(task, commit), seal(Snapshot(commit, files)))
        named = before if referred in (-1, before.commit) else _read(storage, _index(task, referred))
        _forget_all_but(storage, task, (Snapshot(commit, files), before, named))
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def read_snapshot(storage: Storage, task: str, commit: int, path: Path) -> None:
    """Make a database's folder from a snapshot, whole or not at all."""
    snapshot = _read(storage, _index(task, commit))
    restoring = path.with_name(f"{path.name}.restoring")
    shutil.rmtree(restoring, ignore_errors=True)
    try:
        for name, ref in snapshot.files.items():
            with durable_file(restoring / name) as file:
                file.write(storage.read_verified(ref))
        shutil.rmtree(path, ignore_errors=True)
        restoring.rename(path)
    finally:
        shutil.rmtree(restoring, ignore_errors=True)


def _read(storage: Storage, index: str) -> Snapshot:
    try:
        return unseal(storage.read(index), Snapshot, f"{storage.shown}/{index}")
    except FileNotFoundError:
        raise CorruptDataError(f"the snapshot {storage.shown}/{index} is missing; restore it from a backup") from None


def _newest(storage: Storage, task: str) -> Snapshot:
    indexes = [name for name in storage.list(_folder(task)) if name.endswith(".snapshot")]
    return _read(storage, indexes[-1]) if indexes else Snapshot(-1, {})


def _upload(path: Path, storage: Storage, task: str, before: Snapshot) -> FileRef:
    """Bring a file into the storage unless a finished snapshot has it: one that only lies there may be torn."""
    data = map_file(path)
    ref = FileRef(f"{_folder(task)}/{checksum(data):016x}-{len(data)}{path.suffix}", len(data), checksum(data))
    if ref not in before.files.values():
        with storage.write(ref.name) as file:
            file.write(data)
    return ref


def _forget_all_but(storage: Storage, task: str, snapshots: tuple[Snapshot, ...]) -> None:
    """Remove what none of these snapshots needs."""
    needed = {_index(task, snapshot.commit) for snapshot in snapshots}
    needed |= {ref.name for snapshot in snapshots for ref in snapshot.files.values()}
    for name in storage.list(_folder(task)):
        if name not in needed:
            storage.delete(name)


def _folder(task: str) -> str:
    return f"snapshots/{task}"


def _index(task: str, commit: int) -> str:
    return f"{_folder(task)}/{commit:016d}.snapshot"
