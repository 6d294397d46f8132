"""The ids that deduplications remember, and the records that they have dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from penstock.engine.shared.layout import TaskId
from penstock.figures import metrics
from penstock.plan import nodes
from penstock.query.checkpoint import Checkpoint
from penstock.query.committed import committed_stores
from penstock.state.kinds.deduplication import DeduplicationStore

_REASONS = {
    metrics.DUPLICATES: "duplicate",
    metrics.DROPPED: "dropped",
    metrics.SKIPPED: "skipped",
    metrics.DEAD_LETTERS: "dead letter",
}


@dataclass(frozen=True)
class Remembered:
    """The entries that one task remembers for a deduplication."""

    node: str
    task: str
    ids: int
    stream_time: int
    """-1 before the first record."""
    oldest: int | None
    """The timestamp of the oldest entry, or None."""
    newest: int | None
    dropped: dict[str, int]
    """The records left out since the application's first start, by reason."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def remembered_by(checkpoint: Checkpoint, node: nodes.Deduplicate) -> list[Remembered]:
    """The entries that each task remembers for a deduplication, as of the last commit."""
    with committed_stores(checkpoint, node.store.name) as stores:
        found = {task: _remembered(checkpoint, node, task, store) for task, store in stores.items()}
    return [found[task] for task in sorted(found, key=lambda task: TaskId.parse(task).partition)]


def _remembered(checkpoint: Checkpoint, node: nodes.Deduplicate, task: str, store: Any) -> Remembered:
    assert isinstance(store, DeduplicationStore)
    times = [timestamp for _, _, timestamp in store.rows()]
    oldest, newest = (min(times), max(times)) if times else (None, None)
    dropped = _dropped(checkpoint, node, task)
    return Remembered(
        node.name, task, len(times), store.observed_stream_time, oldest=oldest, newest=newest, dropped=dropped
    )


def _dropped(checkpoint: Checkpoint, node: nodes.Deduplicate, task: str) -> dict[str, int]:
    """A task's figures of records that this step left out."""
    found: Counter[str] = Counter()
    for metric, figure in metrics.readable(checkpoint.manifest.metrics).items():
        if (metric.node, metric.task) == (node.name, task) and metric.name in _REASONS:
            what = _REASONS[metric.name]
            found[f"{what}: {metric.reason}" if metric.reason else what] += int(figure)
    return dict(sorted(found.items()))
