"""Named points at which a test can have this process killed, as ``kill -9`` would.

``PENSTOCK_CRASH_AT=after-manifest:3`` kills the process when it comes to the point for the third time;
``after-manifest:3:FILE`` only the first process to do so, of all that see the file. Without the variable a point costs
one look into a dictionary.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS = (
    "before-delta",
    "after-delta",
    "before-manifest",
    "after-manifest",
    "during-publish",
    "after-publish",
    "after-forget",
    "before-local-commit",
    "after-local-commit",
    "before-flush",
    "after-flush",
    "during-snapshot",
    "after-snapshot",
)
"""All of a commit, in the order in which it comes to them."""

START_POINTS = ("before-take-over", "after-take-over", "after-sweep")
"""Those of a start, in its order."""

listener: Callable[[str], None] | None = None
"""What tests inside this process have called at every point."""

LOG_POINTS = (
    "before-merge-file",
    "after-merge-file",
    "after-merge",
    "after-seal-node",
    "after-seal",
    "after-fold-node",
    "after-fold",
    "after-trim",
    "after-state",
    "before-entry-goes",
)
"""Those of the file log while it keeps topics small, which it does beside the commits."""

_seen: dict[str, int] = {}


def crash_point(name: str) -> None:
    """Kill this process here if it was told to."""
    if listener is not None:
        listener(name)
    wanted = os.environ.get("PENSTOCK_CRASH_AT")
    if wanted is None:
        return
    point, _, rest = wanted.partition(":")
    count, _, file = rest.partition(":")
    if point == name:
        _seen[name] = _seen.get(name, 0) + 1
        if _seen[name] == int(count or 1) and _is_first(file):
            os.kill(os.getpid(), signal.SIGKILL)


def _is_first(file: str) -> bool:
    if file:
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
    return True
