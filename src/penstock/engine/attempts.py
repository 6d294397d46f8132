"""How an attempt at a commit is named. All its files bear the name, so that a start knows which are left over.

A start removes what attempts left at commits up to its own empty one: whoever made them cannot commit any more. What
later commits wrote is not its business, even if it slept since it took over and somebody else has the application now.
"""

from __future__ import annotations

import os


def attempt_name(application: str, commit: int) -> str:
    """A new name for an attempt at a commit."""
    return f"{application}-{commit}-{os.urandom(4).hex()}"


def is_left_by(file: str, application: str, commit: int) -> bool:
    """Whether a file is of an attempt at that commit, or at one before it.

    >>> [is_left_by(f"app-{n}-5a0ba94f-1_0-0.arrow", "app", 7) for n in (6, 7, 8)]
    [True, True, False]
    >>> is_left_by("application-6-5a0ba94f-1_0-0.arrow", "app", 7)
    False
    """
    prefix = f"{application}-"
    number = file.removeprefix(prefix).partition("-")[0]
    return file.startswith(prefix) and number.isdecimal() and int(number) <= commit
