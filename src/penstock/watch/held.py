"""The entries that a step holds back, and when they will be emitted, from the facts that a start recorded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.picture import DrawnPart
from penstock.query.committed import CommittedStore
from penstock.query.key_value import BufferView
from penstock.query.rows import rows_of
from penstock.query.stores import view_of
from penstock.query.versions import Pinned, Version
from penstock.record import Windowed

_MOST = 10_000
"""The number of rows read in each task."""


def held_by(store: CommittedStore, part: DrawnPart, manifest: Manifest, limit: int) -> dict[str, Any]:
    """The entries that a step holds back, in the order of emission, each with the stream time of its task and the
    stream time at which it is emitted."""
    assert part.holds is not None
    version, rows, more = store.known, [], False
    for task, one in version.tasks.items():
        view = view_of(Pinned(Version(version.commit, {task: one})), store.shape)
        now, emitted = stream_time(manifest, task, part), _time(manifest, task, f"{part.name}-emitted")
        found = list(islice(_entries(view, part.holds.wait_ms, emitted), _MOST + 1))
        more |= len(found) > _MOST
        rows += [{**entry, "task": task, "stream_time": now} for entry in found[:_MOST]]
    rows.sort(key=lambda row: row["goes_at"])
    return {"node": part.name, "commit": version.commit, "count": len(rows), "more": more, "rows": rows[:limit]}


def _entries(view: Any, wait_ms: int, emitted: int) -> Iterator[dict[str, Any]]:
    """The held entries and their emission times; for windows that emit on close, those not emitted yet."""
    if isinstance(view, BufferView):
        for key, value, timestamp in view.all():
            time = key.end if isinstance(key, Windowed) else timestamp
            yield {"key": key, "value": value, "goes_at": time + wait_ms}
        return
    for row in rows_of(view):
        if row["window_end"] > emitted:
            window = Windowed(row["key"], row["window_start"], row["window_end"])
            yield {"key": window, "value": row["value"], "goes_at": row["window_end"] + wait_ms}


def _time(manifest: Manifest, task: str, name: str) -> int:
    entry = manifest.tasks.get(task)
    return -1 if entry is None else int(entry.numbers.get(name, {}).get("stream_time", -1))


def stream_time(manifest: Manifest, task: str, part: DrawnPart) -> int:
    """The stream time of a step in a task; -1 before its first record."""
    return max(_time(manifest, task, name) for name in (part.name, *part.stores))


def stream_times(manifest: Manifest) -> dict[str, list[int]]:
    """The stream times of steps and stores in their tasks, by name."""
    found: dict[str, list[int]] = {}
    for entry in manifest.tasks.values():
        for name, numbers in entry.numbers.items():
            if (time := numbers.get("stream_time", -1)) >= 0:
                found.setdefault(name, []).append(time)
    return found
