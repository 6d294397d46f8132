"""Named crash points, where tests kill this process, as ``kill -9`` does, stop it, like a machine that sleeps, or fill
its disk.

``PENSTOCK_CRASH_AT=after-manifest:3`` kills the process when it reaches the point for the third time.
``after-manifest:3:FILE`` kills only the first such process of all that share the file. Several points are separated by
commas. ``PENSTOCK_STOP_AT`` stops the process there until it gets ``SIGCONT``. After ``PENSTOCK_FULL_AT`` this process
can write no file of Penstock. Without the variables a point costs three dictionary look-ups.
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
"""Points of every commit, in order."""

CYCLE_POINTS = ("before-lap", "after-lap")
"""Points of commits with cycles: around a task's work between two waits for the others."""

BESIDE_POINTS = ("awaits-publish",)
"""Points of commits whose publishing runs beside the next commit: where that one waits for it."""

AT_LEAST_ONCE_POINTS = ("before-offsets",)
"""Points of commits with ``processing_guarantee="at_least_once"``: between the two manifests."""

STORE_POINTS = ("before-store-commit", "after-store-commit")
"""Points of local commits and restores with users' own stores."""

SLOT_POINTS = ("after-order", "before-answer", "after-answer")
"""Points of an order from the driver to a slot, and of its answer."""

START_POINTS = ("before-take-over", "after-take-over", "after-sweep")
"""Points of a start, in order."""

EVOLUTION_POINTS = ("during-evolution",)
"""Points of a start with a changed topology that writes state again: after each task."""

RESET_POINTS = ("before-reset", "after-reset")
"""Points of a reset: around its manifest, after which outputs are emptied."""

PUT_ASIDE_POINTS = ("before-put-aside", "after-put-aside")
"""Points of dropping or dead-lettering records that a broker refuses: around the new manifest."""

RESCALE_POINTS = ("during-rescale", "before-rescale")
"""Points of a rescale: before each task's rows are stored, and before the manifest that makes all of them count."""

listener: Callable[[str], None] | None = None
"""Tests inside this process set a function here, which is called at every point."""

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
"""Points of the file log's upkeep, which runs beside the commits."""

KAFKA_POINTS = ("before-transaction", "in-transaction", "after-transaction")
"""Points of publishing to Kafka: all records are sent in a transaction that ends between the last two."""

CHILD_POINTS = ("before-rows", "after-rows", "before-table", "after-table")
"""Those of the queries of Spark that belong to a program: around the append of a DataFrame's micro-batch, and around
what puts a micro-batch into a table."""

SINK_POINTS = ("before-sink", "in-sink", "after-sink", "after-sink-note")
"""Those of a batch on its way into a sink: before it, within the sink's transaction, behind that, and behind the note
of it in the checkpoint. Parquet files come to the second one twice: behind the plan, and behind the files."""

SOURCE_POINTS = ("before-source-append", "after-source-append", "after-source-note")
"""Those of a batch that a source brings in: around its append, and behind the note of it in the checkpoint."""

ALL_POINTS = frozenset(
    POINTS
    + CYCLE_POINTS
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
    + CHILD_POINTS
    + SINK_POINTS
    + SOURCE_POINTS
)

_KILL, _STOP, _FILL = "PENSTOCK_CRASH_AT", "PENSTOCK_STOP_AT", "PENSTOCK_FULL_AT"

_seen: dict[str, int] = {}

_is_full = False


def check_disk() -> None:
    """Raise a full disk's error, if the disk is set to be full; called before every write."""
    if _is_full:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def crash_point(name: str) -> None:
    """Kill or stop this process here, or fill its disk, if the environment says so.

    Raises:
        ValueError: the point is not in ``ALL_POINTS``, so no test would reach it.
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
