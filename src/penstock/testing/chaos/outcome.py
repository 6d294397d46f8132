"""What a program put out and what its stores hold, to be compared with the same of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.engine.commit.opening import open_application
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.query.committed import committed_store
from penstock.settings import Settings
from penstock.storage import LocalStorage, Storage

Outcome = dict[str, Any]
"""By the name of a partition of an output topic its records in order, by that of a store its rows; how far the input
was read, and all figures."""

FIGURES = ("offsets", "figures")
"""What is in an outcome besides records and rows."""


def checkpoint(folder: Path) -> LocalStorage:
    """Where the commits of a program in a folder lie, whatever its folder of databases is."""
    return LocalStorage(folder / "state" / "checkpoint")


def outcome(
    folder: Path, topology: Topology, application_id: str, settings: Settings, storage: Storage | None = None
) -> Outcome:
    """Everything that a program put out, record for record, and what its stores hold.

    Args:
        storage: where its commits lie, if not in the folder.
    """
    log = FileLog(folder / "log")
    opened = open_application(topology, application_id, settings, log, storage or checkpoint(folder))
    found: Outcome = {}
    for topic in [*topology.sink_topics, *settings.dead_letters]:
        for partition, end in enumerate(log.end_offsets(topic)):
            found[f"{topic}[{partition}]"] = _records(log, topic, partition, end)
    for spec in topology.facts.stores.values():
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
    """In what two runs differ, by its name, in words."""
    names = [*expected, *(name for name in found if name not in expected)]
    return {
        name: difference(found.get(name), expected.get(name)) for name in names if found.get(name) != expected.get(name)
    }


def difference(found: Any, expected: Any) -> str:
    """Where two outcomes part.

    >>> difference([(b"a", b"1", 0)], [(b"a", b"1", 0), (b"b", b"1", 5)])
    "1 rows for 2, first at 1: [] for [(b'b', b'1', 5)]"
    """
    if isinstance(found, list) and isinstance(expected, list):
        pairs = enumerate(zip(found, expected, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(found), len(expected)))
        return f"{len(found)} rows for {len(expected)}, first at {at}: {found[at : at + 2]} for {expected[at : at + 2]}"
    return f"{found} for {expected}"
