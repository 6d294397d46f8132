"""Snapshots: a task's database as files in the checkpoint storage, for machines that have no copy of it.

Table files never change once written, so a snapshot only uploads files that no earlier snapshot has. The newest two
snapshots named by manifests are kept, in case one turns out to be damaged.

A program that was taken over may still write a snapshot of a commit that it made. It removes nothing that the new
program may need: neither snapshots since the one that its own newest manifest names, nor files uploaded since then.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from penstock.errors import CorruptDataError, PenstockError
from penstock.faults import crash_point
from penstock.files.plain_files import remove_tree
from penstock.files.untrusted import file_name
from penstock.state.database import Database
from penstock.state.inventory import DamagedStateError, write_inventory
from penstock.state.ownership import Owner, stranger
from penstock.storage.base import FileRef, Storage, checksum, durable_file, exchanged, map_file, seal, unseal

_log = logging.getLogger(__name__)

_SUFFIX = ".snapshot"
BASES = "bases"
"""The folder of state carried over to changed topologies, see ``penstock.engine.evolution``."""
_NAME = re.compile(r"(\d{16})(-[0-9a-f]{8}-.*|\.snapshot)$")


class TaskBase(msgspec.Struct, frozen=True, array_like=True):
    """The initial state of a task since its topology changed: nothing from before that counts any longer."""

    commit: int
    """The commit with which the task began."""
    index: str = ""
    """The snapshot with the carried-over state; empty if there was none."""

    def __post_init__(self) -> None:
        if self.index and not self.index.startswith(f"{BASES}/"):  # it becomes part of paths
            raise ValueError(f"{self.index!r} is not a file of {BASES}")


class Snapshot(msgspec.Struct, frozen=True):
    """The files of one snapshot, by their names in the database's folder."""

    commit: int
    files: dict[str, FileRef]
    owner: Owner = Owner()

    def __post_init__(self) -> None:
        for name in self.files:
            file_name(name)


def upload_of(
    database: Database, storage: Storage, owner: Owner, commit: int, referred: int = -1
) -> Callable[[], None]:
    """Return a function that publishes the database as it is on disk now, at this commit; it may be called later, in
    another thread.

    Files do not change once written, so it is enough to copy their names, and the database can continue.

    Args:
        owner: the owner of the database.
        referred: the snapshot that the newest manifest names; -1 for none. It and all later ones stay until a manifest
            names a later one. Its files are reused; those of other snapshots may be damaged, the reason for going back
            to this one.
    """
    copy = database.path.with_name(f"{database.path.name}.snapshot")
    remove_tree(copy)
    try:
        found = database.checkpoint(copy)
    except BaseException:
        remove_tree(copy)
        raise
    return partial(_publish, copy, found, storage, owner, commit, referred)


def _publish(copy: Path, found: dict[str, FileRef], storage: Storage, owner: Owner, commit: int, referred: int) -> None:
    task = owner.task
    try:
        newer = [index for index in _indexes(storage, task) if _commit_of(index) >= referred]
        kept = [one for index in newer if (one := _legible(storage, index, owner, _commit_of(index) == referred))]
        before = (snapshot for snapshot in kept if snapshot.commit == referred)
        there = {(ref.size, ref.checksum): ref for snapshot in before for ref in snapshot.files.values()}
        prefix = f"{_folder(task)}/{commit:016d}-{os.urandom(4).hex()}"
        files = {name: _upload(copy / name, ref, storage, prefix, there) for name, ref in found.items()}
        crash_point("during-snapshot")
        storage.create(_index(task, commit), seal(Snapshot(commit, files, owner)))
        _forget_before(referred, storage, task, [*kept, Snapshot(commit, files)])
    finally:
        remove_tree(copy)


def write_base(database: Database, storage: Storage, folder: str, owner: Owner, commit: int) -> TaskBase:
    """Publish a database as a task's initial state, apart from all snapshots until a manifest names it.

    Args:
        folder: its unique name in ``bases``.
        owner: the task that will begin with it.
        commit: the commit that will name it.
    """
    copy = database.path.with_name(f"{database.path.name}.snapshot")
    remove_tree(copy)
    try:
        prefix = f"{BASES}/{folder}/{owner.task}"
        files = {
            name: _upload(copy / name, ref, storage, prefix, {}) for name, ref in database.checkpoint(copy).items()
        }
        storage.create(f"{prefix}{_SUFFIX}", seal(Snapshot(commit, files, owner)))
        return TaskBase(commit, f"{prefix}{_SUFFIX}")
    finally:
        remove_tree(copy)


def read_snapshot(storage: Storage, owner: Owner, commit: int, path: Path, base: TaskBase | None = None) -> None:
    """Create a database's folder from a snapshot, or from the task's initial state, completely or not at all.

    Raises:
        CorruptDataError: a file is missing, damaged, or another owner's.
    """
    if base is not None and commit == base.commit and not base.index:
        remove_tree(path)
        return
    is_base = base is not None and commit == base.commit
    snapshot = _read(storage, base.index if is_base and base is not None else _index(owner.task, commit), owner, commit)
    restoring = path.with_name(f"{path.name}.restoring")
    remove_tree(restoring)
    try:
        for name, ref in snapshot.files.items():
            with durable_file(restoring / name) as file:
                file.write(storage.read_verified(ref))
        write_inventory(restoring, snapshot.files)
        remove_tree(path)
        restoring.rename(path)
    finally:
        remove_tree(restoring)


def _read(storage: Storage, index: str, owner: Owner, commit: int) -> Snapshot:
    reason = "is missing"
    with suppress(FileNotFoundError):
        found = unseal(storage.read(index), Snapshot, f"{storage.shown}/{index}")
        reason = _stranger(found, index, owner, commit)
        if not reason:
            return found
    damage = f"the snapshot {storage.shown}/{index} {reason}; restore it from a backup"
    for other in storage.namesakes(index):
        if _is_owned(storage, other, index, owner, commit):
            raise CorruptDataError(exchanged(damage, storage.shown, index, other))
    raise CorruptDataError(damage)


def _is_owned(storage: Storage, name: str, index: str, owner: Owner, commit: int) -> bool:
    """True if the file ``name``, the place of another snapshot, has the snapshot that belongs at ``index``."""
    try:
        found = unseal(storage.read(name), Snapshot, name)
    except (OSError, PenstockError):
        return False
    return bool(found.owner.task) and not _stranger(found, index, owner, commit)


def _stranger(found: Snapshot, index: str, owner: Owner, commit: int) -> str:
    """Why a snapshot is not the one that its name says; empty if it is."""
    if found.commit != commit:
        return f"is that of commit {found.commit}"
    reason = stranger(found.owner, owner, commit)
    if reason:
        return reason
    own = f"{index.removesuffix(_SUFFIX)}-" if index.startswith(f"{BASES}/") else f"{_folder(owner.task)}/"
    others = (ref.name for ref in found.files.values() if not ref.name.startswith(own))
    return next((f"names the file {name}, which is not one of task {owner.task}" for name in others), "")


def _legible(storage: Storage, index: str, owner: Owner, is_referred: bool) -> Snapshot | None:
    """Read a snapshot whose files a later one may reuse; None if its index is damaged."""
    try:
        return _read(storage, index, Owner(owner.application, owner.task), _commit_of(index))
    except CorruptDataError as error:
        if is_referred:  # damage of others was reported when it was gone back from them
            _log.warning("%s. A new one is made of all files; nothing is lost", str(error).partition(";")[0])
        return None


def other_snapshots(storage: Storage, task: str, than: int, commit: int, base: TaskBase | None = None) -> list[int]:
    """The commits of all snapshots except one, up to a commit, the newest first; if the task began with a base, none
    from before it."""
    found = {_commit_of(index) for index in _indexes(storage, task)}
    first = 0
    if base is not None:
        found, first = found | {base.commit}, base.commit
    return sorted((one for one in found if first <= one <= commit and one != than), reverse=True)


def _indexes(storage: Storage, task: str) -> list[str]:
    return [name for name in storage.list(_folder(task)) if name.endswith(_SUFFIX)]


def _upload(
    path: Path, local: FileRef, storage: Storage, prefix: str, there: dict[tuple[int, int], FileRef]
) -> FileRef:
    """Upload a file, unless a finished snapshot has it; a file outside of finished snapshots may be torn."""
    content = local.size, local.checksum
    if content in there:
        return there[content]
    data = map_file(path)
    if checksum(data) != local.checksum:
        raise DamagedStateError(f"{path} is damaged: its checksum has changed since it was written")
    return storage.put(f"{prefix}-{path.name}", data)


def _forget_before(referred: int, storage: Storage, task: str, kept: list[Snapshot]) -> None:
    """Remove files that were uploaded for snapshots before ``referred`` and that no kept snapshot needs."""
    needed = {_index(task, snapshot.commit) for snapshot in kept}
    needed |= {ref.name for snapshot in kept for ref in snapshot.files.values()}
    for name in storage.list(_folder(task)):
        if name not in needed and _commit_of(name) < referred:
            storage.delete(name)


def _commit_of(name: str) -> int:
    """The commit for which a file was uploaded; -1 for files with names of earlier releases."""
    found = _NAME.match(name.split("/")[-1])
    return int(found[1]) if found else -1


def _folder(task: str) -> str:
    return f"snapshots/{task}"


def _index(task: str, commit: int) -> str:
    return f"{_folder(task)}/{commit:016d}{_SUFFIX}"
