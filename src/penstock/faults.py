"""Named points at which a test can have this process killed, as ``kill -9`` would.

``PENSTOCK_CRASH_AT=after-manifest:3`` kills the process when it comes to the point for the third time. Without the
variable a point costs one look into a dictionary.
"""

from __future__ import annotations

import os
import signal

_seen: dict[str, int] = {}


def crash_point(name: str) -> None:
    """Kill this process here if it was told to."""
    wanted = os.environ.get("PENSTOCK_CRASH_AT")
    if wanted is None:
        return
    point, _, count = wanted.partition(":")
    if point == name:
        _seen[name] = _seen.get(name, 0) + 1
        if _seen[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
