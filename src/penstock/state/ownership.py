"""Whose the files of a task's state are: each says so itself, and is held against the task that opens it.

A database, a snapshot or a folder of users' stores that is in the wrong place, by a slip or by a bad restore, looks
whole. So each carries its whole identity: the checkpoint, the task (sub-topology and partition) and, where it is at a
commit, the attempt that made this commit. A checkpoint that was brought back from a back-up makes commits of the same
numbers again, by other attempts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import CorruptDataError
from penstock.plain_files import read_plain
from penstock.storage import replace_file, seal, unseal

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


def owner_of_folder(folder: Path) -> Owner | None:
    """Whose a folder of users' stores is; None when it does not say so."""
    path = folder / NAME
    try:
        return unseal(read_plain(path), Owner, str(path))
    except FileNotFoundError:
        return None
    except CorruptDataError:
        return Owner("?", "?")  # whose it is cannot be told, so it is nobody's


def mark_folder(folder: Path, owner: Owner) -> None:
    """Write down whose a folder of users' stores is."""
    replace_file(folder / NAME, seal(owner))
