"""Whose the files of a task's state are: each says so itself, and is held against the task that opens it.

A database, a snapshot or a folder of users' stores that is in the wrong place, by a slip or by a bad restore, looks
whole. So each carries its whole identity: the checkpoint, the task (sub-topology and partition) and, where it is at a
commit, the attempt that made this commit. A checkpoint that was brought back from a back-up makes commits of the same
numbers again, by other attempts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import CorruptDataError
from penstock.plain_files import read_plain, remove_tree
from penstock.storage import replace_file, seal, unseal

_log = logging.getLogger(__name__)

AttemptAt = Callable[[int], str | None]
"""Gives the attempt with which the task came to a commit: empty when it took no part in it, None when nobody knows."""

NAME = ".penstock"
"""The file in a folder of users' stores that says whose they are."""


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose a file is. Files of releases before 0076 lack a part of it or all."""

    application: str = ""
    """The identity of the checkpoint."""
    task: str = ""
    attempt: str = ""
    """The attempt that made the commit at which it is; empty where no attempt did, as behind a rescale."""


def meta_of(owner: Owner, commit: int, numbers: dict[str, dict[str, int]]) -> dict[str, Any]:
    """The meta data of a task's database at a commit: whose it is, and what belongs to the commit besides rows."""
    return {**msgspec.structs.asdict(owner), "commit": commit, "numbers": numbers}


def owner_in(meta: dict[str, Any]) -> Owner:
    """What a database's meta data say."""
    return Owner(meta.get("application", ""), meta.get("task", ""), meta.get("attempt", ""))


def stranger(found: Owner, wanted: Owner, commit: int) -> str:
    """Why a file is not the wanted owner's, as far as it says whose it is; empty when it may be.

    >>> stranger(Owner("c0ffee", "0_1"), Owner("c0ffee", "0_0"), 7)
    'is that of task 0_1 and not of task 0_0'
    """
    if found.application and wanted.application and found.application != wanted.application:
        return f"is that of another checkpoint ({found.application}, and this one is {wanted.application})"
    if found.task and found.task != wanted.task:
        return f"is that of task {found.task} and not of task {wanted.task}"
    if found.attempt and wanted.attempt and found.attempt != wanted.attempt:
        return f"is at a commit {commit} that is not the one of this checkpoint, which was brought back since"
    return ""


def wanted(attempt: str | None) -> str:
    """What ``Owner.attempt`` has to be for an answer of ``AttemptAt``."""
    return "none" if attempt == "" else attempt or ""


def nobody_knows(commit: int) -> None:
    """The attempt that made a commit, where there are no manifests to ask."""


def believed(folder: Path, found: Owner, own: Owner, commit: int) -> tuple[bool, bool]:
    """Whether a database is the owner's, and whether the files of users' stores beside it may be; says what is not."""
    reason = stranger(found, own, commit)
    if reason:
        _log.warning(
            "the state database %s %s; it is a copy, and made anew from the checkpoint. Nothing is lost", folder, reason
        )
    elif not found.task:
        _log.info("the state database %s does not say whose it is: it is made anew, once", folder)
    return not reason and bool(found.task), not reason or found.task not in ("", own.task)


def take_folder(folder: Path, own: Owner) -> None:
    """Have users' stores begin empty where what is in their folder is somebody else's: the copy has their rows."""
    found = _owner_of(folder)
    if found == own:
        return
    if found is not None:
        _log.warning(
            "the folder %s of users' stores %s; they are made anew from the checkpoint. Nothing is lost",
            *(folder, stranger(found, own, -1) or "does not say whose it is"),
        )
        remove_tree(folder)
    replace_file(folder / NAME, seal(own))


def _owner_of(folder: Path) -> Owner | None:
    """Whose a folder of users' stores is; None when it does not say so."""
    path = folder / NAME
    try:
        return unseal(read_plain(path), Owner, str(path))
    except FileNotFoundError:
        return None
    except CorruptDataError:
        return Owner()  # whose it is cannot be told, so it is nobody's
