"""Ownership of state files: each file names its owner, which is compared with the task that opens it.

A database, a snapshot or a folder of users' stores in the wrong place, by mistake or after a bad restore, looks intact.
So each carries its full identity: the checkpoint, the task (sub-topology and partition) and, if it is at a commit, the
attempt that made this commit. A checkpoint restored from a backup makes commits with the same numbers again, but by
other attempts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import CorruptDataError
from penstock.files.plain_files import read_plain, remove_tree
from penstock.storage.base import replace_file, seal, unseal

_log = logging.getLogger(__name__)

AttemptAt = Callable[[int], str | None]
"""Returns the attempt with which the task reached a commit: empty if the task took no part, None if unknown."""

NAME = ".penstock"
"""The file in a folder of users' stores that names its owner."""


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """The owner of a file. In files of releases before 0076, parts of it or all are missing."""

    application: str = ""
    """The identity of the checkpoint."""
    task: str = ""
    attempt: str = ""
    """The attempt that made its commit; empty if no attempt did, as after a rescale."""


def meta_of(owner: Owner, commit: int, numbers: dict[str, dict[str, int]]) -> dict[str, Any]:
    """The meta data of a task's database at a commit: its owner, and the commit's numbers."""
    return {**msgspec.structs.asdict(owner), "commit": commit, "numbers": numbers}


def owner_in(meta: dict[str, Any]) -> Owner:
    """The owner in a database's meta data."""
    return Owner(meta.get("application", ""), meta.get("task", ""), meta.get("attempt", ""))


def stranger(found: Owner, wanted: Owner, commit: int) -> str:
    """Why a file does not belong to the wanted owner, by what it says of its owner; empty if it may.

    >>> stranger(Owner("c0ffee", "0_1"), Owner("c0ffee", "0_0"), 7)
    'is that of task 0_1 and not of task 0_0'
    """
    if found.application and wanted.application and found.application != wanted.application:
        return f"belongs to another checkpoint ({found.application}, and this one is {wanted.application})"
    if found.task and found.task != wanted.task:
        return f"is that of task {found.task} and not of task {wanted.task}"
    if found.attempt and wanted.attempt and found.attempt != wanted.attempt:
        return f"is at a commit {commit} that is not the one of this checkpoint, which was brought back since"
    return ""


def wanted(attempt: str | None) -> str:
    """The ``Owner.attempt`` to expect for an answer of ``AttemptAt``."""
    return "none" if attempt == "" else attempt or ""


def nobody_knows(commit: int) -> None:
    """An ``AttemptAt`` for places without manifests: the attempt is unknown."""


def believed(folder: Path, found: Owner, own: Owner, commit: int) -> tuple[bool, bool]:
    """Check whether a database is the owner's, and whether the files of users' stores beside it may be; log what is
    not."""
    reason = stranger(found, own, commit)
    if reason:
        _log.warning(
            "the state database %s %s; it is a copy, and rebuilt from the checkpoint. Nothing is lost", folder, reason
        )
    elif not found.task:
        _log.info("the state database %s does not say whose it is: it is rebuilt, once", folder)
    return not reason and bool(found.task), not reason or found.task not in ("", own.task)


def take_folder(folder: Path, own: Owner) -> None:
    """Make users' stores begin empty if their folder belongs to another owner: the copy has their rows."""
    found = _owner_of(folder)
    if found == own:
        return
    if found is not None:
        _log.warning(
            "the folder %s of users' stores %s; they are rebuilt from the checkpoint. Nothing is lost",
            *(folder, stranger(found, own, -1) or "does not say whose it is"),
        )
        remove_tree(folder)
    replace_file(folder / NAME, seal(own))


def _owner_of(folder: Path) -> Owner | None:
    """The owner of a folder of users' stores; None if it does not say."""
    path = folder / NAME
    try:
        return unseal(read_plain(path), Owner, str(path))
    except FileNotFoundError:
        return None
    except CorruptDataError:
        return Owner()  # unreadable, so it has no owner
