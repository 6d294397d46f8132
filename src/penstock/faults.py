"""Named points at which a test can have this process killed, as by ``kill -9``, stopped, as a machine that sleeps, or
its disk full.

``PENSTOCK_CRASH_AT=after-manifest:3`` kills the process when it comes to the point for the third time;
``after-manifest:3:FILE`` only the first process to do so, of all that see the file; several, with commas between them,
at each of these points. ``PENSTOCK_STOP_AT`` stops it there until somebody sends it ``SIGCONT``. From
``PENSTOCK_FULL_AT`` on nothing of Penstock's can be written any more by this process. Without the variables a point
costs three looks into a dictionary.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable

POINTS = (
    "before-delta",
    "after-delta",
    "before-manifest",
    "after-manifest",
    "before-publish",
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
"""Those of every commit, in the order in which it comes to them."""

CIRCLE_POINTS = ("before-lap", "after-lap")
"""Those of a commit that only sub-topologies have which send to each other in a circle: around what a task does between
two times at which it waits for the others."""

BESIDE_POINTS = ("awaits-publish",)
"""Those of a commit that only a loop has, which publishes beside the next commit: where that waits for it."""

AT_LEAST_ONCE_POINTS = ("before-offsets",)
"""Those of a commit that only ``processing_guarantee="at_least_once"`` has: between its two manifests."""

STORE_POINTS = ("before-store-commit", "after-store-commit")
"""Those of a local commit, and of a restore, that only stores that users bring have."""

SLOT_POINTS = ("after-order", "before-answer", "after-answer")
"""Those of an order that goes from the driver to a slot, and its answer."""

START_POINTS = ("before-take-over", "after-take-over", "after-sweep")
"""Those of a start, in its order."""

EVOLUTION_POINTS = ("during-evolution",)
"""Those of a start whose topology has changed so that state has to be written anew: after each task."""

RESET_POINTS = ("before-reset", "after-reset")
"""Those of a reset: around the manifest that it is, behind which outputs are emptied."""

PUT_ASIDE_POINTS = ("before-put-aside", "after-put-aside")
"""Those of putting records aside that a broker refuses: around the manifest that it is."""

RESCALE_POINTS = ("during-rescale", "before-rescale")
"""Those of a rescale: before each task's rows are kept, and before the manifest that makes all of them count."""

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

KAFKA_POINTS = ("before-transaction", "in-transaction", "after-transaction")
"""Those of publishing to Kafka: all records are sent in a transaction that ends between the last two."""

ALL_POINTS = frozenset(
    POINTS
    + CIRCLE_POINTS
    + BESIDE_POINTS
    + AT_LEAST_ONCE_POINTS
    + STORE_POINTS
    + SLOT_POINTS
    + START_POINTS
    + EVOLUTION_POINTS
    + RESET_POINTS
    + PUT_ASIDE_POINTS
    + RESCALE_POINTS
    + LOG_POINTS
    + KAFKA_POINTS
)

_KILL, _STOP, _FILL = "PENSTOCK_CRASH_AT", "PENSTOCK_STOP_AT", "PENSTOCK_FULL_AT"

_seen: dict[str, int] = {}

_is_full = False


def check_disk() -> None:
    """Raise what a full disk raises, if it is one by now; called wherever something is about to be written."""
    if _is_full:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def crash_point(name: str) -> None:
    """Kill or stop this process here, or fill its disk, if it was told to.

    Raises:
        ValueError: the point is none of ``ALL_POINTS``, so no test would come to it.
    """
    if name not in ALL_POINTS:
        raise ValueError(f"there is no crash point {name!r}; add it to faults.py, where tests find it")
    if listener is not None:
        listener(name)
    told = {variable: wanted for variable in (_KILL, _STOP, _FILL) if (wanted := os.environ.get(variable)) is not None}
    if told:
        _seen[name] = _seen.get(name, 0) + 1
    for variable, wanted in told.items():
        if any(_is_meant(one, name) for one in wanted.split(",")):
            _do(variable)


def _do(variable: str) -> None:
    global _is_full
    if variable == _FILL:
        _is_full = True
    else:
        os.kill(os.getpid(), signal.SIGKILL if variable == _KILL else signal.SIGSTOP)


def _is_meant(wanted: str, name: str) -> bool:
    point, _, rest = wanted.partition(":")
    count, _, file = rest.partition(":")
    return point == name and _seen[name] == int(count or 1) and _is_first(file)


def _is_first(file: str) -> bool:
    if file:
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
    return True
