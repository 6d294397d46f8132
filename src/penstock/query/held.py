"""What suppressions and windows that emit on close hold back, and what it waits for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.durations import MAX_MS
from penstock.engine.shared.layout import TaskId
from penstock.plan import nodes
from penstock.plan.node import Node
from penstock.query.checkpoint import Checkpoint
from penstock.query.committed import committed_stores
from penstock.state.kinds.buffer import TimeOrderedBuffer


@dataclass(frozen=True)
class Held:
    """What one task holds back for a suppression, or for windows that emit on close."""

    node: str
    task: str
    records: int
    bytes: int | None
    """None for windows that emit on close: they lie in the store of the aggregates, which is held anyway."""
    stream_time: int
    """-1 before the first record."""
    first_goes_at: int | None
    """The stream time at which the oldest of it goes; None when nothing is held."""
    last_goes_at: int | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def held_by(checkpoint: Checkpoint, node: nodes.Suppress | nodes.WindowedAggregate) -> list[Held]:
    """What every task holds back for a step, as of the last commit."""
    with committed_stores(checkpoint, node.store.name) as stores:
        found = {task: _held_in(checkpoint, node, task, store) for task, store in stores.items()}
    return [found[task] for task in sorted(found, key=lambda task: TaskId.parse(task).partition)]


def _held_in(checkpoint: Checkpoint, node: nodes.Suppress | nodes.WindowedAggregate, task: str, store: Any) -> Held:
    if isinstance(node, nodes.Suppress):
        return _buffered(checkpoint, node, task, store)
    return _unclosed(checkpoint, node, task, store)


def _buffered(checkpoint: Checkpoint, node: nodes.Suppress, task: str, store: Any) -> Held:
    assert isinstance(store, TimeOrderedBuffer)
    stream_time = _time(checkpoint, task, node.name)
    times = [time + node.wait_ms for _, time, _, _ in store.rows()]
    return _of(node, task, times, store.numbers.get("bytes", 0), stream_time)


def _unclosed(checkpoint: Checkpoint, node: nodes.WindowedAggregate, task: str, store: Any) -> Held:
    """The windows whose results have not been sent on: those that end after the time up to which they have."""
    sides = [parent.name for parent in node.parents if isinstance(parent, nodes.CogroupInput)]
    stream_time = max(_time(checkpoint, task, name) for name in sides or [node.name])
    emitted = _time(checkpoint, task, f"{node.name}-emitted")
    is_time_window = type(node) is nodes.WindowAggregate
    if isinstance(node, nodes.SessionAggregate):
        ends = [session.end for session, _ in store.rows()]
    else:
        size: int = node.windows.size_ms  # type: ignore[union-attr]
        ends = [min(start, MAX_MS - size) + size for _, start, _, _ in store.rows()]
    wait = close_wait(node)
    open_ = [end + wait for end in ends if end > emitted or (end == emitted and not is_time_window)]
    return _of(node, task, open_, None, stream_time)


def close_wait(node: nodes.WindowedAggregate) -> int:
    """How far stream time must be past a window's end for its result to go; for a session a millisecond further than
    for a suppression to let it go, as in Kafka Streams."""
    return int(node.windows.final_after_ms) + isinstance(node, nodes.SessionAggregate)


def _time(checkpoint: Checkpoint, task: str, clock: str) -> int:
    return int(checkpoint.manifest.tasks[task].numbers.get(clock, {}).get("stream_time", -1))


def _of(node: Node, task: str, times: list[int], nbytes: int | None, stream_time: int) -> Held:
    first, last = (min(times), max(times)) if times else (None, None)
    return Held(node.name, task, len(times), nbytes, stream_time=stream_time, first_goes_at=first, last_goes_at=last)
