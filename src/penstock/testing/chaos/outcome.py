"""A program's output and the rows of its stores, to be compared with those of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.engine.commit.opening import open_application
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.query.committed import committed_store
from penstock.settings import Settings
from penstock.storage.base import LocalStorage, Storage

Outcome = dict[str, Any]
"""By partition of an output topic its records in order, by store its rows; also the offsets of the input, and all
metrics.
"""

FIGURES = ("offsets", "figures")
"""The entries of an outcome that are no records or rows."""


def checkpoint(folder: Path) -> LocalStorage:
    """Return the commits of a program in a folder, whatever its folder of databases is."""
    return LocalStorage(folder / "state" / "checkpoint")


def outcome(
    folder: Path, topology: Topology, application_id: str, settings: Settings, storage: Storage | None = None
) -> Outcome:
    """Return all output of a program, record for record, and the rows of its stores.

    Args:
        storage: where its commits are, if not in the folder.
    """
    log = FileLog(folder / "log")
    opened = open_application(topology, application_id, settings, log, storage or checkpoint(folder))
    found: Outcome = {}
    for topic in [*topology.sink_topics, *settings.dead_letters]:
        for partition, end in enumerate(log.end_offsets(topic)):
            found[f"{topic}[{partition}]"] = _records(log, topic, partition, end)
    for spec in (*topology.facts.stores.values(), *topology.facts.added.values()):
        with committed_store(opened, spec.name) as store:
            found[spec.name] = sorted(store.all(), key=str)
    found["offsets"] = opened.offsets(opened.manifest)
    found["figures"] = opened.manifest.metrics
    return found


def _records(log: FileLog, topic: str, partition: int, end: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for piece in log.read(topic, partition, 0, end):
        columns = [piece.key.to_pylist(), piece.value.to_pylist(), piece.timestamp.tolist()]
        if piece.headers is not None:
            columns.append(piece.headers.to_pylist())
        rows += zip(*columns, strict=True)
    return rows


def differences(found: Outcome, expected: Outcome) -> dict[str, str]:
    """Describe the differences between two runs, by name."""
    names = [*expected, *(name for name in found if name not in expected)]
    return {
        name: difference(found.get(name), expected.get(name)) for name in names if found.get(name) != expected.get(name)
    }


def difference(found: Any, expected: Any) -> str:
    """Describe the first difference between two outcomes.

    >>> difference([(b"a", b"1", 0)], [(b"a", b"1", 0), (b"b", b"1", 5)])
    "1 rows for 2, first at 1: [] for [(b'b', b'1', 5)]"
    """
    if isinstance(found, list) and isinstance(expected, list):
        pairs = enumerate(zip(found, expected, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(found), len(expected)))
        return f"{len(found)} rows for {len(expected)}, first at {at}: {found[at : at + 2]} for {expected[at : at + 2]}"
    return f"{found} for {expected}"
