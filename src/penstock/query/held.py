"""What suppressions hold back, and what it waits for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.engine.layout import TaskId
from penstock.plan import nodes
from penstock.query.checkpoint import Checkpoint
from penstock.query.committed import committed_stores
from penstock.state.kinds.buffer import TimeOrderedBuffer


@dataclass(frozen=True)
class Held:
    """What one task holds back for a suppression."""

    node: str
    task: str
    records: int
    bytes: int
    stream_time: int
    """-1 before the first record."""
    first_goes_at: int | None
    """The stream time at which the oldest of it goes; None when nothing is held."""
    last_goes_at: int | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def held_by(checkpoint: Checkpoint, node: nodes.Suppress) -> list[Held]:
    """What every task holds back for a suppression, as of the last commit."""
    with committed_stores(checkpoint, node.store.name) as stores:
        found = {task: _held(checkpoint, node, task, store) for task, store in stores.items()}
    return [found[task] for task in sorted(found, key=lambda task: TaskId.parse(task).partition)]


def _held(checkpoint: Checkpoint, node: nodes.Suppress, task: str, store: Any) -> Held:
    assert isinstance(store, TimeOrderedBuffer)
    stream_time = checkpoint.manifest.tasks[task].numbers.get(node.name, {}).get("stream_time", -1)
    times = [time for _, time, _, _ in store.rows()]
    first, last = (min(times), max(times)) if times else (None, None)
    return Held(
        node.name,
        task,
        len(times),
        store.numbers.get("bytes", 0),
        stream_time,
        None if first is None else first + node.wait_ms,
        None if last is None else last + node.wait_ms,
    )
